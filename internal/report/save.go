package report

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// Save writes a page to a file. Whoever opens the name finds the whole page, or what was there
// before: a file beside it is filled, brought to the disk and only then given the name. On failure
// nothing is left of it.
func Save(name string, p Page) error {
	return save(name, p.Write, func(dir string) (file, error) { return os.CreateTemp(dir, ".getsetlock-report-*") })
}

// file is what Save needs of one; a test's has a full disk.
type file interface {
	io.WriteCloser
	Name() string
	Sync() error
	Chmod(os.FileMode) error
}

func save(name string, fill func(io.Writer) error, create func(dir string) (file, error)) (err error) {
	if at, err := os.Stat(name); err == nil && !at.Mode().IsRegular() {
		return &os.PathError{Op: "write", Path: name, Err: errors.New("it exists and is no regular file")}
	}
	f, err := create(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	// CreateTemp makes files that only their owner can read; a report is made to be shown.
	err = f.Chmod(0o644)
	if err == nil {
		err = fill(f)
	}
	if err == nil {
		err = f.Sync()
	}
	// A full disk may say so only now.
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	return err
}

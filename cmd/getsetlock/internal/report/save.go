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

// Check says by its error that [Save] could not write to a file of that name as things are, before the
// work is done whose result is to be saved. It leaves nothing.
func Check(name string) error {
	if err := regular(name); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".getsetlock-report-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// regular refuses a name that is something else's than a file's.
func regular(name string) error {
	if at, err := os.Stat(name); err == nil && !at.Mode().IsRegular() {
		return &os.PathError{Op: "write", Path: name, Err: errors.New("it exists and is no regular file")}
	}
	return nil
}

func save(name string, fill func(io.Writer) error, create func(dir string) (file, error)) (err error) {
	if err := regular(name); err != nil {
		return err
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

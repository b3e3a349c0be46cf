// SPDX-License-Identifier: Apache-2.0

package report

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// Save writes a page to a file. A reader of that name finds either the whole
// page or what was there before: Save fills a temporary file in the same
// directory, flushes it to the disk, and renames it. On failure it removes the
// temporary file.
func Save(name string, p Page) error {
	return save(name, p.Write, func(dir string) (file, error) {
		return os.CreateTemp(dir, ".getsetlock-report-*")
	})
}

// file is what Save needs of a file. A test has one on a full disk.
type file interface {
	io.WriteCloser
	Name() string
	Sync() error
	Chmod(os.FileMode) error
}

// Check returns the error with which [Save] would fail for a file of that name
// now, so that a long run does not fail at its end. It leaves no file.
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

// regular refuses a name of something other than a regular file.
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
	// CreateTemp makes files that only their owner can read. Others should be
	// able to read a report.
	err = f.Chmod(0o644)
	if err == nil {
		err = fill(f)
	}
	if err == nil {
		err = f.Sync()
	}
	// A full disk may show only now.
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	return err
}

// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
)

// Save writes a page to a file. A reader of that name finds either the whole
// page or what was there before: Save fills a temporary file in the same
// directory, flushes it to the disk, and renames it. On failure it removes the
// temporary file.
func Save(name string, p Page) error {
	var page bytes.Buffer
	if err := p.Write(&page); err != nil {
		return err
	}
	if err := regular(name); err != nil {
		return err
	}
	f, err := create(name)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // after the renaming there is none
	_, err = f.Write(page.Bytes())
	// CreateTemp makes files that only their owner can read. Others should be
	// able to read a report. A full disk may show only at the end.
	if err := errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

func create(name string) (*os.File, error) {
	return os.CreateTemp(filepath.Dir(name), ".getsetlock-report-*")
}

// Check returns the error with which [Save] would fail for a file of that name
// now, so that a long run does not fail at its end. It leaves no file.
func Check(name string) error {
	if err := regular(name); err != nil {
		return err
	}
	f, err := create(name)
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

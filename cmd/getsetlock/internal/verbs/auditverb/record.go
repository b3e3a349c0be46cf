// SPDX-License-Identifier: Apache-2.0

package auditverb

import (
	"os"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
)

// record is the file of --record. It ends with a whole line even if the disk
// fills up or the process is killed. A nil record writes nothing.
type record struct {
	file *os.File
	good int64 // bytes of whole lines
	err  error // first write error; nothing is written after it
}

// openRecord creates the file anew. It may hold confidential values, so other
// users cannot read it.
func (f *auditFlags) openRecord() (*record, error) {
	if f.record == "" {
		return nil, nil
	}
	file, err := os.OpenFile(f.record, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, out.CouldNot(out.WithoutPath(err), "creating --record %s", f.record)
	}
	return &record{file: file}, nil
}

// Write writes one whole line. It removes the part of a line that a full disk
// left.
func (r *record) Write(line []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.file.Write(line)
	if err == nil {
		r.good += int64(n)
		return n, nil
	}
	r.torn(n, err)
	return n, err
}

// torn removes the n bytes of an unfinished line.
func (r *record) torn(n int, err error) {
	r.err = err
	if n > 0 {
		_ = r.file.Truncate(r.good) // fails for what is not a regular file, which needs no removal
	}
}

func (r *record) failed() error {
	if r == nil {
		return nil
	}
	return r.err
}

func (r *record) close() error {
	if r == nil {
		return nil
	}
	return r.file.Close()
}

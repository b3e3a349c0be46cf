package auditverb

import (
	"os"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/skew/offset"
)

// record is the file of --record: whole lines, also when the disk is full or we are killed. Its nil is no
// record.
type record struct {
	file *os.File
	good int64 // bytes of whole lines
	err  error // the first of a write; nothing is written after it
}

// openRecord makes the file anew. What is in it may be somebody's business, so that others cannot read it.
func (f *auditFlags) openRecord() (*record, error) {
	if f.record == "" {
		return nil, nil
	}
	file, err := os.OpenFile(f.record, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, out.CouldNot(withoutPath(err), "making --record %s", f.record)
	}
	return &record{file: file}, nil
}

// Write takes one whole line. A piece of one, left by a full disk, is taken off again.
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

// torn takes the n bytes of a piece off again.
func (r *record) torn(n int, err error) {
	r.err = err
	if n > 0 {
		_ = r.file.Truncate(r.good) // of what is no file of a disk there is nothing to take off
	}
}

func (r *record) failed() error {
	if r == nil {
		return nil
	}
	return r.err
}

// failure is what to say of a record that ended early.
func (r *record) failure(name string) error {
	if err := r.failed(); err != nil {
		return out.CouldNot(withoutPath(err), "writing --record %s; it ends with what was seen until then", name)
	}
	return nil
}

func (r *record) close() error {
	if r == nil {
		return nil
	}
	return r.file.Close()
}

// lines returns what writes the demo's events. What fails is told of by failed.
func (r *record) lines() func(offset.Observed) {
	if r == nil {
		return func(offset.Observed) {}
	}
	w, _ := offset.NewObservedWriter(r)
	return func(o offset.Observed) { _ = w.Write(o) }
}

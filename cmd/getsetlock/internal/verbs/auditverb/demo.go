// SPDX-License-Identifier: Apache-2.0

package auditverb

import (
	"bytes"
	"cmp"
	"compress/gzip"
	_ "embed"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
)

// demoRecord is what audit --record wrote of a fleet that was arranged so that
// each mishap happens within two minutes: clocks that are ahead or step, an
// address with two clients, jobs that outlast the lease, two dialects on one
// key, a client that dies.
//
//go:embed demo.txt.gz
var demoRecord []byte

// claimForDemo fills in what is true of the recorded fleet and was not given.
func (f *auditFlags) claimForDemo(given func(flag string) bool) {
	if !given("match") {
		f.match = "lock:*"
	}
	f.lease, f.gap = cmp.Or(f.lease, 10*time.Second), cmp.Or(f.gap, 10*time.Millisecond)
}

func (f *auditFlags) showDemo(e *out.Env, a *auditAnswer) error {
	a.where = "the demo: 9 old clients, 2m0s of virtual time"
	record, err := gzip.NewReader(bytes.NewReader(demoRecord))
	if err == nil {
		err = f.replayFrom(e, record, a)
	}
	if err != nil {
		return out.CouldNot(err, "reading the demo's record")
	}
	return nil
}

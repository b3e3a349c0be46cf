// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"
)

// rehearse returns the result of a short rehearsal.
func rehearse(t *testing.T, change func(*Plan)) *Result {
	t.Helper()
	res, _ := booked(t, change)
	return res
}

// booked returns the book too.
func booked(t *testing.T, change func(*Plan)) (res *Result, b *book) {
	t.Helper()
	p := DefaultPlan()
	// A short lease: while a dead holder's lease lasts, every program polls,
	// which takes real time.
	p.Acquisitions, p.Lease = 400, 10*time.Second
	change(&p)
	synctest.Test(t, func(t *testing.T) {
		var err error
		if res, err = rehearseEmbedded(t.Context(), p, func(all *book) { b = all }); err != nil {
			t.Fatal(err)
		}
	})
	return res, b
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A deployment brings back the orders of programs that wait for a key. If one
// ended at the instant of the death that begins the deployment, the scheduler
// would choose whose order comes back first.
func TestDeploymentEndsNoProgramAtTheDeath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, err := newFleet(DefaultPlan(), "", nil)
		if err != nil {
			t.Fatal(err)
		}
		f.crew[0] = &worker{fleet: f, team: f.teams[0], closed: make(chan struct{})}
		f.redeploy(&worker{team: f.teams[0]}, "tea")
		synctest.Wait()
		early := f.crew[0].retired.Load()
		f.close.Wait()
		if early || !f.crew[0].retired.Load() {
			t.Errorf("it ended at the death: %v, after it: %v", early, f.crew[0].retired.Load())
		}
	})
}

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

func TestFleetOversellsOnlyWithoutALock(t *testing.T) {
	for _, c := range []struct {
		protocol               string
		clients, crashes       int
		oversold, apart, stuck bool // apart: no two programs worked on one product at once
	}{
		{"none", 8, 2, true, false, false},
		{"none", 1, 2, false, true, false},
		{"watch", 8, 2, false, false, false},
		{"bare", 8, 0, false, true, false},
		{"bare", 8, 1, false, true, true}, // the key of a dead holder never comes free
		{"dual", 8, 2, false, true, false},
		{"modern", 8, 2, false, true, false},
	} {
		res := rehearse(t, func(p *Plan) {
			p.Protocol, p.Clients, p.Crashes = c.protocol, c.clients, c.crashes
		})
		if res.OK != !(c.oversold || c.stuck) || (res.Oversold > 0) != c.oversold ||
			(res.Overlaps == 0) != c.apart || (res.Unserved > 0) != c.stuck {
			t.Errorf("%+v: %+v", c, res)
		}
		if c.protocol == "watch" && (res.Groups[0].Retries == 0 || res.OverlapsExcused != res.Overlaps) {
			t.Errorf("%+v", res)
		}
	}
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

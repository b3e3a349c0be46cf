// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"
)

// few returns the whole list, and under the race detector only its last
// element. There, whole fleets are four times as slow, and one shows as much as
// ten. make test rehearses all of them without the detector.
func few[T any](all []T) []T {
	if raced && len(all) > 1 {
		return all[len(all)-1:]
	}
	return all
}

func rehearse(t *testing.T, change func(*Plan)) *Result {
	t.Helper()
	p := DefaultPlan()
	// A short lease: while a dead holder's lease lasts, every program polls,
	// which takes real time.
	p.Acquisitions, p.Lease = 400, 10*time.Second
	change(&p)
	var res *Result
	synctest.Test(t, func(t *testing.T) {
		var err error
		if res, err = rehearseEmbedded(t.Context(), p, func(*book) {}); err != nil {
			t.Fatal(err)
		}
	})
	return res
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestFleetOversellsWithoutALock(t *testing.T) {
	res := rehearse(t, func(p *Plan) { p.Protocol = "none" })
	if res.OK || res.Oversold == 0 || res.Overlaps == 0 {
		t.Errorf("%+v", res)
	}
}

func TestSingleClientNeedsNoLock(t *testing.T) {
	res := rehearse(t, func(p *Plan) { p.Protocol, p.Clients = "none", 1 })
	if !res.OK || res.Oversold != 0 || res.Overlaps != 0 {
		t.Errorf("%+v", res)
	}
}

func TestWatchSellsRightWithRetries(t *testing.T) {
	res := rehearse(t, func(p *Plan) { p.Protocol = "watch" })
	if !res.OK || res.Oversold != 0 || res.Groups[0].Retries == 0 || res.OverlapsExcused != res.Overlaps {
		t.Errorf("%+v", res)
	}
}

func TestSameSeedSameResult(t *testing.T) {
	for _, protocol := range few([]string{"none", "watch", "bare", "legacy"}) {
		once := func(seed uint64) string {
			res := rehearse(t, func(p *Plan) {
				p.Protocol, p.Seed, p.Acquisitions = protocol, seed, 150
				switch protocol {
				case "bare":
					p.Patience = 2 * time.Second
				case "legacy":
					p.Overruns = 1
				}
			})
			return asJSON(t, res)
		}
		first, again, other := once(7), once(7), once(8)
		if first != again {
			t.Errorf("%s: one seed, two results:\n%s\n%s", protocol, first, again)
		}
		if first == other {
			t.Errorf("%s: two seeds, one result: %s", protocol, first)
		}
	}
}

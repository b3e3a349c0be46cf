// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/migrate"
)

// TestRollCallCostsTheSameWithManyKeys: from the reading of the members to the
// writing of the step, no message is sent for a key of the database. A live
// member once counted as vanished while 2 million keys were read.
func TestRollCallCostsTheSameWithManyKeys(t *testing.T) {
	after := map[int]int{}
	for _, keys := range []int{0, 3000} {
		inBubble(t, func(f *fleet) {
			f.join(migrate.MemberConfig{})
			f.to(migrate.Dual)
			for i := range keys {
				_ = f.w.Mini.Set(fmt.Sprintf("stock:%d", i), "x")
			}
			wire := f.w.Wire()
			if r, err := Advance(bg, wire.Pool(), f.options(Options{Go: true})); err != nil || !r.Moved {
				t.Fatal(r, err)
			}
			sent := wire.Sent()
			last := 0
			for i, c := range sent {
				if c.Is("HGETALL") {
					last = i
				}
				if (c.Is("SCAN") || c.Is("GETRANGE") || c.Is("PTTL")) && last > 0 {
					t.Errorf("%v is sent after the roster was read", c)
				}
			}
			after[keys] = len(sent) - last
		})
	}
	if after[0] != after[3000] {
		t.Errorf("with 3000 keys %d commands follow upon the roster, without %d", after[3000], after[0])
	}
}

// TestServerKnowsALeaseBeforeItIsTaken in the member's own field, and in the
// record, which outlives the roster.
func TestServerKnowsALeaseBeforeItIsTaken(t *testing.T) {
	inBubble(t, func(f *fleet) {
		f.to(migrate.Observe)
		m := f.join(migrate.MemberConfig{Every: 20 * time.Second})
		for _, ttl := range []time.Duration{10 * time.Second, 40 * time.Second, 20 * time.Second} {
			end := f.begin(m, ttl)
			end()
			longest := max(ttl, f.at(migrate.Observe).TTL)
			said, err := migrate.ParseMember(f.w.Mini.HGet(record.RosterKey(""), m.ID()))
			if r := f.at(migrate.Observe); r.TTL < ttl || r.TTL != longest || r.Every != 20*time.Second ||
				said.TTL != longest || err != nil {
				t.Errorf("a lease of %v: the record says %v and %v, the roster %v (%v)", ttl, r.TTL, r.Every,
					said.TTL, err)
			}
		}
	})
}

// TestLeaseThatTheServerDoesNotKnowIsRefused where the record cannot be raised.
func TestLeaseThatTheServerDoesNotKnowIsRefused(t *testing.T) {
	inBubble(t, func(f *fleet) {
		f.to(migrate.Observe)
		wire, m := f.wired(migrate.MemberConfig{})
		f.begin(m, 10*time.Second)()
		wire.Fault(redistest.Rule{Command: "EVALSHA", Times: -1, Do: redistest.Answer(redistest.OOM)})
		_, _, err := m.Begin(bg, 20*time.Second)
		says(t, err, "before the server knows of it")
		var passing interface{ Passing() bool }
		if !errors.As(err, &passing) || !passing.Passing() {
			t.Error("it does not say that it may pass")
		}
		if _, end, err := m.Begin(bg, 10*time.Second); err != nil {
			t.Errorf("a lease that it knows: %v", err)
		} else {
			end()
		}
	})
}

// TestGateSaysThatOnlyTheServerRestarted, where the roster is the one of
// before. Once noted, the record no longer says which it was, so the gate names
// all causes.
func TestGateSaysThatOnlyTheServerRestarted(t *testing.T) {
	inBubble(t, func(f *fleet) {
		f.join(migrate.MemberConfig{})
		f.w.Run("first")
		f.to(migrate.Sealed)
		f.w.Run("second")
		f.beats()
		says := func(found []Finding, want string) {
			t.Helper()
			for _, b := range found {
				if b.Rule != "lost" {
					continue
				}
				if !strings.Contains(b.Detail, want) || strings.Contains(b.Detail, "roster was lost at") {
					t.Errorf("%q does not say %q", b.Detail, want)
				}
				return
			}
			t.Errorf("no finding says %q: %v", want, found)
		}
		says(f.must(doAdvance, Options{}).Gate.Blocks, "the server restarted or another took over (its run id is not that of the last step), and members whose leases still run may be missing")
		says(f.must(doAdvance, Options{Go: true}).Gate.Blocks,
			"(the server restarted, another took over, or the roster was lost): their leases")
		for range 20 {
			f.w.Pass(5 * time.Second)
			f.beats()
		}
		says(f.must(doStatus, Options{}).Gate.Evidence, "members may have been missing from the roster at")
	})
}

// TestClocksThatDisagreeBeginALossAnew: the server's clock was set forward, so
// what it says of the time since proves nothing.
func TestClocksThatDisagreeBeginALossAnew(t *testing.T) {
	inBubble(t, func(f *fleet) {
		f.operator = f.w.Clock(redistest.Skew{}).On("operator")
		f.join(migrate.MemberConfig{})
		f.w.Run("first")
		f.to(migrate.Dual)
		f.w.Run("second")
		closed(t, f.advance(Options{Go: true}).Gate, "lost")
		noted := f.at(migrate.Dual).Lost
		f.w.StepServer(time.Hour)
		f.beats()
		closed(t, f.advance(Options{Go: true}).Gate, "lost")
		if f.at(migrate.Dual).Lost == noted {
			t.Error("the loss is as old as the clock that was set says")
		}
		f.w.Pass(93 * time.Second)
		closed(t, f.advance(Options{}).Gate)
	})
}

// TestTwoRunIDsLeaveTheNonceAlone: a proxy leads each connection elsewhere.
func TestTwoRunIDsLeaveTheNonceAlone(t *testing.T) {
	f := orderly(migrate.Dual)
	f.record.Run, f.server.runID, f.server.noRun = "first", "", "two connections were told different run ids"
	g := judge(f, migrate.Sealed)
	closed(t, &g)
	if !slices.ContainsFunc(g.Evidence, func(e Finding) bool { return e.Rule == "run-id" }) {
		t.Error("nobody says so")
	}
	f.nonce = "another"
	g = judge(f, migrate.Sealed)
	closed(t, &g, "lost")
}

// TestHeartbeatMakesNoFieldAndAMemberEntersAnew: a member that was forgotten
// writes its field first and reads the record afterwards.
func TestHeartbeatMakesNoFieldAndAMemberEntersAnew(t *testing.T) {
	inBubble(t, func(f *fleet) {
		f.to(migrate.Observe)
		wire, m := f.wired(migrate.MemberConfig{})
		f.beats()
		f.w.Mini.HDel(record.RosterKey(""), m.ID())
		wire.Forget()
		if err := m.Refresh(bg); err != nil {
			t.Fatal(err)
		}
		var order []string
		for _, c := range wire.Sent() {
			switch {
			case c.Is("EVALSHA") && c[len(c)-1] == "":
				order = append(order, "beat")
			case c.Is("EVALSHA") && slices.Contains(c, record.RosterKey("")):
				order = append(order, "enter")
			case c.Is("GET"):
				order = append(order, "read")
			}
		}
		if got := strings.Join(order, " "); got != "beat read enter read" || !f.seated(m.ID()) {
			t.Errorf("it sent %s", got)
		}
	})
}

// TestStepBesideAMemberThatEntersIsSeen: a member that reads the record before
// a step is in the roster that the verb reads, or the verb's write fails.
func TestStepBesideAMemberThatEntersIsSeen(t *testing.T) {
	inBubble(t, func(f *fleet) {
		f.join(migrate.MemberConfig{})
		f.to(migrate.Dual)
		isStep := func(c redistest.Command) bool { return slices.Contains(c, record.Key("")) }
		r, err := f.overtaken(Advance, Options{Go: true},
			redistest.Rule{Command: "EVALSHA", When: isStep}, func() {
				// raises the greatest period, and so changes the record
				f.begin(f.join(migrate.MemberConfig{Every: time.Minute}), 20*time.Second)
			})
		if err != nil {
			t.Fatal(err)
		}
		if r.Moved && len(r.Members) != 2 || !r.Moved && r.Gate.Open {
			t.Errorf("moved %v without the member that entered: %v", r.Moved, r.Members)
		}
	})
}

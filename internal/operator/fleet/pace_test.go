// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/migrate"
)

// among lets a member live in a fleet of so many, for so long.
func (f *fleet) among(others int, d time.Duration) {
	f.t.Helper()
	const step = time.Second
	for range d / step {
		f.w.Pass(step)
		if _, err := f.w.Mini.HIncr(record.LivedKey(""), record.LivedField,
			others*int(step.Milliseconds())); err != nil {
			f.t.Fatal(err)
		}
	}
}

// promised is how far the heartbeats of a member are apart, as the server has
// it.
func (f *fleet) promised(m *migrate.Member) time.Duration {
	f.t.Helper()
	s, err := migrate.ParseMember(f.w.Mini.HGet(record.RosterKey(""), m.ID()))
	if err != nil {
		f.t.Fatal(err)
	}
	return s.Every
}

// TestLargeFleetAnnouncesItsLongPeriods: a member that announced its
// silence does not count as vanished.
func TestLargeFleetAnnouncesItsLongPeriods(t *testing.T) {
	inBubble(t, func(f *fleet) {
		m := f.join(migrate.MemberConfig{})
		f.to(migrate.Dual)
		f.among(999, 3*time.Minute)
		every := f.promised(m)
		if every < 45*time.Second || every > 55*time.Second || m.State().Every != every {
			// when it beats is random at first
			t.Fatalf("said %v, holds to %v", every, m.State().Every)
		}
		f.among(999, 40*time.Second)
		closed(t, f.advance(Options{}).Gate)
		if err := m.Leave(); err != nil {
			t.Fatal(err)
		}
		f.w.Pass(record.BeatsMissed*every + 2*time.Second)
		closed(t, f.advance(Options{}).Gate, "vanished")

		lone := f.join(migrate.MemberConfig{})
		f.among(999, 2*time.Minute)
		f.w.Pass(10 * time.Minute) // the others are gone
		if got := f.promised(lone); got != beatEvery {
			t.Errorf("alone it beats every %v", got)
		}
	})
}

// TestWhoMayNotCountBeatsAsASmallFleet: the right to HINCRBY is not needed for
// anything else.
func TestWhoMayNotCountBeatsAsASmallFleet(t *testing.T) {
	inBubble(t, func(f *fleet) {
		f.init(Options{})
		wire, m := f.wired(migrate.MemberConfig{}, redistest.Rule{
			Command: "HINCRBY", Times: -1, Do: redistest.Answer(redistest.NoPerm)})
		f.among(999, time.Minute)
		phase(t, m, migrate.Observe)
		if got := f.promised(m); got != beatEvery {
			t.Errorf("it beats every %v", got)
		}
		if n := wire.Count("HINCRBY"); n != 12 {
			t.Errorf("it beat %d times in a minute", n)
		}
	})
}

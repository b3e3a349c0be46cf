// SPDX-License-Identifier: Apache-2.0

package explore

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
)

// The test compares the explorer's clients with the dialect's own reading of
// real bytes: what follows a GET, and what a GETSET's reply decides.
func TestMachinesJudgeAsTheirDialectDoes(t *testing.T) {
	now := time.Unix(1_770_000_000, 0)
	for _, d := range dialect.Presets() {
		if !d.HasTakeover() {
			continue
		}
		m, err := New(Scenario{Dialect: d, Old: 1, Lease: 5})
		if err != nil {
			t.Fatal(err)
		}
		u := grid(d)
		for at := int8(-3); at <= 3; at++ {
			if d.Unit == dialect.UnitFloatSeconds && at == 0 {
				continue // in float seconds nothing is equal
			}
			lease := 5 * u
			text, err := d.Stamp(now.Add(time.Duration(at)*u-lease-d.Slack), lease, strangersUUID)
			if err != nil {
				t.Fatal(err)
			}
			real := d.LegacyNext(dialect.Text(text), ownUUID, now)
			c := Client{Seen: Seen{StampMark, Stranger, at}, Stamp: m.Slack + int8(m.Lease)}
			if got := m.nextStep(&State{}, &c, Name(0)); got != real {
				t.Errorf("%s, %+d: machine %s, dialect %s", d, at, got, real)
			}
			before := Mark{Kind: StampMark, Who: Stranger, At: at}
			for _, same := range []bool{true, false} {
				saw, sawText := before, text
				if !same {
					saw.At -= 4
					sawText, _ = d.Stamp(now.Add(time.Duration(at-4)*u-lease-d.Slack), lease, strangersUUID)
				}
				real := d.LegacyWins(dialect.Text(text), dialect.Text(sawText), now) == dialect.Won
				if got := m.won(before, saw.AsSeen(), 0); got != real {
					t.Errorf("%s, GETSET returned %+d, GET the same %v: machine %v, dialect %v", d, at, same,
						got, real)
				}
			}
		}
		missing := d.LegacyNext(dialect.Nil(), ownUUID, now)
		if got := m.nilStep(); (got == dialect.StepGetset) != (missing == dialect.StepGetset) ||
			(got == dialect.StepSetnxOnce) != (missing == dialect.StepSetnxOnce) {
			t.Errorf("%s, nothing there: machine %s, dialect %s", d, got, missing)
		}
		if got := m.won(Mark{}, Seen{Kind: StampMark},
			0); got != (d.LegacyWins(dialect.Nil(), dialect.Text("1"), now) == dialect.Won) {
			t.Errorf("%s, GETSET returned nil: machine %v", d, got)
		}
		if m.readsMark == dialect.StepGetset {
			t.Errorf("%s takes a guard over", d)
		}
	}
}

const (
	ownUUID       = "00000000-0000-4000-8000-00000000000a"
	strangersUUID = "00000000-0000-4000-8000-00000000000b"
)

// grid is how far apart the test's times are. A double cannot distinguish all
// microseconds of today, so float seconds use a coarser grid.
func grid(d dialect.Dialect) time.Duration {
	if d.Unit == dialect.UnitFloatSeconds {
		return time.Millisecond
	}
	return d.Unit.Step()
}

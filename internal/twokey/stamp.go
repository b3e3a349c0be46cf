// SPDX-License-Identifier: Apache-2.0

package twokey

import (
	"crypto/rand"
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/polite"
	"github.com/getsetlock/getsetlock/internal/wire"
)

// stamp is the mark of strategy Stamp. It does not keep its bytes on L: M's
// value has them, even after a reply was lost.
type stamp struct {
	e     *Engine
	t     *timing // of the attempt; its gap is every renewal's
	token any
	id    string // the dialect's own part of the value, which no old client ever drew
	head  any    // what precedes the number on L; the token itself in dialects without a stamp
}

func (e *Engine) newStamp(token string, ttl time.Duration) (*stamp, error) {
	t, err := e.timingOf(ttl)
	if err != nil {
		return nil, err
	}
	m := &stamp{e: e, t: t, token: token, head: argNone}
	switch d := &e.Settings.Dialect; {
	case d.Shape == dialect.ShapeUUIDNumber:
		var b [16]byte
		rand.Read(b[:])
		m.id = d.NewID(b)
		m.head = m.id + ":"
	case !d.HasStamp():
		m.head, m.id = m.token, token
	}
	return m, nil
}

// Positions of the server's clock among the scripts' arguments, counted from
// the first key.
const (
	stampAcquireClock = 3 + 8
	stampFinishClock  = 2 + 5
)

func (m *stamp) acquisition(args []any, g *Grant, seen string) []any {
	args = append(args, g.k.ArgL, g.k.ArgM, g.k.argLook)
	return m.written(args, m.t, argNone, argNone, seen)
}

// written appends what a script needs that writes the stamp.
func (m *stamp) written(args []any, t *timing, sec, usec, last any) []any {
	d := &m.e.Settings.Dialect
	unit := any(unitArgs[d.Unit])
	if !d.HasStamp() {
		unit = unitArgs[dialect.UnitNone]
	}
	return append(args, m.token, t.m, t.l, unit, t.sec, t.usec, m.head, encodingArgs[d.ValueEncoding],
		sec, usec, last)
}

// Names that the scripts use, boxed once for all commands.
var (
	unitArgs = map[dialect.Unit]any{
		dialect.UnitMillis: "ms", dialect.UnitSeconds: "s", dialect.UnitFloatSeconds: "float_s",
		dialect.UnitNanos: "ns", dialect.UnitTicks: "ticks", dialect.UnitNone: "none",
	}
	encodingArgs = map[dialect.Encoding]any{dialect.Plain: "plain", dialect.JDK: "jdk", dialect.JSON: "json"}
)

// taken reads status, the server's clock, PTTLs of L and M.
func (m *stamp) taken(g *Grant, reply any) (took int64) {
	f, _ := reply.([]any)
	if len(f) != 5 {
		return 0
	}
	g.server = time.Unix(Number(f[1]), Number(f[2])*1000)
	g.term.TTL = g.lesser(f[3], f[4])
	return Number(f[0])
}

func (m *stamp) renewal(g *Grant, ttl time.Duration, sec, usec any) (wire.Command, error) {
	t, err := m.e.timingOf(ttl)
	if err != nil {
		return wire.Command{}, err
	}
	args := append(make([]any, 0, 13), g.k.ArgL, g.k.ArgM)
	return stampRenew.Cmd(m.written(args, t, sec, usec, t.gap)...), nil
}

// ending is release, or finish where the key means "done": then what an old
// client would have written when this grant took the key stays, until that
// stamp ends (rule 10).
func (m *stamp) ending(args []any, g *Grant, gap time.Duration) (*wire.Script, int, []any, error) {
	g.mu.Lock()
	took := g.server
	g.mu.Unlock()
	args = append(args, g.k.ArgL, g.k.ArgM, m.token, m.t.gap)
	switch {
	case gap > 0:
		return stampRelease, 0, append(args, polite.Millis(gap)), nil
	case !m.e.Settings.Dialect.NeverReleases() || took.IsZero():
		return stampRelease, 0, args, nil
	}
	bytes, lease, err := m.e.done(took, m.id)
	if err != nil {
		return nil, 0, nil, err
	}
	end := took.Add(lease)
	return stampFinish, stampFinishClock, append(args, bytes, end.Unix(),
		end.Nanosecond()/int(time.Microsecond), argNone, argNone), nil
}

// done returns what an old client writes that takes the key at an instant, and
// for how long that counts.
func (s *Server) done(took time.Time, id string) (bytes string, lasts time.Duration, err error) {
	d := &s.Settings.Dialect
	lease := max(s.Settings.Terms.Lease, d.Unit.Step())
	bytes, err = d.Stamp(took, lease, id)
	if err == nil {
		bytes, err = d.EncodeValue(bytes)
	}
	return bytes, lease + d.Slack, err
}

// timing is what a TTL means on the wire, as arguments that are boxed once for
// all commands.
type timing struct {
	ttl  time.Duration
	m    any // PX of M, in ms
	l    any // PX of L, in ms
	sec  any // how far the stamp lies after the server's clock: whole seconds …
	usec any // … and the rest, in microseconds
	gap  any // end of L less end of M, in ms; empty where the script does not check it

	beyond int64         // end of L less end of M, in ms
	ahead  time.Duration // how far the stamp lies beyond the lease's end
}

// timing computes the arguments for a TTL, or refuses it.
func (e *Engine) timingOf(ttl time.Duration) (*timing, error) {
	// A clock that was seen further ahead than the claim still lies a day short
	// of the stamp.
	seen := dialect.Terms{Ahead: e.watch.contradictions().Ahead}
	ahead := max(e.Settings.Terms.StampAhead(), seen.StampAhead()) + e.watch.lost()
	if t := e.timing.Load(); t != nil && t.ttl == ttl && t.ahead == ahead {
		return t, nil
	}
	switch {
	case ttl < time.Millisecond:
		return nil,
			fmt.Errorf("TTL %v is less than a millisecond, the shortest that the server keeps", ttl)
	case ttl > dialect.LongestStamp:
		return nil,
			fmt.Errorf("TTL %v exceeds %v, the longest lease whose stamp still counts as plausible",
				ttl, dialect.LongestStamp)
	}
	if err := e.Settings.Dialect.CheckLease(ttl, e.Settings.Terms); err != nil {
		return nil, err
	}
	d := e.Settings.Dialect
	t := &timing{ttl: ttl, ahead: ahead, m: ttl.Milliseconds(), l: ttl.Milliseconds(), sec: int64(0),
		usec: int64(0), gap: ""}
	if d.HasStamp() {
		// The stamp lies beyond every old client's clock. So it is L's PX that
		// frees the key after a crash.
		beyond := roundUp(roundUp(ttl+ahead, max(d.Unit.Step(), time.Microsecond))+d.Slack, time.Microsecond)
		t.sec, t.usec = int64(beyond/time.Second), int64(beyond%time.Second/time.Microsecond)
		if d.ServerExpires() {
			// An old client that writes the same bytes sets its own TTL on
			// them. That TTL must not end where this client's does, or a loss
			// would go unnoticed. (Package skew has the trace.)
			gap, _ := dialect.Claimed(e.Settings.Terms.Gap)
			t.beyond = roundUp(gap, time.Millisecond).Milliseconds() + 2*endsTogether
			t.gap = t.beyond
		}
		t.l = ttl.Milliseconds() + t.beyond
	}
	e.timing.Store(t)
	return t, nil
}

// endsTogether is how far L's end may be from where it belongs, in ms, for L to
// count as unchanged (stamp/shared.lua).
const endsTogether = 100

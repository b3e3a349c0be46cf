// SPDX-License-Identifier: Apache-2.0

package twokey

import (
	"crypto/rand"
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/fencing"
	"github.com/getsetlock/getsetlock/internal/polite"
	"github.com/getsetlock/getsetlock/internal/wire"
)

// guard is the mark of the strategies Guard, Tombstone and Nothing. M's value
// is the token, a blank and the bytes on L, a blank and the settings' Tag.
type guard struct {
	e     *Engine
	value any // value of M; after a lost reply a guess that scripts check
	guard any // bytes for L where there is no tombstone; empty: none
	on    any // bytes on L; after a lost reply a guess that scripts check
}

// TombstonePX is how long a tombstone lasts while no client takes the lock: 30
// days, in milliseconds.
const TombstonePX = int64(30 * 24 * time.Hour / time.Millisecond)

// newGuard returns the mark with the grant's token.
func (e *Engine) newGuard(by Strategy) (m *guard, token string, err error) {
	m = &guard{e: e, guard: argNone}
	if by != Nothing {
		drawn, err := e.draw()
		if err != nil {
			return nil, "", err
		}
		m.guard = drawn
	}
	m.on = m.guard
	var room [128]byte
	value := appendToken(room[:0])
	if by != Nothing {
		value = append(append(append(value, ' '), m.on.(string)...), e.Settings.Tag...)
	}
	whole := string(value)
	m.value = whole
	return m, whole[:tokenLength], nil
}

func (m *guard) onTomb() bool { return m.on == m.e.tomb }

// draw makes a random guard, as the bytes for L.
func (e *Engine) draw() (string, error) {
	d, uuid := &e.Settings.Dialect, ""
	if d.Shape == dialect.ShapeUUIDNumber {
		var id [16]byte
		rand.Read(id[:]) // never fails
		uuid = d.NewID(id)
	}
	low, high := d.GuardRange()
	text, ok := d.Guard(between(low, high), uuid)
	if !ok {
		return "", fmt.Errorf("%s has no guard", d.Name)
	}
	return d.EncodeValue(text)
}

// between draws a random number from low to high, each with the same chance: a
// number outside is drawn again.
func between(low, high int64) int64 {
	for {
		var raw [8]byte
		rand.Read(raw[:])
		var n int64
		for _, c := range raw {
			n = n<<8 | int64(c)
		}
		if n &= 1<<63 - 1; n >= low && n <= high {
			return n
		}
	}
}

// guardAcquireClock is the number of keys and arguments of the acquire script
// before TIME, in an engine with fencing numbers.
const guardAcquireClock = 12

// acquisition leaves out trailing arguments that are not needed, since each
// costs the server a part of a microsecond.
func (m *guard) acquisition(args []any, g *Grant, ttl time.Duration, seen string) (*wire.Script, int,
	[]any) {
	e := m.e
	script, clockAt, numbers, tombPX, last := guardAcquire, 0, argNone, argNone, 0
	args = append(args, g.k.ArgL, g.k.ArgM, g.k.argLook)
	if e.Settings.Counters != "" {
		script, clockAt, args = guardAcquireNumber, guardAcquireClock, append(args, e.counter(g.k))
		numbers, last = argBlock, 1
	}
	args = append(args, m.value, e.px(ttl), m.guard, e.tomb)
	if g.strategy >= Tombstone {
		tombPX, last = argTombPX, 2
	}
	needed := len(args)
	args = append(args, numbers, tombPX, argNone, argOne)
	if seen != "" {
		args[needed+2], last = seen, 3
	}
	if e.wantsClock() {
		last = 4
	}
	return script, clockAt, args[:needed+last]
}

// Arguments boxed once.
var (
	argNone   = any("")
	argZero   = any(0)
	argOne    = any(1)
	argBlock  = any(fencing.Block)
	argTombPX = any(TombstonePX)
)

// boxed is a TTL and its argument.
type boxed struct {
	ttl time.Duration
	arg any
}

// px is a TTL in milliseconds, rounded down, so that the server keeps a key no
// longer than the lease.
func (e *Engine) px(ttl time.Duration) any {
	if last := e.millis.Load(); last != nil && last.ttl == ttl {
		return last.arg
	}
	next := &boxed{ttl, ttl.Milliseconds()}
	e.millis.Store(next)
	return next.arg
}

// clockEvery is the time between attempts on free keys that also read the
// server's clock, so that its steps are seen. Looks at held keys always read
// it.
const clockEvery = time.Second

// wantsClock reports that this attempt reads the server's clock. Where the key
// means "done" every attempt does: what it leaves there says when the lock was
// taken.
func (e *Engine) wantsClock() bool {
	if e.Settings.Dialect.NeverReleases() {
		return true
	}
	now, last := int64(e.Clock.Elapsed()), e.read.Load()
	return (last == 0 || now-last >= int64(clockEvery)) && e.read.CompareAndSwap(last, max(now, 1))
}

// taken reads a fencing number or 1, below zero on the tombstone, or the status
// with the server's clock.
func (m *guard) taken(g *Grant, reply any) (took int64) {
	var number int64
	switch f := reply.(type) {
	case int64:
		took, number = tookFree, f
		if f < 0 {
			took, number = tookTomb, -f
		}
	case []any:
		if len(f) != 4 {
			return 0
		}
		took, number = Number(f[0]), Number(f[3])
		if sec := Number(f[1]); sec > 0 {
			g.server = time.Unix(sec, Number(f[2])*1000)
		}
	}
	if took == 0 || number == 0 {
		return 0
	}
	if took == tookTomb {
		m.on, m.value = m.e.tomb, g.token+" "+m.e.Tombstone()+m.e.Settings.Tag
	}
	g.numbered(number)
	return took
}

// cut compares a guard's TTL with M's. A tombstone's was cut when it is far
// below its 30 days, which days of ageing do not explain.
func (m *guard) cut(l, mark int64) bool {
	switch {
	case m.on == argNone || l < 0:
		return false
	case m.onTomb():
		return l < TombstonePX/4
	}
	return l < mark-jitter
}

// ending chooses by what replaces the guard on L.
func (m *guard) ending(args []any, g *Grant, gap time.Duration) (*wire.Script, []any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	by, done := g.endsAs(), g.doneFor()
	left, px := m.leaves(g, by, done)
	args = append(args, g.k.ArgL, g.k.ArgM, m.value, m.on, m.e.tomb)
	switch {
	case gap > 0:
		return guardLeave, append(args, polite.Millis(gap))
	case by >= Tombstone && left != argNone && done > 0:
		// No grant has such a token, so no delayed command renews or releases
		// it.
		return guardDone, append(args, px, string(appendToken(nil)), done.Milliseconds())
	case left != argNone:
		args = append(args, left, px)
	}
	return guardRelease, args
}

// endsAs is the strategy that a release goes by: the lease's, or Guard where
// the fleet has gone back meanwhile. Then the release leaves no tombstone,
// after the way back has deleted them.
func (g *Grant) endsAs() Strategy {
	if g.strategy >= Tombstone && g.account.Back() {
		return Guard
	}
	return g.strategy
}

// leaves is what replaces the guard on L. On a tombstone's way it is the
// tombstone, with one exception: where an old client takes its own bytes for
// its lock and may still write them. It would overwrite the tombstone, and
// nobody would notice. Where the key means "done", it is the stamp that an old
// client would have left. The caller holds g.mu.
func (m *guard) leaves(g *Grant, by Strategy, done time.Duration) (bytes, px any) {
	d := &m.e.Settings.Dialect
	switch {
	case by >= Tombstone && (g.settled || !d.OrMine):
		return m.e.tomb, argTombPX
	case by != Guard || done == 0:
		return argNone, argZero
	}
	id := ""
	if d.OrMine {
		id = d.NewID([16]byte{})
	}
	stamp, _, err := m.e.done(g.server, id)
	if err != nil {
		return argNone, argZero
	}
	return stamp, done.Milliseconds()
}

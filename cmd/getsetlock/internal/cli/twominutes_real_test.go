// SPDX-License-Identifier: Apache-2.0

//go:build real && unix

package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/interop"
	"github.com/getsetlock/getsetlock/legacy"
)

// The old clients of these tests are the published jar, with one clock that is
// two minutes off the server's. Their clocks agree with each other, so the four
// times below are true. No flag says how far they are off the server.
const (
	jarLease  = 5 * time.Second
	jarJob    = 2 * time.Second
	jarGap    = time.Second
	jarSpread = 100 * time.Millisecond
	jarIdle   = 10 * time.Second // longer than any of them pauses on a busy machine
)

var (
	// A fleet that is ahead looks like one with leases of two minutes, so the
	// gates ask for the greatest lease.
	jarTimes = []string{"--lease", jarLease.String(), "--greatest", jarLease.String(), "--gap",
		jarGap.String(), "--spread", jarSpread.String()}
	jarClaims = append([]string{"--namespace", "stock", "--job", jarJob.String(), "--idle", jarIdle.String()},
		jarTimes...)
	// A run with the longest possible lease, whose command ends at once,
	// survives the pauses of a busy machine.
	patientRun = []string{"--ttl", "3500ms", "--grace", "100ms"}
	besideJars = slices.Concat(jarTimes, patientRun)
)

// The doctor examines the keys that begin with sto. The namespace is stock.
const (
	busyKey   = "stock:1"
	buriedKey = "store:1"
	robbedKey = "till:1"
)

func TestJarsTwoMinutesOffKeepTheirLocks(t *testing.T) {
	t.Parallel()
	program := clitest.Built(t)
	for name, off := range map[string]time.Duration{"behind": -2 * time.Minute, "ahead": 2 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newTwoMinutes(t, program, off)
			f.bury()
			f.doctors()
			f.falseClaim()
			f.contend()
			f.migrate()
			f.stop()
			f.exhume()
		})
	}
}

// bury lets a jar die with a key that no client asks for.
func (f *twoMinutes) bury() {
	f.t.Helper()
	dies := f.client(buriedKey, 0)
	f.take(dies)
	f.check(dies.Die(f.ctx))
}

// exhume shows that the doctor does free a lock. In a fleet behind the server,
// the dead jar's stamp was past from the start. In a fleet ahead, the stamp
// passes after two minutes.
func (f *twoMinutes) exhume() {
	f.t.Helper()
	left, err := redis.String(f.do("GET", buriedKey))
	if f.off < 0 && err != redis.ErrNil {
		f.t.Errorf("a dead jar's %s: %q, %v", buriedKey, left, err)
	}
}

// falseClaim shows that the ledger sees a robbery. With --behind 1s a fleet
// behind the server is robbed, and a fleet ahead of it is not.
func (f *twoMinutes) falseClaim() {
	f.t.Helper()
	l := newLedger()
	jar := f.client(robbedKey, 0)
	won := f.take(jar)
	l.enter("jar")
	wait := "1s"
	if f.off < 0 {
		wait = "1m" // a busy machine may be late
	}
	s, err := f.run(append([]string{"--protocol", "legacy", "--dialect", "jedis", "--behind", "1s",
		"--wait", wait}, besideJars...),
		robbedKey)
	if err == nil {
		l.enter("run --behind 1s")
		l.leave("run --behind 1s")
		_ = s.end() // the jar's value is gone, so the end may report a loss
	}
	l.leave("jar")
	f.check(jar.Release(f.ctx))
	if robbed := len(l.overlaps) > 0; robbed != (f.off < 0) {
		f.t.Errorf("the jar held %s from %s on; robbed under a false claim: %v (%v)", robbedKey, won, robbed,
			err)
	}
}

// contend lets jars, run --protocol legacy and run --protocol dual share one
// key. Meanwhile jars die with two other keys, which no doctor examines.
func (f *twoMinutes) contend() {
	f.t.Helper()
	g := f.group()
	for n := range 3 {
		g.jar(fmt.Sprintf("jar %d", n))
	}
	for _, protocol := range []string{"legacy", "dual", "legacy", "dual"} {
		g.ours(protocol, append([]string{"--protocol", protocol, "--wait", "forever"}, besideJars...)...)
	}
	for _, protocol := range []string{"legacy", "dual"} {
		key := "till:crashed:" + protocol
		dies, next := f.client(key, 0), f.client(key, 3*jarLease)
		g.wg.Go(func() {
			if err := f.crash(protocol, key, dies, next); err != nil {
				g.failed("after a crash "+protocol, err)
			}
			g.ledger.count("after a crash " + protocol)
		})
	}
	f.reach(map[string]int{"jar 0": 3, "jar 1": 3, "jar 2": 3, "legacy": 6, "dual": 6,
		"after a crash legacy": 1, "after a crash dual": 1})
	g.stop()
}

// crash lets a jar die while it holds. In a fleet behind the server, a
// getsetlock client without --wait takes the lock over by a second look. In a
// fleet ahead, the stamp is not past yet, and another jar takes the lock over.
// Then each side gets the key again.
func (f *twoMinutes) crash(protocol, key string, dies, next *interop.Client) error {
	ours := append([]string{"--protocol", protocol}, besideJars...)
	value, err := taken(f.ctx, dies)
	if err != nil || value == "" {
		return fmt.Errorf("the jar that is to die never held: %w", err)
	}
	held := time.Now()
	if err := dies.Die(f.ctx); err != nil {
		return err
	}
	if f.off < 0 {
		if err := f.runs(ours, key); err != nil {
			return err
		}
		waited := time.Since(held)
		if f.logf("%s ran after a dead jar, %v later", protocol,
			waited.Round(time.Millisecond)); waited <= jarLease {
			return fmt.Errorf("it took %s over after %v, and the lease is %v", key, waited, jarLease)
		}
	} else if err := f.runs(append(ours, "--wait", "0s"), key); err == nil ||
		!strings.Contains(err.Error(), "exit status 124") {
		return fmt.Errorf("with a stamp two minutes ahead: %w", err)
	}
	if value, err = taken(f.ctx, next); err != nil || value == "" {
		return fmt.Errorf("the next jar did not take %s: %w", key, err)
	}
	if err := next.Release(f.ctx); err != nil {
		return err
	}
	return f.runs(ours, key)
}

// migrate takes the namespace from observe to clean. Jars work until dual, and
// stop before the window to sealed begins.
func (f *twoMinutes) migrate() {
	f.t.Helper()
	f.verb(0, append([]string{"migrate", "init"}, jarClaims...)...)
	f.watch()
	old, members := f.group(), f.group()
	for n := range 2 {
		old.jar(fmt.Sprintf("jar %d", n))
	}
	for range 3 {
		members.ours("auto", append(
			[]string{"--protocol", "auto", "--namespace", "stock", "--wait", "forever"}, patientRun...)...)
	}
	both := map[string]int{"jar 0": 2, "jar 1": 2, "auto": 5}
	f.reach(both)
	f.advance("dual")
	f.reach(both)
	old.stop()
	f.advance("sealed")
	members.renewed() // a run of dual deletes the guard that it wrote over a tombstone
	f.sealed()
	f.shutOut()
	f.advance("modern")
	f.reach(map[string]int{"auto": 3})
	// The jar that was shut out came after a longer pause than was claimed.
	f.advance("clean", "--idle", "1m")
	f.reach(map[string]int{"auto": 3})
	// the tombstones would stay for 30 days
	f.repeat("swept", "migrate", "sweep", "--namespace", "stock", "--go")
	members.stop()
	for _, key := range []string{busyKey, legacy.MarkKey(busyKey)} {
		if left, err := redis.String(f.do("GET", key)); err != redis.ErrNil {
			f.t.Errorf("%s is left as %q, %v", key, left, err)
		}
	}
}

// sealed waits until a release has left the tombstone. Until then the phase
// works as dual does, and an old client may still take the key
// (docs/internals/protocol.md).
func (f *twoMinutes) sealed() {
	f.t.Helper()
	for n := range 50 {
		f.reach(map[string]int{"auto": n + 3})
		if on, err := redis.String(f.do("GET", busyKey)); err == nil && on == dialect.Tombstone63 {
			return
		}
	}
	f.t.Fatalf("no release in sealed leaves a tombstone on %s", busyKey)
}

// shutOut lets a forgotten jar try to take a key with a tombstone.
func (f *twoMinutes) shutOut() {
	f.t.Helper()
	forgotten := f.client(busyKey, 300*time.Millisecond)
	got, err := forgotten.Acquire(f.ctx)
	if err != nil || got.Won {
		f.t.Errorf("a jar got a key with a tombstone: %+v, %v", got, err)
	}
	if l, err := redis.String(f.do("GET", busyKey)); err != nil ||
		len(l) != len(dialect.Jedis().Tombstone()) {
		f.t.Errorf("%q is stored on %s, %v", l, busyKey, err)
	}
}

// advance passes the gate as soon as the window has passed.
func (f *twoMinutes) advance(to string, claims ...string) {
	f.t.Helper()
	verb := []string{"migrate", "advance", "--go", "--to", to}
	if to == "clean" {
		verb = []string{"migrate", "clean", "--go"}
	}
	f.repeat("to "+to, slices.Concat(verb, jarClaims, claims)...)
	f.ledger.begin()
}

// repeat runs a verb until its gate is open, once after each examination by the
// doctor.
func (f *twoMinutes) repeat(done string, verb ...string) {
	f.t.Helper()
	began := time.Now()
	for {
		got := f.speak(verb...)
		if got.Code == 0 {
			break
		}
		if got.Code != 1 || f.ctx.Err() != nil {
			f.t.Fatalf("not %s: code %d\n%s%s", done, got.Code, got.Out, got.Errors)
		}
		f.last = got
		f.examined()
	}
	f.logf("%s after %v", done, time.Since(began).Round(time.Millisecond))
}

// checkHeld fails the test unless the key holds what its jar wrote, or the
// stamp of a jar that lost the same takeover and wrote within the gap.
func (f *twoMinutes) checkHeld(key, won string) error {
	now, err := redis.String(f.do("GET", key))
	if err != nil {
		return fmt.Errorf("%s, won with %s, was deleted: %w", key, won, err)
	}
	var at [2]int64
	if _, err := fmt.Sscan(won+" "+now, &at[0], &at[1]); err != nil {
		return fmt.Errorf("%s, won with %s, holds %q", key, won, now)
	}
	if slices.Sort(at[:]); at[1]-at[0] > jarGap.Milliseconds() {
		return fmt.Errorf("%s, won with %s, was moved to %s", key, won, now)
	}
	return nil
}

// checkMark fails unless the run's token is still on key M.
func (f *twoMinutes) checkMark(key, token string) error {
	m, err := redis.String(f.do("GET", legacy.MarkKey(key)))
	if err != nil || !strings.HasPrefix(m, token) {
		return fmt.Errorf("key M of %s holds %q and not %s, %v", key, m, token, err)
	}
	return nil
}

func (f *twoMinutes) take(c *interop.Client) (value string) {
	f.t.Helper()
	value, err := taken(f.ctx, c)
	if err != nil || value == "" {
		f.t.Fatalf("a jar did not take its lock: %v", err)
	}
	return value
}

// taken returns what a jar wrote when it won, and "" if it gave up.
func taken(ctx context.Context, c *interop.Client) (value string, err error) {
	a, err := c.Acquire(ctx)
	if err != nil || !a.Won {
		return "", err
	}
	calls, err := c.Trace(ctx)
	if err != nil || len(calls) == 0 {
		return "", fmt.Errorf("a jar won by no call: %w", err)
	}
	return calls[len(calls)-1].Value, nil
}

// SPDX-License-Identifier: Apache-2.0

//go:build real && unix

package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/internal/testing/interop"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/internal/testing/wallshift"
)

// twoMinutes is a server, a JVM whose clock is two minutes off, and the built
// command.
type twoMinutes struct {
	t       *testing.T
	ctx     context.Context
	off     time.Duration
	program string
	server  *redistest.Server
	pool    *redis.Pool
	jvm     *interop.JVM
	began   time.Time
	ledger  *ledger        // of busyKey
	last    clitest.Screen // output of the last closed gate

	quit context.CancelFunc // ends doctors and watcher
	side sync.WaitGroup     // doctors and watcher

	mu       sync.Mutex
	doctored int
	fixes    []string
	done     chan struct{} // closed at the end of the next examination
}

func newTwoMinutes(t *testing.T, program string, off time.Duration) *twoMinutes {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	f := &twoMinutes{
		t: t, off: off, program: program, began: time.Now(), ledger: newLedger(), done: make(chan struct{}),
		server: redistest.Real(t, redistest.Options{}),
	}
	f.ctx, f.quit = ctx, cancel
	f.pool = f.server.Pool()
	clock := wallshift.New(t)
	clock.Set(off)
	j, err := interop.Start(ctx, interop.Options{Env: clock.Env()})
	f.check(err)
	f.jvm = j
	t.Cleanup(func() {
		cancel()
		if err := j.Close(); err != nil {
			t.Error(err)
		}
		f.side.Wait()
		f.ledger.report(t)
	})
	return f
}

// stop ends the doctors, and reports what happened.
func (f *twoMinutes) stop() {
	f.quit()
	f.side.Wait()
	for _, fix := range f.fixes {
		f.logf("the doctor says %s", fix)
	}
	f.logf("%d examinations by doctor; acquisitions: %v", f.doctored, f.ledger.total)
}

func (f *twoMinutes) logf(format string, args ...any) {
	f.t.Helper()
	f.t.Logf("%7v  %s", time.Since(f.began).Round(10*time.Millisecond), fmt.Sprintf(format, args...))
}

func (f *twoMinutes) check(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *twoMinutes) do(command string, args ...any) (any, error) {
	c := f.pool.Get()
	defer c.Close()
	return c.Do(command, args...)
}

func (f *twoMinutes) command(args ...string) *exec.Cmd {
	cmd := exec.Command(f.program, append(args, "--redis", f.server.URL())...)
	// The environment must claim nothing about the fleet's clocks.
	cmd.Env = slices.DeleteFunc(os.Environ(),
		func(v string) bool { return strings.HasPrefix(v, "GETSETLOCK_") })
	return cmd
}

// speak runs a command line to its end.
func (f *twoMinutes) speak(args ...string) clitest.Screen {
	f.t.Helper()
	return clitest.Speak(f.t, f.command(args...))
}

func (f *twoMinutes) verb(code int, args ...string) {
	f.t.Helper()
	if got := f.speak(args...); got.Code != code {
		f.t.Fatalf("%v: code %d\n%s%s", args, got.Code, got.Out, got.Errors)
	}
}

// doctors examine the keys one after the other until the test stops them, and
// fix what they find.
func (f *twoMinutes) doctors() {
	f.side.Go(func() {
		for f.ctx.Err() == nil {
			cmd := f.command("doctor", "--match", "sto*", "--dialect", "jedis", "--lease", jarLease.String(),
				"--watch", "1s", "--fix", "--yes", "--quiet")
			out, err := endedWith(f.ctx, cmd)
			if code := cmd.ProcessState.ExitCode(); f.ctx.Err() == nil && code != 0 && code != 1 {
				f.t.Errorf("doctor: %v\n%s", err, out)
			}
			f.mu.Lock()
			f.doctored++
			_, mended, _ := strings.Cut(out, "\nTo do:\n")
			for line := range strings.Lines(mended) {
				f.fixes = append(f.fixes, strings.TrimSpace(line))
			}
			close(f.done)
			f.done = make(chan struct{})
			f.mu.Unlock()
		}
	})
}

// examined waits until a doctor has ended.
func (f *twoMinutes) examined() {
	f.t.Helper()
	f.mu.Lock()
	done := f.done
	f.mu.Unlock()
	select {
	case <-done:
	case <-f.ctx.Done():
		f.t.Fatalf("no doctor ended; the last closed gate:\n%s", f.last.Out)
	}
}

// watch runs the gates' watcher until the test stops it.
func (f *twoMinutes) watch() {
	f.side.Go(func() {
		cmd := f.command("migrate", "status", "--watch", "--monitor", "--namespace", "stock")
		if out, err := endedWith(f.ctx, cmd); cmd.ProcessState.ExitCode() != 130 {
			f.t.Errorf("migrate status --watch: %v\n%s", err, out)
		}
	})
}

// endedWith runs a command, which gets ^C when the context ends.
func endedWith(ctx context.Context, cmd *exec.Cmd) (string, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return "", err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(os.Interrupt) })
	defer stop()
	err := cmd.Wait()
	return out.String(), err
}

// client returns one more jar with a lock object for the key.
func (f *twoMinutes) client(key string, wait time.Duration) *interop.Client {
	f.t.Helper()
	c := interop.NewClient(f.t, f.jvm, f.server.Addr())
	f.check(c.Lock(f.ctx, interop.Jar, key, wait, jarLease))
	return c
}

// session is a run whose command holds the lock until it is told to end.
type session struct {
	cmd    *exec.Cmd
	token  string
	stdin  io.Closer
	errors bytes.Buffer
	kept   func() bool // stops the kill at the test's end
}

// run starts getsetlock run, and returns when its command runs.
func (f *twoMinutes) run(flags []string, key string) (*session, error) {
	cmd := f.command(append([]string{"run"}, flags...)...)
	cmd.Args = append(cmd.Args, key, "--", "sh", "-c", `echo "$GETSETLOCK_TOKEN"; exec cat`)
	s := &session{cmd: cmd}
	cmd.Stderr = &s.errors
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.stdin = stdin
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s.kept = context.AfterFunc(f.ctx, func() { _ = cmd.Process.Kill() })
	token, err := bufio.NewReader(stdout).ReadString('\n')
	s.token = strings.TrimSpace(token)
	if err != nil {
		return nil, s.end()
	}
	return s, nil
}

// runs executes a run whose command does nothing.
func (f *twoMinutes) runs(flags []string, key string) error {
	s, err := f.run(flags, key)
	if err != nil {
		return err
	}
	return s.end()
}

// end lets the command end. It must still hold its lock.
func (s *session) end() error {
	_ = s.stdin.Close()
	err := s.cmd.Wait()
	s.kept()
	if err != nil {
		return fmt.Errorf("%v: %w\n%s", s.cmd.Args[1:], err, &s.errors)
	}
	return nil
}

// group has clients of busyKey that are stopped together.
type group struct {
	*twoMinutes
	ctx  context.Context // ends when the clients are to stop
	halt context.CancelFunc
	wg   sync.WaitGroup

	mu    sync.Mutex
	runs  []int         // how many runs each script has begun
	begun chan struct{} // closed when a script begins the next
}

func (f *twoMinutes) group() *group {
	g := &group{twoMinutes: f, begun: make(chan struct{})}
	g.ctx, g.halt = context.WithCancel(f.ctx)
	f.t.Cleanup(func() { f.quit(); g.stop() })
	f.ledger.begin()
	return g
}

// stop lets each client finish its round.
func (g *group) stop() {
	g.halt()
	g.wg.Wait()
}

// jar is an old client. Its jobs take half of the claimed time, since a busy
// machine makes them longer.
func (g *group) jar(name string) {
	g.t.Helper()
	c := g.client(busyKey, 300*time.Millisecond)
	g.wg.Go(func() {
		for jobs := 0; g.ctx.Err() == nil; {
			won, err := taken(g.twoMinutes.ctx, c)
			switch {
			case err != nil:
				g.failed(name, err)
				return
			case won == "":
				continue // it gave up
			}
			job := 20 * time.Millisecond
			if jobs++; jobs%2 == 0 {
				job = jarJob / 2
			}
			g.hold(name, job, func() error { return g.checkHeld(busyKey, won) })
			if err := c.Release(g.twoMinutes.ctx); err != nil {
				g.failed(name, err)
				return
			}
			g.rest(jarRest)
		}
	})
}

// ours is a script that takes the lock by getsetlock run again and again.
func (g *group) ours(name string, flags ...string) {
	g.mu.Lock()
	script := len(g.runs)
	g.runs = append(g.runs, 0)
	g.mu.Unlock()
	g.wg.Go(func() {
		for g.ctx.Err() == nil {
			g.mu.Lock()
			g.runs[script]++
			close(g.begun)
			g.begun = make(chan struct{})
			g.mu.Unlock()
			s, err := g.run(flags, busyKey)
			if err != nil {
				g.failed(name, err)
				return
			}
			// This is longer than a jar sleeps between two attempts.
			g.hold(name, 150*time.Millisecond, func() error { return g.checkMark(busyKey, s.token) })
			if err := s.end(); err != nil {
				g.failed(name, err)
				return
			}
			g.rest(scriptRest)
		}
	})
}

// Pauses after a job. A jar that asks again at once would always find its own
// key free. A release wakes a waiting script at once, and a jar asks only ten
// times a second: it needs a key that no script waits for.
const (
	jarRest    = 300 * time.Millisecond
	scriptRest = time.Second
)

func (g *group) rest(d time.Duration) {
	select {
	case <-time.After(d):
	case <-g.ctx.Done():
	}
}

// renewed waits until each script has begun another run. All runs of before
// have ended then.
func (g *group) renewed() {
	g.t.Helper()
	g.mu.Lock()
	before := slices.Clone(g.runs)
	g.mu.Unlock()
	for {
		g.mu.Lock()
		waits := false
		for n, runs := range before {
			waits = waits || g.runs[n] == runs
		}
		begun := g.begun
		g.mu.Unlock()
		if !waits {
			return
		}
		select {
		case <-begun:
		case <-g.twoMinutes.ctx.Done():
			g.t.Fatal("a script began no other run")
		}
	}
}

// hold does a job. At its end, still returns an error if the lock is gone.
func (g *group) hold(name string, job time.Duration, still func() error) {
	g.ledger.enter(name)
	<-time.After(job)
	if err := still(); err != nil {
		g.t.Errorf("%s: %v", name, err)
	}
	g.ledger.leave(name)
}

func (g *group) failed(name string, err error) {
	if g.twoMinutes.ctx.Err() == nil {
		g.t.Errorf("%s: %v", name, err)
		g.twoMinutes.ledger.fail(fmt.Errorf("%s ended", name))
	}
}

// ledger records which clients are at work under one key. A client enters after
// it learned that it holds the lock, and leaves before it releases. This
// process's own order decides.
type ledger struct {
	mu       sync.Mutex
	inside   []string
	total    map[string]int
	since    map[string]int // entries since begin
	overlaps []string
	err      error         // why no client need wait any more
	changed  chan struct{} // closed at the next entry
}

func newLedger() *ledger {
	return &ledger{total: map[string]int{}, since: map[string]int{}, changed: make(chan struct{})}
}

func (l *ledger) enter(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.inside) > 0 {
		l.overlaps = append(l.overlaps,
			fmt.Sprintf("%s holds together with %s, after %v", name, l.inside, l.total))
	}
	l.inside = append(l.inside, name)
	l.total[name]++
	l.since[name]++
	l.wake()
}

// report fails the test for each overlap.
func (l *ledger) report(t *testing.T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.overlaps {
		t.Error(o)
	}
}

// count tells reach that something else happened.
func (l *ledger) count(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since[name]++
	l.wake()
}

func (l *ledger) leave(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.Index(l.inside, name)
	l.inside = slices.Delete(l.inside, at, at+1)
}

func (l *ledger) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = errors.Join(l.err, err)
	l.wake()
}

func (l *ledger) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// begin resets the counts that reach waits for.
func (l *ledger) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.since)
}

// reached waits until each client has had the key that often since begin, or
// one of them has failed, and returns how often they had it.
func (l *ledger) reached(ctx context.Context, wanted map[string]int) (got map[string]int, all bool) {
	for {
		l.mu.Lock()
		got, err, changed := maps.Clone(l.since), l.err, l.changed
		l.mu.Unlock()
		all = true
		for name, n := range wanted {
			all = all && got[name] >= n
		}
		if all || err != nil {
			return got, all
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return got, false
		}
	}
}

// reach waits until each client has had the key that often since begin.
func (f *twoMinutes) reach(wanted map[string]int) {
	f.t.Helper()
	got, all := f.ledger.reached(f.ctx, wanted)
	if !all {
		f.t.Fatalf("wanted %v acquisitions, and there were %v", wanted, got)
	}
	f.logf("acquisitions: %v", got)
}

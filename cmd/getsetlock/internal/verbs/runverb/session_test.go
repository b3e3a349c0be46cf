// SPDX-License-Identifier: Apache-2.0

package runverb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/child"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
)

const fakeGrace = 5 * time.Second

// fakeKeeper keeps a lease that a test rules.
func fakeKeeper() *keeper {
	return &keeper{opening: &opening{where: "the server"}, grace: fakeGrace, renews: true}
}

type fakeLease struct {
	mu       sync.Mutex
	until    time.Time
	done     chan struct{}
	err      error
	released int
	freed    int
	hangs    chan struct{} // not nil: Release waits for it
}

func newFakeLease(ttl time.Duration) *fakeLease {
	return &fakeLease{until: time.Now().Add(ttl), done: make(chan struct{})}
}

func (l *fakeLease) Token() string         { return "token" }
func (l *fakeLease) Fence() (int64, bool)  { return 0, false }
func (l *fakeLease) Done() <-chan struct{} { return l.done }
func (l *fakeLease) free() error           { l.freed++; return nil }

func (l *fakeLease) Until() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until
}

func (l *fakeLease) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

func (l *fakeLease) renewTo(until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = until
}

func (l *fakeLease) Release() error {
	if l.hangs != nil {
		<-l.hangs
	}
	l.released++
	return nil
}

func (l *fakeLease) lose(err error) {
	l.mu.Lock()
	l.err = err
	l.mu.Unlock()
	close(l.done)
}

// fakeProcess ends when the test tells it to. Or it obeys a schedule, and ends
// at its Kill.
type fakeProcess struct {
	mu    sync.Mutex
	done  chan struct{}
	exit  child.Exit
	asked []child.Schedule
	obeys bool // it ends as soon as it is terminated
}

func newFakeProcess() *fakeProcess { return &fakeProcess{done: make(chan struct{})} }

func (p *fakeProcess) Done() <-chan struct{} { return p.done }
func (p *fakeProcess) Wait() child.Exit      { <-p.done; return p.exit }

func (p *fakeProcess) Terminate(s child.Schedule) {
	p.mu.Lock()
	p.asked = append(p.asked, s)
	p.mu.Unlock()
	if p.obeys {
		p.end(child.Exit{Code: 143, Signal: "SIGTERM"})
	}
}

func (p *fakeProcess) end(e child.Exit) {
	p.exit = e
	close(p.done)
}

// attended is a runner in the middle of its run.
type attended struct {
	*runner
	lease  *fakeLease
	proc   *fakeProcess
	errs   *clitest.Watched
	result chan error
	began  time.Time
}

func attend(ttl time.Duration) *attended {
	return attendTo(newFakeLease(ttl), fakeKeeper(), newFakeProcess())
}

func attendTo(lease *fakeLease, k *keeper, proc *fakeProcess) *attended {
	errs := clitest.NewWatched()
	a := &attended{lease: lease, proc: proc, errs: errs, result: make(chan error, 1), began: time.Now()}
	a.runner = &runner{env: &out.Env{Stderr: errs, Clock: lock.Machine}, flags: &runFlags{}, key: "k",
		keeper: k, kind: running}
	go func() { a.result <- a.runner.attend(a.proc, a.lease) }()
	synctest.Wait()
	return a
}

// at returns a schedule in seconds since the lease began.
func (a *attended) at(term, kill float64) child.Schedule {
	seconds := func(s float64) time.Time { return a.began.Add(time.Duration(s * float64(time.Second))) }
	return child.Schedule{Term: seconds(term), Kill: seconds(kill)}
}

// A server of a quorum that answers while the command runs is named at the
// command's end, and what was said before is not said again.
func TestWarningsThatCameLaterAreSaidAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := fakeKeeper()
		var known []string
		k.warnings = func() []string { return known }
		a := attendTo(newFakeLease(time.Minute), k, newFakeProcess())
		known = []string{"early"}
		a.warn()
		known = append(known, "late")
		a.proc.end(child.Exit{})
		if err := <-a.result; err != nil {
			t.Error(err)
		}
		if got, want := a.errs.String(), "getsetlock: warning: early\ngetsetlock: warning: late\n"; got != want {
			t.Errorf("printed %q, want %q", got, want)
		}
	})
}

func (a *attended) wantAsked(t *testing.T, want ...child.Schedule) {
	t.Helper()
	a.proc.mu.Lock()
	defer a.proc.mu.Unlock()
	if len(a.proc.asked) != len(want) {
		t.Fatalf("asked to end %v, want %v", a.proc.asked, want)
	}
	for i := range want {
		if got := a.proc.asked[i]; !got.Term.Equal(want[i].Term) || !got.Kill.Equal(want[i].Kill) {
			t.Errorf("schedule %d: %v, want %v", i, got, want[i])
		}
	}
}

// wantCode expects an end that getsetlock itself decided on.
func wantCode(t *testing.T, err error, code out.OwnCode, says string) {
	t.Helper()
	var e *out.ExitError
	if !errors.As(err, &e) || e.Code != code || !strings.Contains(err.Error(), says) {
		t.Errorf("%v, want code %d and %q", err, code, says)
	}
}

// wantEnd expects the command's own end.
func wantEnd(t *testing.T, err error, code int) {
	t.Helper()
	var e *out.CommandEnd
	if !errors.As(err, &e) || e.Code != code {
		t.Errorf("%v, want the command's own code %d", err, code)
	}
}

func TestUnknownExitCodeIsExitCode125(t *testing.T) {
	wantCode(t, ended(child.Exit{Err: errors.New("no such child")}), out.CodeRunFailed,
		"its exit code is unknown: no such child")
	wantEnd(t, ended(child.Exit{Code: 3}), 3)
	if err := ended(child.Exit{}); err != nil {
		t.Error(err)
	}
}

func TestRenewedLeaseLeavesTheCommandAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, closed := fakeKeeper(), 0
		k.leave = func(time.Duration, time.Duration) { closed++ }
		a := attendTo(newFakeLease(27*time.Second), k, newFakeProcess())
		for range 100 {
			time.Sleep(10 * time.Second)
			a.lease.renewTo(time.Now().Add(27 * time.Second))
			synctest.Wait()
		}
		a.proc.end(child.Exit{Code: 3})
		wantEnd(t, <-a.result, 3)
		a.wantAsked(t)
		if a.lease.released != 1 || closed != 1 {
			t.Errorf("released %d times, closed %d times", a.lease.released, closed)
		}
	})
}

func TestUnrenewedLeaseTermsTheCommandByTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := attend(27 * time.Second)
		time.Sleep(22*time.Second - time.Nanosecond)
		synctest.Wait()
		a.wantAsked(t)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		a.wantAsked(t, a.at(22, 27))
		a.proc.end(child.Exit{Code: 0})
		wantCode(t, <-a.result, out.CodeRunLost, "not renewed in time")
		if a.lease.released != 1 {
			t.Error("a lease that was still held was not released")
		}
	})
}

// ZooKeeper keeps a session for 40 s at most, whatever --ttl says, and the
// margin of a long TTL takes most of that. A renewal in time saves the command.
func TestShortGrantOfAStoreLeavesTimeToRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := fakeKeeper()
		k.session = true
		a := attendTo(newFakeLease(4*time.Second), k, newFakeProcess())
		time.Sleep(2 * time.Second)
		a.lease.renewTo(time.Now().Add(4 * time.Second))
		time.Sleep(time.Second) // SIGTERM would come now, a second before the first end
		synctest.Wait()
		a.wantAsked(t)
		time.Sleep(2250*time.Millisecond - time.Nanosecond)
		synctest.Wait()
		a.wantAsked(t)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		a.wantAsked(t, a.at(5.25, 6))
		a.proc.end(child.Exit{Code: 143, Signal: "SIGTERM"})
		wantCode(t, <-a.result, out.CodeRunLost, "not renewed in time")
	})
}

func TestRenewalAfterTermDoesNotSaveTheCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := attend(27 * time.Second)
		time.Sleep(23 * time.Second)
		a.lease.renewTo(a.lease.Until().Add(20 * time.Second))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		a.wantAsked(t, a.at(22, 27))
		a.proc.end(child.Exit{Code: 137, Signal: "SIGKILL"})
		wantCode(t, <-a.result, out.CodeRunLost, "SIGKILL")
	})
}

func TestForeignValueTermsAtOnceAndKillsAfterTheGrace(t *testing.T) {
	for ttl, kill := range map[time.Duration]float64{27 * time.Second: 8, 6 * time.Second: 6} {
		synctest.Test(t, func(t *testing.T) {
			lease := newFakeLease(ttl)
			lease.hangs = make(chan struct{})
			a := attendTo(lease, fakeKeeper(), newFakeProcess())
			a.proc.obeys = true
			if ttl < fakeGrace+4*time.Second {
				time.Sleep(time.Second - time.Nanosecond) // the grace has not begun yet
			} else {
				time.Sleep(3 * time.Second)
			}
			now := time.Since(a.began).Seconds()
			a.lease.lose(&lock.LostError{Key: "k", Err: &legacy.LostError{Key: "k"}})
			// The release hangs, as with a server that is away. run ends
			// nevertheless.
			wantCode(t, <-a.result, out.CodeRunLost, "deleted by another")
			a.wantAsked(t, a.at(now, min(now+5, kill)))
			if a.lease.released != 0 {
				t.Error("released")
			}
			close(a.lease.hangs)
		})
	}
}

// The wall clock was set back, or the machine slept: the lease is right, and
// the timer is not.
func TestExpiredLeaseKillsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := attend(27 * time.Second)
		time.Sleep(2 * time.Second)
		a.lease.lose(&lock.LostError{Key: "k", Reason: "not renewed in time"})
		synctest.Wait()
		a.wantAsked(t, a.at(2, 2))
		a.proc.end(child.Exit{Code: 137, Signal: "SIGKILL"})
		wantCode(t, <-a.result, out.CodeRunLost, "not renewed in time")
	})
}

// Every backend wraps ErrLost where it found the key with another value, or
// with none.
func TestLossThatAStoreFoundGivesTheGrace(t *testing.T) {
	for _, c := range []struct {
		err  error
		kill float64
	}{
		{fmt.Errorf("%w: its votes are gone", lock.ErrLost), 7},
		{errors.New("no answer"), 2}, // not renewed in time
		{nil, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := attend(27 * time.Second)
			time.Sleep(2 * time.Second)
			a.lease.lose(&lock.LostError{Key: "k", Err: c.err})
			synctest.Wait()
			a.wantAsked(t, a.at(2, c.kill))
			a.proc.end(child.Exit{Code: 143, Signal: "SIGTERM"})
			wantCode(t, <-a.result, out.CodeRunLost, `lease on "k" lost`)
		})
	}
}

func TestForeignValueDuringTheGraceHastensTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := attend(27 * time.Second)
		time.Sleep(23 * time.Second)
		a.lease.lose(&lock.LostError{Key: "k", Err: &legacy.LostError{Key: "k"}})
		synctest.Wait()
		a.wantAsked(t, a.at(22, 27), a.at(23, 27))
		a.proc.end(child.Exit{Code: 137, Signal: "SIGKILL"})
		wantCode(t, <-a.result, out.CodeRunLost, "")
	})
}

func TestCommandThatEndedBeforeALossKeepsItsCode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 100 { // of two ready cases, select picks one at random
			lease, proc := newFakeLease(27*time.Second), newFakeProcess()
			proc.end(child.Exit{Code: 4})
			lease.lose(&lock.LostError{Key: "k"})
			a := attendTo(lease, fakeKeeper(), proc)
			wantEnd(t, <-a.result, 4)
			a.wantAsked(t)
		}
	})
}

func TestErrorSaysThatAVerbatimLeaseIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := fakeKeeper()
		k.renews = false
		a := attendTo(newFakeLease(27*time.Second), k, newFakeProcess())
		time.Sleep(22 * time.Second)
		synctest.Wait()
		a.proc.end(child.Exit{Code: 143, Signal: "SIGTERM"})
		wantCode(t, <-a.result, out.CodeRunLost, "never renewed")
	})
}

func TestLeaseDecidesWhetherAStoppedCommandRunsOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := attend(27 * time.Second)
		defer func() { a.proc.end(child.Exit{}); <-a.result }()
		r, l := a.runner, newFakeLease(27*time.Second)
		began := time.Now()
		if got := r.continued(l); got != (child.Schedule{}) {
			t.Errorf("a healthy lease: %v", got)
		}
		time.Sleep(22 * time.Second)
		if got := r.continued(l); !got.Term.Equal(time.Now()) || !got.Kill.Equal(began.Add(27*time.Second)) {
			t.Errorf("within the grace: %v", got)
		}
		time.Sleep(10 * time.Second)
		if got := r.continued(l); got.Kill.After(time.Now()) {
			t.Errorf("after the end: %v", got)
		}
		l.lose(&lock.LostError{Key: "k"})
		if got := r.continued(l); !got.Kill.Equal(time.Now()) {
			t.Errorf("lost: %v", got)
		}
	})
}

func TestHeldLockIs124AndServerTroubleIs122(t *testing.T) {
	held := &lock.HeldError{Key: "k", Owner: "another"}
	for _, c := range []struct {
		err  error
		code out.OwnCode
	}{
		{held, out.CodeRunHeld},
		{errors.Join(lock.ErrWaitEnded, held), out.CodeRunHeld},
		{errors.Join(lock.ErrWaitEnded, errors.New("no route to host")), out.CodeFailed}, // 122 or 125
		{errors.New("no route to host"), out.CodeFailed},
	} {
		r := &runner{env: &out.Env{}, flags: &runFlags{}, key: "k", keeper: fakeKeeper()}
		wantCode(t, r.notAcquired(c.err), c.code, "")
	}
}

func TestLeaseThatArrivesAfterAnInterruptIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := newFakeLease(time.Second)
		r := &runner{env: &out.Env{Stderr: clitest.NewWatched()}, flags: &runFlags{}, key: "k",
			keeper: fakeKeeper(), kind: running}
		r.take = func(ctx context.Context, _ string) (held, error) {
			<-ctx.Done()
			return late, nil
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(out.Interrupted{By: os.Interrupt})
		_, err := r.wait(ctx)
		wantCode(t, err, out.CodeFailed, "the command was not started: interrupted by ^C")
		if late.freed != 1 {
			t.Error("not given back")
		}
	})
}

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
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// fakeKeeper holds what a test says. Time is a bubble's.
type fakeKeeper struct {
	lease    *fakeLease
	err      error
	blocks   bool // blocks until its context ends, and then has the lease nevertheless
	tokens   map[string]string
	storeErr error
	fixed    bool // never renewed
	closed   int
}

const fakeGrace = 5 * time.Second

func (k *fakeKeeper) acquire(ctx context.Context, _ string) (held, error) {
	if k.blocks {
		<-ctx.Done()
	}
	if k.err != nil {
		return nil, k.err
	}
	return k.lease, nil
}

func (k *fakeKeeper) holds(_ context.Context, key, token string) (bool, error) {
	return k.tokens[key] == token, k.storeErr
}

func (k *fakeKeeper) waits() <-chan error                          { return nil }
func (k *fakeKeeper) look(context.Context, string) (sight, error)  { return sight{}, errNoLook }
func (k *fakeKeeper) stored(context.Context, string) (bool, error) { return false, errNoLook }
func (k *fakeKeeper) await(context.Context, string, func()) (func(), bool, error) {
	return nil, false, backend.ErrNoWake
}
func (k *fakeKeeper) encoding() dialect.Encoding { return dialect.Plain }

func (k *fakeKeeper) where() string                     { return "the server" }
func (k *fakeKeeper) grace() time.Duration              { return fakeGrace }
func (k *fakeKeeper) renews() bool                      { return !k.fixed }
func (k *fakeKeeper) warnings(context.Context) []string { return nil }
func (k *fakeKeeper) close(time.Duration)               { k.closed++ }

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
	keeper *fakeKeeper
	lease  *fakeLease
	proc   *fakeProcess
	errs   *clitest.Watched
	result chan error
	began  time.Time
}

func attend(ttl time.Duration) *attended {
	return attendTo(newFakeLease(ttl), &fakeKeeper{}, newFakeProcess())
}

func attendTo(lease *fakeLease, keeper *fakeKeeper, proc *fakeProcess) *attended {
	return attendBy(&runFlags{}, lease, keeper, proc)
}

func attendBy(flags *runFlags, lease *fakeLease, keeper *fakeKeeper, proc *fakeProcess) *attended {
	errs := clitest.NewWatched()
	a := &attended{lease: lease, keeper: keeper, proc: proc, errs: errs, result: make(chan error, 1),
		began: time.Now()}
	a.runner = &runner{env: &out.Env{Stderr: errs, Clock: lock.Machine}, flags: flags, key: "k",
		keeper: a.keeper, kind: running}
	go func() { a.result <- a.runner.attend(a.proc, a.lease) }()
	synctest.Wait()
	return a
}

// at returns a schedule in seconds since the lease began.
func (a *attended) at(term, kill float64) child.Schedule {
	seconds := func(s float64) time.Time { return a.began.Add(time.Duration(s * float64(time.Second))) }
	return child.Schedule{Term: seconds(term), Kill: seconds(kill)}
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
		a := attend(27 * time.Second)
		for range 100 {
			time.Sleep(10 * time.Second)
			a.lease.renewTo(time.Now().Add(27 * time.Second))
			synctest.Wait()
		}
		a.proc.end(child.Exit{Code: 3})
		wantEnd(t, <-a.result, 3)
		a.wantAsked(t)
		if a.lease.released != 1 || a.keeper.closed != 1 {
			t.Errorf("released %d times, closed %d times", a.lease.released, a.keeper.closed)
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
		a := attendBy(&runFlags{target: &out.Target{}}, newFakeLease(4*time.Second), &fakeKeeper{},
			newFakeProcess())
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
			a := attendTo(lease, &fakeKeeper{}, newFakeProcess())
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

// Stores other than Redis, and the servers of a quorum, wrap ErrLost where they
// found the key with another value, or with none.
func TestLossThatAStoreFoundGivesTheGrace(t *testing.T) {
	for name, on := range map[string]func(*runFlags){
		"quorum": func(f *runFlags) { f.server.Quorum = true },
		"target": func(f *runFlags) { f.target = &out.Target{} },
	} {
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
				on(a.flags)
				time.Sleep(2 * time.Second)
				a.lease.lose(&lock.LostError{Key: name, Err: c.err})
				synctest.Wait()
				a.wantAsked(t, a.at(2, c.kill))
				a.proc.end(child.Exit{Code: 143, Signal: "SIGTERM"})
				wantCode(t, <-a.result, out.CodeRunLost, name)
			})
		}
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
			a := attendTo(lease, &fakeKeeper{}, proc)
			wantEnd(t, <-a.result, 4)
			a.wantAsked(t)
		}
	})
}

func TestErrorSaysThatAVerbatimLeaseIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := attendTo(newFakeLease(27*time.Second), &fakeKeeper{fixed: true}, newFakeProcess())
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
		r := &runner{env: &out.Env{}, flags: &runFlags{}, key: "k", keeper: &fakeKeeper{}}
		wantCode(t, r.notAcquired(c.err), c.code, "")
	}
}

func TestLeaseThatArrivesAfterAnInterruptIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &fakeKeeper{blocks: true, lease: newFakeLease(time.Second)}
		r := &runner{env: &out.Env{Stderr: clitest.NewWatched()}, flags: &runFlags{}, key: "k", keeper: k,
			kind: running}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(out.Interrupted{By: os.Interrupt})
		_, err := r.wait(ctx)
		wantCode(t, err, out.CodeFailed, "the command was not started: interrupted by ^C")
		if k.lease.freed != 1 {
			t.Error("not given back")
		}
	})
}

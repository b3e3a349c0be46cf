// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/modern"
)

// process is a program with one Client.
type process struct {
	w      *world
	id     int
	clock  *redistest.Clock
	client *lock.Client // nil: the process is of another kind
	member *migrate.Member
	old    *legacy.Backend // of an old client
	seat   chan struct{}   // taken while an old client makes an attempt
	life   context.Context
	stop   context.CancelCauseFunc
	dead   atomic.Bool
	closed atomic.Bool
	over   atomic.Int64  // elapsed ns at which Close has returned, and nothing of the Client runs; 0: not yet
	unborn atomic.Bool   // it has not started yet
	jobs   int           // operations under way; w.mu guards it, and busy
	busy   time.Duration // when an operation began or ended last

	met map[int]time.Duration // keys → when it saw an old client there; w.mu guards it

	mu     sync.Mutex
	dials  map[string]int    // connections, by their first command
	links  []*link           // open ones, in the order of their dials
	tokens map[string]string // the last lease's token, by key
	tries  int               // an old client's last operation that made an attempt; None: none
	began  time.Duration     // … and when that began
}

// start starts a process of the plan.
func (w *world) start(t *testing.T, id int) *process {
	t.Helper()
	c := w.plan.Procs[id]
	m := w.plan.Machines[c.Machine]
	p := &process{w: w, id: id, tokens: map[string]string{}, dials: map[string]int{},
		met: map[int]time.Duration{}, seat: make(chan struct{}, 1), tries: None,
		clock: w.redis.Clock(redistest.Skew{Offset: m.Offset, PPM: m.PPM}).On(fmt.Sprintf("m%d", c.Machine)).
			Apart(time.Microsecond)}
	p.life, p.stop = context.WithCancelCause(context.Background())
	p.unborn.Store(true)
	if c.Starts > 0 {
		w.late = append(w.late, act{c.Starts, func() { w.running.Go(p.joinsLate) }})
		return p
	}
	if err := p.begins(c); err != nil {
		t.Fatalf("sim: seed %d: %v", w.plan.Seed, err)
	}
	p.unborn.Store(false)
	return p
}

// joinsLate starts the process while the others are at work. It joins the fleet as
// that is then.
func (p *process) joinsLate() {
	for p.begins(p.w.plan.Procs[p.id]) != nil && p.life.Err() == nil {
		time.Sleep(time.Second + time.Duration(p.id))
	}
	p.unborn.Store(p.client == nil)
	p.w.h.sometimes("a process starts late")
}

// begins gives the process its program.
func (p *process) begins(c Proc) (err error) {
	switch c.Kind {
	case Operator:
		return nil
	case OldClient:
		p.old, err = legacy.New(p.pool(), legacy.Config{Mode: legacy.Verbatim, Clock: p.clock,
			Dialect: p.w.plan.Old.dialect(), Timeout: 3 * time.Second})
		return err
	}
	store, err := p.store(c)
	if err != nil {
		return err
	}
	p.client, err = lock.New(store, lock.Config{TTL: c.TTL, RenewEvery: c.RenewEvery,
		Margin: c.Margin, Logger: slog.New(slog.DiscardHandler),
		RetryEvery: c.RetryEvery, Wait: c.Wait, Politeness: c.Politeness, LocalHandOvers: c.HandOvers,
		LongestHold: c.Longest,
		Clock:       p.clock, Jitter: p.jitter, Hooks: p.hooks()})
	return err
}

// store opens the backend of the plan's form.
func (p *process) store(c Proc) (backend.Store, error) {
	wake := lock.WakeOn
	if c.Deaf {
		wake = lock.WakeOff
	}
	old := legacy.Config{Dialect: dialect.Jedis(), Wake: wake, Timeout: c.Timeout, Clock: p.clock,
		Terms: dialect.Terms{Lease: time.Minute, Behind: time.Second}}
	switch f := p.w.plan.Form; f {
	case Beside:
		old.Dialect, old.Terms = p.w.plan.Old.dialect(), p.w.plan.Old.Claims
		return legacy.New(p.pool(), old)
	case Hardened:
		return legacy.New(p.pool(), old)
	case Bridged:
		return p.bridge(c, wake)
	case Quorum:
		return p.quorum(c, wake)
	default:
		return modern.New(p.pool(), modern.Config{Fence: f.fenced(), Fair: f == Fair || f == FairFence,
			Wake: wake, Timeout: c.Timeout, Note: c.Note})
	}
}

// bridge joins the fleet and opens a bridge that follows its record.
func (p *process) bridge(c Proc, wake backend.Wake) (_ backend.Store, err error) {
	o := p.w.plan.Old
	p.member, err = migrate.Join(context.Background(), p.pool(), migrate.MemberConfig{Namespace: space,
		Name: fmt.Sprint("p", p.id), Host: "sim", Dialect: o.Dialect, Every: o.Every, Renews: 3 * o.Every,
		Timeout: c.Timeout, Clock: p.clock, Target: o.names(p.id)})
	if err != nil {
		return nil, err
	}
	b, err := migrate.New(p.pool(), migrate.Config{Phases: p.member, Dialect: o.dialect(), Terms: o.Claims,
		LongLeases: o.Long, Namespace: space, Wake: wake, Timeout: c.Timeout, Clock: p.clock, Fence: o.Fence})
	if err != nil || o.Target == "" {
		return b, err
	}
	target, err := modern.New(p.poolOf(theTarget, false), modern.Config{Fence: o.Fence,
		Fair: p.w.plan.Seed%2 == 0, Wake: wake, Timeout: c.Timeout})
	if err != nil {
		return nil, err
	}
	return migrate.Compose(b, target)
}

// pool dials the first server through the process's links.
func (p *process) pool() *redis.Pool { return p.poolOf(0, false) }

// poolOf dials a server. shows: for a verb that is to change nothing.
func (p *process) poolOf(node int, shows bool) *redis.Pool {
	return &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		conn, err := p.dial(ctx, node, shows)
		if err != nil {
			return nil, err
		}
		return redis.NewConn(conn, 0, 0), nil
	}}
}

// hooks record what the hooks say.
func (p *process) hooks() lock.Hooks {
	says := func(name string) func(lock.Event) {
		return func(e lock.Event) { p.told(name, e) }
	}
	hooks := lock.Hooks{
		Acquired: func(e lock.Event) {
			p.mu.Lock()
			p.tokens[e.Key] = e.Token
			p.mu.Unlock()
			p.told("acquired", e)
		},
		Renewed: says("renewed"), RenewFailed: says("renew failed"), Endangered: says("endangered"),
		Released: says("released"),
		Lost: func(e lock.Event) {
			name := "lost"
			if why := (*lock.LostError)(nil); errors.As(e.Cause, &why) && why.Reason != "" {
				name += ": " + why.Reason
			}
			p.told(name, e)
		},
	}
	if p.w.plan.Procs[p.id].Unwarned {
		hooks.Endangered = nil
	}
	return hooks
}

// told records the call of a hook.
func (p *process) told(name string, e lock.Event) {
	for _, k := range p.w.keys {
		if k.name == e.Key {
			told := Event{Kind: Told, Op: None, Key: k.number, Token: p.w.h.number(e.Token), Text: name}
			if !e.Until.IsZero() {
				told.Left = e.Until.Sub(p.clock.Now())
			}
			p.add(told)
		}
	}
	state, _, _ := strings.Cut(name, ":")
	p.w.h.sometimes("hook " + state)
}

// token returns the token of the lease that this process has just acquired. It
// waits for the hook that tells it.
func (p *process) token(key string) string {
	time.Sleep(time.Nanosecond)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tokens[key]
}

// jitter draws by the process, the instant and the operation that asks. So the
// draw does not depend on which of two goroutines asks first, and two that were
// woken at one instant do not go on at one instant.
func (p *process) jitter(most time.Duration) time.Duration {
	h := fnv.New64a()
	fmt.Fprint(h, p.id, p.w.h.now(), most, p.w.asking())
	return time.Duration(rand.New(rand.NewPCG(p.w.plan.Seed, h.Sum64())).Int64N(int64(most) + 1))
}

// asking returns the operation on whose behalf the calling goroutine runs. It
// is None for a goroutine that no operation has started.
func (w *world) asking() int {
	var stack [1 << 14]byte
	trace := string(stack[:runtime.Stack(stack[:], false)])
	_, parent, _ := strings.Cut(trace, "in goroutine ") // "created by lock.(*Client).Request in goroutine 7"
	for _, name := range []string{trace, "goroutine " + parent} {
		if op, known := w.ops.Load(goroutine(name)); known {
			return op.(int)
		}
	}
	return None
}

// goroutine returns the number of the goroutine of a stack trace, which begins
// with "goroutine 7 [running]:".
func goroutine(trace string) string { return strings.Fields(trace + " 0 0")[1] }

// open returns the open connections.
func (p *process) open() []*link {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.links)
}

// add records what the process saw. A dead one sees nothing.
func (p *process) add(e Event) {
	if !p.dead.Load() {
		e.Proc = p.id
		p.w.h.add(e)
	}
}

// awake returns when the process is not frozen. Operations of a process that
// thaws go on one after the other.
func (p *process) awake(o Op) {
	now := p.w.h.now()
	if until := p.w.plan.delayed(p.id, now, Freeze); until > now {
		time.Sleep(until - now + time.Duration(1+o.ID)*(time.Microsecond+1))
	}
}

// thaw continues the process, unless another fault has it frozen.
func (p *process) thaw() {
	if now := p.w.h.now(); p.w.plan.delayed(p.id, now, Freeze) == now {
		p.clock.Thaw()
	}
}

// kill ends the process without a word: what it has sent may still arrive.
func (p *process) kill() {
	p.add(Event{Kind: Died, Op: None})
	p.w.forget(p)
	p.dead.Store(true)
	for _, l := range p.open() {
		l.deaf.Store(true)
		l.client.Close()
	}
	p.stop(errDead)
	over, cancel := context.WithCancel(context.Background())
	cancel()
	p.w.work.Go(func() {
		_ = p.client.Close(over)
		p.shut(over)
	})
}

// close closes the Client and records what that returned.
func (p *process) close(ctx context.Context) {
	if p.dead.Load() || p.closed.Swap(true) {
		return
	}
	if p.client == nil {
		p.shut(ctx)
		return
	}
	err := p.client.Close(ctx)
	if err == nil || !strings.Contains(err.Error(), "background call") {
		p.over.Store(int64(p.w.h.now()))
	}
	p.add(Event{Kind: Closed, Op: None, Text: class(err)})
	p.shut(ctx)
}

// shut closes what is not a Client.
func (p *process) shut(ctx context.Context) {
	if p.old != nil {
		_ = p.old.Close()
	}
	if p.member != nil {
		_ = p.member.Goodbye(ctx)
		_ = p.member.Leave()
	}
}

// forget drops the leases of a process that has died: it cannot use them.
func (w *world) forget(p *process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range w.keys {
		k.leases = slices.DeleteFunc(k.leases, func(l *held) bool { return l.p == p })
	}
}

// classes are the documented kinds of errors, the more telling ones first.
var classes = []struct {
	name string
	is   error
}{
	{"lost", lock.ErrLost},
	{"client closed", lock.ErrClosed},
	{"released", lock.ErrReleased},
	{"too late", lock.ErrTooLate},
	{"cancelled", errCancelled},
	{"play over", errEnd},
	{"dead", errDead},
	{"wait ended, trouble", lock.ErrWaitEnded},
	{"held", lock.ErrHeld},
	{"no phase", migrate.ErrNoPhase},
	{"late", context.DeadlineExceeded},
	{"late", context.Canceled},
}

// class names an error by its documented kind, since its text may contain
// tokens.
func class(err error) string {
	if err == nil {
		return "ok"
	}
	for _, c := range classes {
		switch {
		case !errors.Is(err, c.is):
		case c.is == lock.ErrWaitEnded && errors.Is(err, lock.ErrHeld):
			return "wait ended, held"
		default:
			return c.name
		}
	}
	var passing interface{ Passing() bool }
	switch {
	case strings.Contains(err.Error(), "gsl:quorum is of another quorum"):
		return "another quorum"
	case errors.As(err, &passing):
		return "trouble"
	}
	return "undocumented: " + err.Error()
}

var errCancelled = errors.New("sim: cancelled")

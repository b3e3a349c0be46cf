// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"context"
	"errors"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/proof/internal/model"
)

// ours is one getsetlock client: package lock's Client with a backend of the
// tested protocol.
type ours struct {
	p     *Play
	name  string
	stage *stage
	back  Backend
	until *redistest.Clock // clock by which it trusts its lease

	client  *lock.Client
	cancel  context.CancelFunc
	trying  bool
	nap     *nap  // the settle's pause
	at      *call // command that waits before the server
	got     *call // command that ran; its reply is held back …
	answer  []byte
	lease   *lock.Lease
	stopped bool // its job has stopped

	token string // of its attempt or grant, as seen on the way
	mark  string // what its lease depends on, by M's value
	naps  int
}

// leased is the result of a getsetlock client's operation.
type leased struct {
	lease *lock.Lease
	err   error
}

func (p *Play) newOurs(name string) *ours {
	o := &ours{p: p, name: name}
	o.revive()
	return o
}

// boot returns the boot id of the machine on which all getsetlock clients run;
// "" if looks must come from other machines.
func (p *Play) boot() string {
	if p.sc.Ours.Elsewhere {
		return ""
	}
	return "machine"
}

// revive starts the client, at first or after a crash.
func (o *ours) revive() {
	p := o.p
	o.die()
	o.stage = newStage(p.t, p.world)
	o.stage.attempt = p.protocol.Attempt
	o.until = p.world.Clock(redistest.Skew{})
	back, err := p.protocol.Open(p, o.name, o.stage.Pool(),
		&napper{p.world.Clock(redistest.Skew{}), o.stage, p.boot()})
	if err != nil {
		p.t.Fatalf("replay: %v", err)
	}
	margin := p.ticks(p.sc.Ours.Margin)
	if margin == 0 {
		margin = -1
	}
	// Only the backend.Backend is passed on. Its checks of times are tested
	// elsewhere; here times that break them must be possible.
	o.back = back
	o.client, err = lock.New(backend.Of(struct{ backend.Backend }{back.Contract()}), lock.Config{
		TTL: p.ticks(max(p.sc.Ours.TTL, p.sc.Ours.Long)), Margin: margin, RenewEvery: -1, Politeness: -1,
		Clock:      o.until,
		RetryEvery: p.tick, ReleaseWait: patience, LocalHandOvers: -1,
	})
	if err != nil {
		p.t.Fatalf("replay: %v", err)
	}
	p.t.Cleanup(o.die)
	o.trying, o.nap, o.at, o.got, o.lease, o.stopped, o.token, o.mark = false, nil, nil, nil, nil, false, "",
		""
	if p.sc.ServerStep != 0 && !p.sc.Ours.Newcomers || p.sc.Ours.Late {
		// in both cases the server knows the scripts afterwards
		o.meets()
	}
}

// die ends the client as a crash does.
func (o *ours) die() {
	if o.client == nil {
		return
	}
	o.stage.kill()
	if o.cancel != nil {
		o.cancel()
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = o.client.Close(ended) // its leases stay held
	_ = o.back.Close()
	o.client = nil
}

// begin starts an operation.
func (o *ours) begin(op func() leased) {
	stage := o.stage
	go func() {
		e := op()
		select {
		case stage.rest <- e:
		case <-stage.over:
		}
	}()
}

// free executes commands until the client has finished or wants to be woken.
func (o *ours) free(what string) any {
	o.p.t.Helper()
	for {
		switch x := o.stage.await(o.name + " " + what).(type) {
		case *call:
			o.note(x)
			o.stage.through(x)
		default:
			return x
		}
	}
}

// note remembers the token of an attempt.
func (o *ours) note(c *call) {
	if t := o.p.protocol.Attempt(c.Command); t != "" {
		o.token = t
	}
}

// act makes one event of the model happen to the client and returns its result.
func (o *ours) act(e model.Event, before, after model.Member) string {
	switch e.What {
	case "acquire":
		if before.Step == "sent" || before.Step == "gone" {
			return o.arrives(before, after)
		}
		return o.acquire()
	case "send":
		o.sends()
	case "answer":
		return o.hears()
	case "drop":
		o.stage.bury()
		o.at.Runs <- false
		o.at.Hears <- nil
		o.at, o.token = nil, ""
	case "check":
		return o.check()
	case "cancel":
		o.quits(before)
	case "stop":
		o.forgets()
		o.stopped = true
	case "release":
		o.release()
	case "renew":
		lease := o.lease
		o.begin(func() leased { return leased{nil, lease.Renew(context.Background())} })
		o.at = o.waits(e.What)
	case "renewed":
		return o.renewed()
	case "lost":
		o.toldLost(before)
	case "crash":
		o.revive()
	case "sample":
		o.sample()
		return e.Result // whether the bytes are the same shows when the client judges by them
	case "learn":
		if e.Arg == 0 {
			return "" // there is no record, so a member keeps its phase
		}
		// The world shows the phase of a lease while one runs; the event says
		// what was read.
		read := model.Phase(migrate.Phase(e.Arg).String())
		if o.p.sc.Ours.Composes && after.Step == "idle" {
			read = after.Phase // none, where the record names another target than the member's
		}
		o.p.protocol.Learn(o.p, o.name, read)
	case "vanish", "beat", "miss", "enter", "forget":
		// Heartbeats concern only the registry, and only gates use that.
	case "begin":
		// The real client reads the phase as it sends, which only a member that
		// reads another one in between could notice.
	default:
		o.p.fail("%q is not an event of a getsetlock client that can be replayed", e)
	}
	return ""
}

func (o *ours) try() {
	ctx, cancel := context.WithCancel(context.Background())
	o.cancel, o.trying, o.stopped, o.lease = cancel, true, false, nil
	client := o.client
	o.begin(func() leased {
		l, err := client.TryAcquire(ctx, o.p.key)
		return leased{l, err}
	})
}

// acquire is an attempt in one instant, except for the settle.
func (o *ours) acquire() string {
	taken := o.back.Takeovers()
	if o.at != nil { // it has already looked
		c := o.at
		o.at = nil
		o.through(c)
	} else {
		o.try()
	}
	return o.taken(o.free("acquire"), taken)
}

// looks is the first half of a takeover: the client has found the value
// expired, and the command that replaces it waits before the server.
func (o *ours) looks() {
	o.try()
	o.through(o.waits("look"))
	o.at = o.waits("takeover")
}

// taken returns the result of an attempt whose commands have run.
func (o *ours) taken(x any, before int64) string {
	result := "won"
	if o.back.Takeovers() > before {
		result = "takeover"
	}
	if n, ok := x.(*nap); ok {
		o.naps++
		o.p.settles(n.d)
		if o.p.sc.Ours.Settle > 0 {
			o.nap = n
			o.remember()
			return result
		}
		// In this scenario the model has no settle, so the pause ends at once.
		n.wake <- o.p.world.Now()
		x = o.free("settle")
	}
	return o.has(x.(leased), result)
}

// has ends an attempt and returns its result.
func (o *ours) has(l leased, won string) string {
	o.trying = false
	if l.err == nil {
		o.lease = l.lease
		o.remember()
		return won
	}
	if !errors.Is(l.err, lock.ErrHeld) {
		o.p.fail("%s: %v", o.name, l.err)
	}
	o.stage.bury()
	o.token = ""
	return "held"
}

// remember reads what the lease depends on.
func (o *ours) remember() {
	if v, err := o.p.world.Mini.Get(o.p.m); err == nil {
		o.mark = o.p.protocol.Mark(v)
	}
}

// check ends the settle: the client wakes and looks again.
func (o *ours) check() string {
	o.nap.wake <- o.p.world.Now()
	o.nap = nil
	o.through(o.waits("check"))
	switch x := o.stage.await(o.name + " check").(type) {
	case *call: // releases what it took
		o.at = x
		return "lost"
	case leased:
		if x.err != nil { // the mark is there, but not for long enough to be trusted
			o.trying = false
			o.at = o.waits("undo")
			return "lost"
		}
		return o.has(x, "won")
	default:
		o.p.fail("%s rests at %T", o.name, x)
	}
	return ""
}

// release executes the release, which the client may have sent long ago.
func (o *ours) release() {
	switch {
	case o.at != nil:
		c := o.at
		o.at = nil
		o.through(c)
		if o.trying {
			o.has(o.free("release").(leased), "won")
		}
	default:
		lease := o.lease
		o.begin(func() leased { return leased{nil, lease.Release()} })
		if x := o.free("release").(leased); x.err != nil && !errors.Is(x.err, lock.ErrLost) {
			o.p.fail("%s releases: %v", o.name, x.err)
		}
	}
	o.stage.bury()
	o.lease, o.token, o.mark, o.stopped = nil, "", "", false
}

func (o *ours) renewed() string {
	var x leased
	if c := o.at; c != nil {
		o.at = nil
		o.through(c)
		x = o.free("renewed").(leased)
	} else {
		x = o.renew()
	}
	switch {
	case x.err == nil:
		o.remember()
		return "won"
	case errors.Is(x.err, lock.ErrLost):
		return "lost"
	}
	o.p.fail("%s renews: %v", o.name, x.err)
	return ""
}

func (o *ours) renew() leased {
	lease := o.lease
	o.begin(func() leased { return leased{nil, lease.Renew(context.Background())} })
	return o.free("renew").(leased)
}

// toldLost checks that the client has lost its lease. Either trust has run out
// by its own clock. Or the mark is gone, which the embedded server does not
// report, so a refused renewal has to.
func (o *ours) toldLost(before model.Member) {
	o.forgets()
	if !before.Trusted {
		if o.lease.Err() == nil {
			o.p.fail("%s still trusts its lease", o.name)
		}
		return
	}
	if x := o.renew(); !errors.Is(x.err, lock.ErrLost) {
		o.p.fail("%s finds its mark standing: %v", o.name, x.err)
	}
}

// stands returns what the client believes, in the model's words as far as it
// knows them.
func (o *ours) stands() string {
	switch {
	case o.lease == nil && o.nap != nil:
		return "settle"
	case o.lease == nil && o.got != nil:
		return "answer"
	case o.lease == nil && o.at != nil && o.trying && o.p.protocol.Attempt(o.at.Command) != "":
		return "sent"
	case o.lease == nil && o.at != nil && o.p.protocol.Attempt(o.at.Command) != "":
		return "gone"
	case o.at != nil && o.lease == nil, o.stopped:
		return "stopped"
	case o.lease == nil:
		return "idle"
	case o.lease.Err() != nil:
		return "lost"
	}
	return "holds"
}

package proof

import (
	"context"
	"errors"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/skew"
)

// ours is one client of ours: package lock's Client over a backend of the protocol under test.
type ours struct {
	p     *Play
	name  string
	stage *stage
	back  Backend
	until *redistest.Clock // by which trust is kept

	client  *lock.Client
	cancel  context.CancelFunc
	trying  bool
	nap     *nap  // it settles
	at      *call // stands before the server
	got     *call // ran; its reply is held back …
	answer  []byte
	lease   *lock.Lease
	stopped bool // its job has

	token string // of its attempt or grant, as it was seen on the way
	mark  string // what its lease hangs on, as M says
	naps  int
}

// leased is what an operation of ours ends with.
type leased struct {
	lease *lock.Lease
	err   error
}

func (p *Play) newOurs(name string) *ours {
	o := &ours{p: p, name: name}
	o.revive()
	return o
}

// boot is of the machine on which all of ours run, unless looks are to be of other machines.
func (p *Play) boot() string {
	if p.sc.Ours.Elsewhere {
		return ""
	}
	return "machine"
}

// revive is the client after a crash, or at the beginning.
func (o *ours) revive() {
	p := o.p
	o.die()
	o.stage = newStage(p.t, p.world)
	o.stage.attempt = p.protocol.Attempt
	o.until = p.world.Clock(redistest.Skew{})
	back, err := p.protocol.Open(p, o.name, o.stage.pool(), &napper{p.world.Clock(redistest.Skew{}), o.stage, p.boot()})
	if err != nil {
		p.t.Fatalf("replay: %v", err)
	}
	margin := p.ticks(p.sc.Ours.Margin)
	if margin == 0 {
		margin = -1
	}
	// Only the Backend itself: the rules by which a Client refuses times are checked elsewhere, since
	// here the model's times have to be tried that break them.
	o.back = back
	o.client, err = lock.New(struct{ lock.Backend }{back}, lock.Config{
		TTL: p.ticks(max(p.sc.Ours.TTL, p.sc.Ours.Long)), Margin: margin, RenewEvery: -1, Politeness: -1, Clock: o.until,
		RetryEvery: p.tick, ReleaseWait: patience, HandOvers: -1, LocalHandOvers: -1,
	})
	if err != nil {
		p.t.Fatalf("replay: %v", err)
	}
	p.t.Cleanup(o.die)
	o.trying, o.nap, o.at, o.got, o.lease, o.stopped, o.token, o.mark = false, nil, nil, nil, nil, false, "", ""
	if p.sc.ServerStep != 0 && !p.sc.Ours.Newcomers || p.sc.Ours.Late { // the scripts are known then, too
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
	_ = o.client.Close(ended) // its leases are held still
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

// free lets everything run until the client is through or wants to be woken.
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
	if t := o.p.protocol.Attempt(c.cmd); t != "" {
		o.token = t
	}
}

// act lets one event of the model happen to the client and says what came of it.
func (o *ours) act(e skew.Event, before, after skew.Member) string {
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
		o.at.runs <- false
		o.at.hears <- nil
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
		return e.Result // whether the bytes are the same shows when it judges by them
	case "learn":
		// The world shows the phase of a lease, where one runs; the event says what was read.
		o.p.protocol.Learn(o.p, o.name, skew.Phase(migrate.Phase(e.Arg).String()))
	case "vanish", "beat", "miss", "enter", "forget":
		// Heartbeats are the registry's, and only gates ask that.
	default:
		o.p.fail("%q is no event of ours that can be replayed", e)
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

// acquire is an attempt in one instant, but for the settle.
func (o *ours) acquire() string {
	taken := o.back.Takeovers()
	if o.at != nil { // it has looked already
		c := o.at
		o.at = nil
		o.through(c)
	} else {
		o.try()
	}
	return o.taken(o.free("acquire"), taken)
}

// looks is the first half of a takeover: the client has found the value expired, and what is to replace
// it stands before the server.
func (o *ours) looks() {
	o.try()
	o.through(o.waits("look"))
	o.at = o.waits("takeover")
}

// taken says what came of an attempt whose commands have run.
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
		// The model of this scenario knows no settle: it is over at once.
		n.wake <- o.p.world.Now()
		x = o.free("settle")
	}
	return o.has(x.(leased), result)
}

// has ends an attempt.
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

// remember reads what the lease hangs on.
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
	case *call: // gives back what it took
		o.at = x
		return "lost"
	case leased:
		if x.err != nil { // it stands, but not for long enough to be trusted
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

// release lets the release run, which its client may have sent long ago.
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

// toldLost: trust has run out, which a Client sees by its own clock; or the mark is gone, of which the
// embedded server tells nobody, so that a refused renewal has to.
func (o *ours) toldLost(before skew.Member) {
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

// stands is what the client believes, in the model's words as far as it knows them.
func (o *ours) stands() string {
	switch {
	case o.lease == nil && o.nap != nil:
		return "settle"
	case o.lease == nil && o.got != nil:
		return "answer"
	case o.lease == nil && o.at != nil && o.trying && o.p.protocol.Attempt(o.at.cmd) != "":
		return "sent"
	case o.lease == nil && o.at != nil && o.p.protocol.Attempt(o.at.cmd) != "":
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

package replay

import (
	"context"
	"errors"
	"strings"

	"github.com/getsetlock/getsetlock/internal/redistest"
	"github.com/getsetlock/getsetlock/lock"
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

// revive is the client after a crash, or at the beginning.
func (o *ours) revive() {
	p := o.p
	o.die()
	o.stage = newStage(p.t, p.world)
	o.stage.attempt = p.protocol.Attempt
	o.until = p.world.Clock(redistest.Skew{})
	back, err := p.protocol.Open(p, o.name, o.stage.pool(), &napper{p.world.Clock(redistest.Skew{}), o.stage})
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

// meets lets the client see the server's clock before it steps.
func (o *ours) meets() {
	client := o.client
	o.begin(func() leased {
		l, err := client.TryAcquire(context.Background(), "another")
		if err == nil {
			err = l.Release()
		}
		return leased{nil, err}
	})
	x := o.free("its first look")
	for n, ok := x.(*nap); ok; n, ok = x.(*nap) {
		n.wake <- o.p.world.Now()
		x = o.free("its first look")
	}
	if l := x.(leased); l.err != nil {
		o.p.fail("%s looks: %v", o.name, l.err)
	}
	o.token = ""
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
		o.p.protocol.Learn(o.p, o.name, after.Phase)
	default:
		o.p.fail("%q is no event of ours that can be replayed", e)
	}
	return ""
}

// waits is the command with which the client rests.
func (o *ours) waits(what string) *call {
	o.p.t.Helper()
	x := o.stage.await(o.name + " " + what)
	c, ok := x.(*call)
	if !ok {
		o.p.fail("%s sends nothing to %s: %+v", o.name, what, x)
	}
	o.note(c)
	return c
}

// sends is an attempt that rests before the server. One that finds its connection lost, because what
// went before never arrived, is made again.
func (o *ours) sends() {
	for range 10 {
		o.try()
		switch x := o.stage.await(o.name + " send").(type) {
		case *call:
			o.note(x)
			o.at = x
			return
		case leased:
			if errors.Is(x.err, lock.ErrHeld) {
				o.p.fail("%s sends nothing: %v", o.name, x.err)
			}
		}
	}
	o.p.fail("%s sends nothing", o.name)
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

// quits ends an attempt by its context. What it took is then given back in the background, and that
// waits before the server for its turn.
func (o *ours) quits(before skew.Member) {
	o.cancel()
	o.nap = nil
	if before.Step == "sent" {
		x, ok := o.stage.await(o.name + " cancel").(leased)
		if !ok || x.err == nil {
			o.p.fail("%s, cancelled: %+v", o.name, x)
		}
		o.trying = false
		return
	}
	if o.got != nil { // the reply comes after its client has gone
		x, ok := o.stage.await(o.name + " cancel").(leased)
		if !ok || x.err == nil {
			o.p.fail("%s, cancelled: %+v", o.name, x)
		}
		o.trying = false
		o.got.hears <- o.answer
		o.got = nil
		o.at = o.waits("cancel")
		return
	}
	for o.trying || o.at == nil {
		switch x := o.stage.await(o.name + " cancel").(type) {
		case *call:
			o.at = x
		case leased:
			if x.err == nil {
				o.p.fail("%s was cancelled and has the lease", o.name)
			}
			o.trying = false
		}
	}
}

// arrives is the attempt's command reaching the server, long after it was sent. A takeover needs two,
// and the second follows at once.
func (o *ours) arrives(before, after skew.Member) string {
	result := "won"
	c := o.at
	o.at = nil
	v := o.stage.run(c)
	for o.retries(v) || refused(v) && after.Step != "idle" {
		if !o.retries(v) {
			result = "takeover"
		}
		if before.Step == "gone" && !o.retries(v) {
			o.p.fail("%s is refused: %q", o.name, v)
		}
		c.hears <- v
		c = o.waits("acquire")
		v = o.stage.run(c)
	}
	switch {
	case after.Step == "idle":
		c.hears <- v
		if before.Step == "gone" {
			o.stage.bury()
			o.token = ""
			return "held"
		}
		return o.has(o.free("acquire").(leased), result)
	case before.Step == "gone":
		c.hears <- v
		o.at = o.waits("undo")
	default:
		o.got, o.answer = c, v
	}
	o.remember()
	return result
}

// refused reads the reply to a command that takes the key: a look at who has it, or nothing.
func refused(v []byte) bool { return strings.HasPrefix(string(v), "*2") || null(v) }

// through lets a command run and be answered, again where the server did not know the script.
func (o *ours) through(c *call) {
	for o.retries(o.stage.through(c)) {
		c = o.waits("a script")
	}
}

func (o *ours) retries(v []byte) bool { return strings.HasPrefix(string(v), "-NOSCRIPT") }

// hears is the reply of an attempt reaching the client. One that is not trusted any more is given back.
func (o *ours) hears() string {
	o.got.hears <- o.answer
	o.got = nil
	switch x := o.stage.await(o.name + " answer").(type) {
	case leased:
		o.trying = false
		if x.err == nil {
			o.lease = x.lease
			return ""
		}
		o.at = o.waits("undo")
	case *call:
		o.at = x
		if l, ok := o.stage.await(o.name + " answer").(leased); !ok || l.err == nil {
			o.p.fail("%s undoes what it has: %+v", o.name, l)
		}
		o.trying = false
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

// forgets loses a renewal that is still on its way: what it would find is nothing to its client any more,
// and that it never arrives is the one way in which it does nothing else either.
func (o *ours) forgets() {
	if o.at == nil || o.lease == nil {
		return
	}
	o.at.runs <- false
	o.at.hears <- nil
	o.at = nil
	if x, ok := o.stage.await(o.name + " forgets").(leased); !ok || x.err == nil {
		o.p.fail("%s renewed by what never arrived: %+v", o.name, x)
	}
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

// sample is a look that takes nothing: an attempt that finds the key held.
func (o *ours) sample() {
	if r := o.acquire(); r != "held" {
		o.p.fail("%s looks and takes the key: %s", o.name, r)
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

package proof

import (
	"context"
	"errors"
	"strings"

	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/skew"
)

// old is one old client: package legacy's Verbatim.
type old struct {
	p       *Play
	name    string
	stage   *stage
	clock   *told
	backend legacy.Backend

	busy   bool   // an operation of it is under way
	at     *call  // stands before the server
	got    *call  // ran; its reply is held back …
	answer []byte // … and says this
	looked bool   // of the attempt: GET was answered
	won    bool   // of the attempt: the reply that it heard last made it the holder
	grant  lock.Grant
	err    error           // what the last operation ended with
	wrote  map[string]bool // values on L that are its own
}

// ended is what an operation of an old client ends with.
type ended struct {
	grant lock.Grant
	err   error
}

func (p *Play) newOld(name string) *old {
	o := &old{p: p, name: name}
	o.revive()
	return o
}

// revive is the client after a crash, or at the beginning: nothing that it wrote is its own any more.
func (o *old) revive() {
	p := o.p
	if o.stage != nil {
		o.stage.kill()
		o.backend.Close()
	}
	o.stage, o.clock = newStage(p.t, p.world), &told{w: p.world, tick: p.tick, more: p.shift()}
	b, err := legacy.New(o.stage.pool(), legacy.Config{Mode: legacy.Verbatim, Dialect: p.dialect, Clock: o.clock, Timeout: patience})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { b.Close() })
	o.backend, o.wrote = b, map[string]bool{}
	o.busy, o.at, o.got, o.grant, o.looked, o.won = false, nil, nil, nil, false, false
}

// begin starts an operation and follows it to its first rest.
func (o *old) begin(what string, op func() ended) {
	stage := o.stage
	o.busy = true
	go func() {
		e := op()
		select {
		case stage.rest <- e:
		case <-stage.over:
		}
	}()
	o.settle(what)
}

// settle follows the client to where it rests next.
func (o *old) settle(what string) {
	o.p.t.Helper()
	switch x := o.stage.await(o.name + " " + what).(type) {
	case *call:
		o.at = x
		o.note(x)
	case ended:
		o.busy, o.grant, o.err = false, x.grant, x.err
	default:
		o.p.fail("%s rests at %T", o.name, x)
	}
}

// note remembers what the client is about to write.
func (o *old) note(c *call) {
	if (c.cmd.Is("SETNX") || c.cmd.Is("SET") || c.cmd.Is("GETSET")) && len(c.cmd) > 2 {
		o.wrote[o.p.identity(c.cmd[2])] = true
	}
}

// run lets the command that stands before the server run.
func (o *old) run(what string) []byte {
	if o.at == nil {
		o.p.fail("%s has no command under way for %s", o.name, what)
	}
	o.answer = o.stage.run(o.at)
	o.got, o.at = o.at, nil
	return o.answer
}

// hear gives the client its reply, and says what its clock shows from then on.
func (o *old) hear(what string, clock ...int) {
	o.clock.show(clock...)
	switch {
	case o.got.cmd.Is("SETNX"):
		o.won = integer(o.answer, "1")
	case o.got.cmd.Is("SET"):
		o.won = !null(o.answer)
	case o.got.cmd.Is("GET"):
		o.looked = true
	case o.got.cmd.Is("GETSET"):
		o.won = true // as far as the next rest does not say otherwise
	}
	o.got.hears <- o.answer
	o.got = nil
	o.settle(what)
}

// stands is where the client stands, in the model's words.
func (o *old) stands() string {
	switch {
	case o.got != nil && o.got.cmd.Is("GET"):
		return "got"
	case o.got != nil && o.got.cmd.Is("GETSET"):
		return "gotset"
	case o.at == nil && o.grant != nil:
		return "holds"
	case o.at == nil:
		return "idle"
	case o.at.cmd.Is("EXPIRE") && o.won:
		return "holds-expire"
	case o.at.cmd.Is("EXPIRE"):
		return "expire"
	case (o.at.cmd.Is("SETNX") || o.at.cmd.Is("SET")) && o.looked:
		return "last"
	case o.at.cmd.Is("SETNX"), o.at.cmd.Is("SET"):
		return "setnx"
	case o.at.cmd.Is("DEL"), o.at.cmd.Is("EVAL"):
		return "del"
	}
	return strings.ToLower(o.at.cmd[0])
}

// act lets one event of the model happen to the client and says what came of it. after is where the
// model has the client afterwards, fleet how far the old clocks were stepped.
func (o *old) act(e skew.Event, before, after skew.Member, fleet int, free bool) string {
	sc := &o.p.sc
	ahead, behind := sc.Ahead+fleet, fleet-sc.Behind
	switch e.What {
	case "clock":
		o.looked, o.won = false, false
		o.clock.show(e.Arg + fleet)
		o.begin(e.What, func() ended {
			g, err := o.backend.Try(context.Background(), o.p.key, o.p.ticks(sc.Lease))
			return ended{g, err}
		})
	case "setnx":
		v := o.run(e.What)
		won := integer(v, "1") || o.got.cmd.Is("SET") && !null(v)
		o.hear(e.What)
		if won {
			return "won"
		}
		return "lost"
	case "get":
		result := "value"
		if null(o.run(e.What)) {
			result = "nil"
		}
		if after.Step != "got" {
			o.judge(e.What, ahead)
		}
		return result
	case "judge":
		if o.p.dialect.JudgesAnew {
			o.hear(e.What, ahead, e.Arg+fleet)
		} else {
			o.hear(e.What, e.Arg+fleet)
		}
	case "getset":
		return o.getset(before, after, ahead)
	case "reply":
		o.hear(e.What, ahead)
		return o.verdict()
	case "expire":
		o.run(e.What)
		o.hear(e.What)
	case "look", "decide", "del":
		return o.release(e, ahead, behind)
	case "extend":
		o.extend(e.Arg + fleet)
	case "crash":
		o.revive()
	case "quit":
		o.quit(before, ahead, free)
	default:
		o.p.fail("%q is no event of an old client", e)
	}
	return ""
}

// judge gives the client the reply to its GET where the model says that it gets no further than a
// last SETNX. Those who begin anew at once are stopped there: that is another attempt.
func (o *old) judge(what string, ahead int) {
	o.hear(what, ahead)
	if o.busy && o.stands() == "last" && !o.p.dialect.SetnxAfterHeld {
		o.at.refuse()
		o.at = nil
		o.settle(what)
	}
}

func (o *old) getset(before, after skew.Member, ahead int) string {
	if before.Step == "got" {
		o.hear("getset", ahead)
	}
	if o.stands() != "getset" {
		o.p.fail("%s is at %q and sends no GETSET", o.name, o.stands())
	}
	o.run("getset")
	if after.Step == "gotset" {
		return ""
	}
	o.hear("getset", ahead)
	return o.verdict()
}

// verdict is what the client makes of a GETSET's reply.
func (o *old) verdict() string {
	if o.grant != nil || o.at != nil && o.at.cmd.Is("EXPIRE") {
		return "won"
	}
	o.won = false
	return "lost"
}

// release is the release, of which some make two steps. Whether it deletes is up to the clock in some
// dialects: the schedule shows the one that makes it so.
func (o *old) release(e skew.Event, ahead, behind int) string {
	if !o.busy {
		switch e.Result {
		case "kept":
			o.clock.show(ahead)
		default:
			o.clock.show(behind)
		}
		grant := o.grant
		o.begin(e.What, func() ended { return ended{nil, grant.Release(context.Background())} })
	}
	if e.What == "look" {
		o.run(e.What)
		if e.Result == "kept" {
			o.hear(e.What, ahead)
		} else {
			o.hear(e.What, behind)
		}
	}
	if o.busy && o.at != nil && o.at.cmd.Is("EVAL") {
		deleted := integer(o.run(e.What), "1")
		o.hear(e.What)
		if deleted {
			return "done"
		}
		return "kept"
	}
	if e.What != "del" {
		if o.busy {
			return "done"
		}
		return "kept"
	}
	deleted := integer(o.run(e.What), "1")
	o.hear(e.What)
	if deleted {
		return "done"
	}
	return "missing"
}

// quit ends an attempt where it stands. Where the model offers no way on, the real client is asked
// too: shown the clock that is furthest ahead it must come to the same end by itself.
func (o *old) quit(before skew.Member, ahead int, free bool) {
	switch {
	case o.got != nil && !free:
		o.hear("quit", ahead)
		if o.grant != nil || o.busy {
			o.p.fail("%s goes on to %q where the model lets it give up", o.name, o.stands())
		}
	case o.got != nil:
		o.got.hears <- refusal
		o.got = nil
		o.settle("quit")
	case o.at != nil:
		o.at.refuse()
		o.at = nil
		o.settle("quit")
	}
	if o.busy || o.grant != nil {
		o.p.fail("%s did not give its attempt up: %q, %v", o.name, o.stands(), o.err)
	}
	var unsure *lock.UnsureError
	if errors.As(o.err, &unsure) {
		o.p.fail("%s is unsure: %v", o.name, o.err)
	}
}

// extend is the renewal of clients that renew. Verbatim never does (lock.ErrNotRenewable), so the
// command is sent for it.
func (o *old) extend(clock int) {
	p := o.p
	switch p.dialect.Renews {
	case dialect.RenewsPexpire:
		p.world.Mini.SetTTL(p.l, p.ticks(p.sc.Lease))
		return
	}
	text, err := p.dialect.Stamp(p.world.ServerNow().Add(p.ticks(clock)), p.ticks(p.sc.Lease), "")
	if err == nil {
		text, err = p.dialect.EncodeValue(text)
	}
	if err == nil {
		err = p.world.Mini.Set(p.l, text)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	o.wrote[p.identity(text)] = true
}

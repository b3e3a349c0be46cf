// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/proof/internal/model"
)

// old is one old client: package legacy's Verbatim.
type old struct {
	p       *Play
	name    string
	stage   *stage
	clock   *told
	backend *legacy.Backend

	busy   bool   // an operation of it is under way
	at     *call  // command that waits before the server
	got    *call  // command that ran; its reply is held back …
	answer []byte // … and this is that reply
	looked bool   // in the attempt, GET was answered
	won    bool   // in the attempt, the last reply made it the holder
	grant  backend.Grant
	err    error           // error of the last operation
	wrote  map[string]bool // its own values on L
}

// ended is the result of an old client's operation.
type ended struct {
	grant backend.Grant
	err   error
}

func (p *Play) newOld(name string) *old {
	o := &old{p: p, name: name}
	o.revive()
	return o
}

// revive starts the client, at first or after a crash. What it wrote before is
// not its own any more.
func (o *old) revive() {
	p := o.p
	if o.stage != nil {
		o.stage.kill()
		o.backend.Close()
	}
	o.stage, o.clock = newStage(p.t, p.world), &told{w: p.world, tick: p.tick, more: p.shift()}
	b, err := legacy.New(o.stage.Pool(),
		legacy.Config{Mode: legacy.Verbatim, Dialect: p.dialect, Clock: o.clock, Timeout: patience})
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

// settle follows the client to its next rest.
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
	if (c.Command.Is("SETNX") || c.Command.Is("SET") || c.Command.Is("GETSET")) && len(c.Command) > 2 {
		o.wrote[o.p.identity(c.Command[2])] = true
	}
}

// run executes the command that waits before the server.
func (o *old) run(what string) []byte {
	if o.at == nil {
		o.p.fail("%s has no command under way for %s", o.name, what)
	}
	o.answer = o.stage.run(o.at)
	o.got, o.at = o.at, nil
	return o.answer
}

// hear gives the client its reply, and sets what its clock shows from then on.
func (o *old) hear(what string, clock ...int) {
	o.clock.show(clock...)
	switch {
	case o.got.Command.Is("SETNX"):
		o.won = integer(o.answer, "1")
	case o.got.Command.Is("SET"):
		o.won = !null(o.answer)
	case o.got.Command.Is("GET"):
		o.looked = true
	case o.got.Command.Is("GETSET"):
		o.won = true // unless the next rest shows otherwise
	}
	o.got.Hears <- o.answer
	o.got = nil
	o.settle(what)
}

// stands returns the client's step, in the model's words.
func (o *old) stands() string {
	switch {
	case o.got != nil && o.got.Command.Is("GET"):
		return "got"
	case o.got != nil && o.got.Command.Is("GETSET"):
		return "gotset"
	case o.at == nil && o.grant != nil:
		return "holds"
	case o.at == nil:
		return "idle"
	case o.at.Command.Is("EXPIRE") && o.won:
		return "holds-expire"
	case o.at.Command.Is("EXPIRE"):
		return "expire"
	case (o.at.Command.Is("SETNX") || o.at.Command.Is("SET")) && o.looked:
		return "last"
	case o.at.Command.Is("SETNX"), o.at.Command.Is("SET"):
		return "setnx"
	case o.at.Command.Is("DEL"), o.at.Command.Is("EVAL"):
		return "del"
	}
	return strings.ToLower(o.at.Command[0])
}

// act makes one event of the model happen to the client and returns its result.
// after is the model's client afterwards, fleet how far the old clocks were
// stepped.
func (o *old) act(e model.Event, before, after model.Member, fleet int, free bool) string {
	sc := &o.p.sc
	ahead, behind := sc.Ahead+fleet, fleet-sc.Behind
	switch e.What {
	case "clock":
		o.looked, o.won = false, false
		o.clock.show(e.Arg + fleet)
		o.begin(e.What, func() ended {
			g, err := o.backend.Contract().Try(context.Background(), o.p.key, o.p.ticks(sc.Lease))
			return ended{g, err}
		})
	case "setnx":
		v := o.run(e.What)
		won := integer(v, "1") || o.got.Command.Is("SET") && !null(v)
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
		if mini := o.p.world.Mini; mini.Exists(o.p.l) {
			mini.SetTTL(o.p.l, mini.TTL(o.p.l)+longer)
		}
	case "look", "decide", "del":
		return o.release(e, ahead, behind)
	case "extend":
		o.extend(e.Arg + fleet)
	case "crash":
		o.revive()
	case "quit":
		o.quit(before, ahead, free)
	default:
		o.p.fail("%q is not an event of an old client", e)
	}
	return ""
}

// judge gives the client the reply to its GET where the model says that the
// attempt ends, or goes on only with a last SETNX. A client that begins anew at
// once is stopped there: that is another attempt.
func (o *old) judge(what string, ahead int) {
	o.hear(what, ahead)
	if o.busy && o.stands() == "last" && !o.p.dialect.SetnxAfterHeld {
		refuse(o.at)
		o.at = nil
		o.settle(what)
	}
}

func (o *old) getset(before, after model.Member, ahead int) string {
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

// verdict returns what the client concludes from a GETSET's reply.
func (o *old) verdict() string {
	if o.grant != nil || o.at != nil && o.at.Command.Is("EXPIRE") {
		return "won"
	}
	o.won = false
	return "lost"
}

// release is the release, which in some dialects is two steps. In some dialects
// the clock decides whether it deletes: the schedule shows the clock that gives
// the event's result.
func (o *old) release(e model.Event, ahead, behind int) string {
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
	if o.busy && o.at != nil && o.at.Command.Is("EVAL") {
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

// quit ends an attempt where it is. Where the model has no other step, the real
// client must agree: shown the clock that is furthest ahead, it must give up by
// itself.
func (o *old) quit(before model.Member, ahead int, free bool) {
	switch {
	case o.got != nil && !free:
		o.hear("quit", ahead)
		if o.grant != nil || o.busy {
			o.p.fail("%s continues to %q where the model gives up", o.name, o.stands())
		}
	case o.got != nil:
		o.got.Hears <- refusal
		o.got = nil
		o.settle("quit")
	case o.at != nil:
		refuse(o.at)
		o.at = nil
		o.settle("quit")
	}
	if o.busy || o.grant != nil {
		o.p.fail("%s did not give up its attempt: %q, %v", o.name, o.stands(), o.err)
	}
	var unsure *backend.UnsureError
	if errors.As(o.err, &unsure) {
		o.p.fail("%s is unsure: %v", o.name, o.err)
	}
}

// extend is the renewal of clients that renew. Verbatim never does
// (backend.ErrNotRenewable), so the test sends the command.
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

// longer is by how much more than the gap L outlives M (package legacy). In the
// model, which counts whole ticks, an old client's EXPIRE can make L end just
// there. So here its lease is that much longer than whole ticks.
const longer = 200 * time.Millisecond

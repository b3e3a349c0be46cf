// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"context"
	"errors"
	"strings"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/proof/internal/model"
)

// Commands of getsetlock clients that are on their way for longer than an
// instant, and attempts that are given up.

// sends makes an attempt whose command waits before the server. It tries again
// if its connection was lost, because an earlier command never arrived.
func (o *ours) sends() {
	for range 10 {
		o.try()
		switch x := o.attempts().(type) {
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

// attempts returns the next attempt of the client, or why there is none. The
// undo of an attempt that was buried may come first, and finds nothing.
func (o *ours) attempts() any {
	o.p.t.Helper()
	for {
		x := o.stage.await(o.name + " send")
		c, ok := x.(*call)
		if !ok || o.p.protocol.Attempt(c.Command) != "" {
			return x
		}
		o.through(c)
	}
}

// waits returns the command with which the client comes to rest.
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

// quits ends an attempt by its context. The client then releases in the
// background what the attempt took, and that command waits before the server.
func (o *ours) quits(before model.Member) {
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
	if o.got != nil { // the reply arrives after its client has gone
		x, ok := o.stage.await(o.name + " cancel").(leased)
		if !ok || x.err == nil {
			o.p.fail("%s, cancelled: %+v", o.name, x)
		}
		o.trying = false
		o.got.Hears <- o.answer
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

// arrives executes the attempt's command, long after it was sent. A takeover
// needs two commands, and the second follows at once.
func (o *ours) arrives(before, after model.Member) string {
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
		c.Hears <- v
		c = o.waits("acquire")
		v = o.stage.run(c)
	}
	switch {
	case after.Step == "idle":
		c.Hears <- v
		if before.Step == "gone" {
			o.stage.bury()
			o.token = ""
			return "held"
		}
		return o.has(o.free("acquire").(leased), result)
	case before.Step == "gone":
		c.Hears <- v
		o.at = o.waits("undo")
	default:
		o.got, o.answer = c, v
	}
	o.remember()
	return result
}

// through executes a command and delivers its reply, again if the server did
// not know the script.
func (o *ours) through(c *call) {
	for o.retries(o.stage.through(c)) {
		c = o.waits("a script")
	}
}

// hears delivers an attempt's reply to the client. A grant that is not trusted
// any more is released.
func (o *ours) hears() string {
	o.got.Hears <- o.answer
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

// forgets loses a renewal that is still on its way. Its client does not need
// the result any more; losing it is the only way in which it has no other
// effect.
func (o *ours) forgets() {
	if o.at == nil || o.lease == nil {
		return
	}
	o.stage.deafen(true)
	defer o.stage.deafen(false)
	o.at.Runs <- false
	o.at.Hears <- nil
	o.at = nil
	if x, ok := o.stage.await(o.name + " forgets").(leased); !ok || x.err == nil {
		o.p.fail("%s renewed by what never arrived: %+v", o.name, x)
	}
}

// refused reports whether a reply to a command that takes the key is a look at
// the holder, or nil.
func refused(v []byte) bool { return strings.HasPrefix(string(v), "*2") || null(v) }

func (o *ours) retries(v []byte) bool { return strings.HasPrefix(string(v), "-NOSCRIPT") }

// meets lets the client see the server's clock before it steps, and teaches the
// server every script. Otherwise the client would send an unknown script a
// second time, whole, perhaps when the model is already at another event.
func (o *ours) meets() {
	client := o.client
	o.begin(func() leased {
		l, err := client.TryAcquire(context.Background(), "another")
		if err == nil {
			err = errors.Join(l.Renew(context.Background()), l.Release())
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

// sample is a look that takes nothing: an attempt that finds the key held.
func (o *ours) sample() {
	if r := o.acquire(); r != "held" {
		o.p.fail("%s looks and takes the key: %s", o.name, r)
	}
}

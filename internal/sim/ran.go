// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// asked is what a request wants of a lock's key.
type asked struct {
	key   *key
	token string
	ttl   time.Duration // zero: it sets none
}

// about returns what a request of a lock.Client wants, for each key of it.
func (w *world) about(c redistest.Command, name string) (all []asked) {
	if c.Is("SET") && len(c) == 6 {
		return w.asks(c[1:2], c[2], c[5])
	}
	if !c.Is("EVAL") && !c.Is("EVALSHA") || w.plan.Form == Bridged {
		return nil
	}
	n, _ := strconv.Atoi(c[2])
	keys, args := c[3:3+n], append(slices.Clone(c[3+n:]), "", "")
	switch place := strings.SplitN(args[0]+"   ", " ", 4); {
	case name == "take":
		return w.asks(keys[:1], place[3], args[1])
	case name == "leave":
		return w.asks(keys[:1], place[3], "")
	case name == "renew" && !w.plan.Form.marked():
		for i := range keys {
			all = append(all, w.asks(keys[i:i+1], args[1+i], args[0])...)
		}
		return all
	case name == "acquire", name == "renew":
		return w.asks(keys[:2], args[0], args[1])
	case name == "give", name == "release", name == "finish":
		return w.asks(keys[:min(2, n)], args[0], "")
	}
	return nil
}

func (w *world) asks(keys []string, token, ms string) []asked {
	n, _ := strconv.Atoi(ms)
	for _, k := range w.keys {
		if slices.Contains(keys, k.watched) {
			return []asked{{k, token, time.Duration(n) * time.Millisecond}}
		}
	}
	return nil
}

// marked reports whether the form's tokens are on a key next to the lock's own.
func (f Form) marked() bool { return f == Hardened || f.besides() }

// ran records what a request did to the keys that it is about. before are their
// values when it came.
func (w *world) ran(p *process, m message, name string, before []string, reply []byte) {
	if w.plan.Procs[p.id].Kind != "" || w.plan.Form == Quorum { // a quorum's servers have other values
		return
	}
	all := w.about(m.name, name)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range all {
		w.h.add(Event{Kind: Ran, Proc: p.id, Op: None, Key: a.key.number, Token: w.h.number(a.token),
			Was: w.h.number(before[a.key.number]), Stands: word(a.key.value) == word(a.token),
			Until: a.key.until, Left: a.ttl, Text: name + "=" + outcome(reply)})
	}
}

// values returns what the keys have.
func (w *world) values() (all []string) {
	w.redis.ServerNow() // what has ended is gone
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range w.keys {
		all = append(all, k.value)
	}
	return all
}

// counts compares what the Client says of its leases with those that this
// process has. Called where no operation of the process is under way at this
// instant.
func (p *process) counts(h *held) {
	trusted, sure := p.trusted()
	if p.dead.Load() || p.closed.Load() || !sure {
		return
	}
	var said []string
	times := true
	stats, now := p.client.Stats(), p.clock.Now()
	for _, l := range p.client.Leases() {
		said = append(said, l.Key+" "+l.Token)
		times = times && !l.Until.Before(now) && !stats.Oldest.After(l.Since)
	}
	slices.Sort(said)
	if !slices.Equal(said, trusted) || stats.Leases != len(said) || !times {
		p.add(Event{Kind: Odd, Op: h.op.ID, Key: h.op.Key, Text: fmt.Sprintf(
			"Leases has %d, Stats %d, and the process %d; the times are right: %t", len(said), stats.Leases,
			len(trusted), times)})
	}
}

// trusted returns the leases of the process that are trusted. It is not sure if
// there is a Do whose context may have ended before its lease, or a Request
// whose result nobody receives.
func (p *process) trusted() (all []string, sure bool) {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	for _, o := range p.w.plan.Ops {
		if o.Proc == p.id && p.w.pending[o.ID] && p.w.plan.forsakes(o) {
			return nil, false
		}
	}
	for _, k := range p.w.keys {
		for _, l := range k.leases {
			switch {
			case l.p != p:
			case l.op.Kind == Do && l.op.Cancel > 0:
				return nil, false
			case l.err() == nil:
				all = append(all, k.name+" "+l.token)
			}
		}
	}
	slices.Sort(all)
	return all, true
}

// sending counts a request or a dial of the process.
func (p *process) sending() {
	p.w.h.sent(p.id)
	if over := p.over.Load(); over > 0 && int64(p.w.h.now()) > over && p.member == nil {
		p.add(Event{Kind: Odd, Op: None, Text: "the process sends or dials after its Close"})
	}
}

package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/migrate"
)

// marks are the two keys of a lock as they were before a command.
type marks struct {
	k            *key // nil: the command is on no lock
	l, m         string
	lLeft, mLeft time.Duration
}

// marks reads the keys of the lock that a command is on.
func (w *world) marks(c []string, node int) marks {
	if w.plan.Form != Bridged || node > 0 {
		return marks{}
	}
	for _, k := range w.keys {
		for _, name := range keysOf(c) {
			if name == k.name {
				w.redis.ServerNow()
				return w.read(k)
			}
		}
	}
	return marks{}
}

func (w *world) read(k *key) marks {
	l, _ := w.redis.Mini.Get(k.name)
	mark := Bridged.watched(k.name)
	m, _ := w.redis.Mini.Get(mark)
	return marks{k, l, m, w.redis.Mini.TTL(k.name), w.redis.Mini.TTL(mark)}
}

// on is what a lease depends on by the value of M: bytes on L, or nothing.
func on(m string) string {
	if parts := strings.Split(m, " "); len(parts) > 1 && parts[0] != "left" {
		return parts[1]
	}
	return ""
}

// grant is who wrote a token, and by which phase.
type grant struct {
	proc  int
	phase migrate.Phase
}

// marked judges what a command of a getsetlock client did to a lock: rules 1,
// 7, 8, 9 and 10 of docs/protocol.md, and what a phase leaves on L.
func (w *world) marked(p *process, sent migrate.Phase, name, did string, was marks) {
	if was.k == nil || w.plan.Procs[p.id].Kind == OldClient {
		return
	}
	now := w.read(was.k)
	spoil := func(text string, args ...any) {
		w.h.add(Event{Kind: Spoiled, Proc: p.id, Op: None, Key: was.k.number,
			Text: name + " " + fmt.Sprintf(text, args...)})
	}
	own, took := w.grants[word(was.m)].proc == p.id && word(was.m) != "left", false
	if token := word(now.m); token != word(was.m) && token != "" && token != "left" {
		took = true
		w.grants[token] = grant{p.id, w.actsBy(sent, name, now)}
		if !taking(name) && name != "bridge_done" {
			spoil("takes the lock")
		}
	}
	if word(was.m) != "left" && was.m != "" && word(now.m) != word(was.m) && !own {
		spoil("removes the token of p%d", w.grants[word(was.m)].proc)
	}
	switch {
	case now.l == was.l || was.l == "" && took || own && was.l == on(was.m):
	case took && (did == "2" || was.l == w.tomb() && now.l != ""):
	case name == "sweep" && was.l == w.tomb() && w.sweeps(was):
	default:
		spoil("changes L from %.9q, which is not its own", was.l)
	}
	switch {
	case took:
		w.stands(now, spoil)
		w.unseen(p, true)
	case name == "bridge_renew" && did == "1":
		w.stands(now, spoil)
		w.unseen(p, false)
	case name == "bridge_release" && did == "1" && own:
		w.gaveBack(sent, was, now, spoil)
	}
}

// actsBy is the phase by which a process has taken a lock: what M says, and
// among equals what its member said when the command was sent.
func (w *world) actsBy(sent migrate.Phase, script string, now marks) migrate.Phase {
	says := min(max(sent, migrate.Dual), migrate.Modern)
	switch mark := on(now.m); {
	case script == "acquire":
		return migrate.Observe
	case mark == "":
		return migrate.Clean
	case mark == w.tomb():
		return max(says, migrate.Sealed)
	}
	return says
}

// stands judges a lock that was just taken or renewed.
func (w *world) stands(now marks, spoil func(string, ...any)) {
	switch mark := on(now.m); {
	case mark == "":
	case mark != now.l:
		spoil("leaves a token whose mark is not on L")
	case mark == w.tomb():
		if now.lLeft < 14*24*time.Hour {
			spoil("leaves a tombstone of %v", now.lLeft)
		}
	case now.lLeft < now.mLeft-time.Millisecond && !w.plan.Old.dialect().ServerExpires():
		spoil("leaves a mark that ends before its token")
	}
}

// gaveBack judges a release by a member that acted by a phase when it was sent.
func (w *world) gaveBack(says migrate.Phase, was, now marks, spoil func(string, ...any)) {
	switch g := w.grants[word(was.m)]; {
	case now.m != "":
		spoil("leaves its token")
	case on(was.m) == "":
	case says == migrate.Dual && on(was.m) != w.tomb() && now.l != "":
		spoil("leaves %.9q on L in dual", now.l)
	case g.phase >= migrate.Sealed && (says == migrate.Sealed || says == migrate.Modern) &&
		now.l != w.tomb() && !w.plan.Old.dialect().OrMine:
		spoil("leaves no tombstone in %v", says)
	}
}

// sweeps reports whether the record allows that a tombstone is deleted: on the
// way back from sealed and at a new beginning where no lease depends on it, and
// after clean.
func (w *world) sweeps(was marks) bool {
	r := w.record()
	switch {
	case r.Phase == migrate.Clean:
		return r.Pending == migrate.NoPhase
	case r.Phase == migrate.Observe:
		return true
	}
	return r.Phase == migrate.Dual && (was.m == "" || word(was.m) == "left")
}

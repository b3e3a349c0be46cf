// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"slices"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/operator/offset"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
	"github.com/getsetlock/getsetlock/internal/scope"
)

// filter turns lines of MONITOR into events and drops lines that are not about
// locks. If a connection sends a dropped command just before one that counts,
// the filter also passes on the name and instant of the dropped one: they bound
// clocks. Its memory is bounded.
type filter struct {
	reader *reading.Reader
	any    *reading.Reader // reads stamps of every known dialect
	scope  scope.Scope
	keys   keyMemory // keys of locks, inside scope
	most   int
	peers  map[string]*lastLine
	script lastScript
	parser parser
	found  func(key string) // called for each new key of a lock
	sights *sightings       // the markers of this watch; nil: it sends none
	round  ownRound         // the round of markers that is under way in the stream
	calls  calls            // lines of each counted command
	before *point           // the last comparison of calls with the server's counts; nil: none
	other  calledLine       // the newest call on a watched key, until it is passed on
	told   int64            // instant of the line at which other was last passed on, in µs

	lines  int64
	newest int64 // instant of the last line, in µs
}

// forget drops what connections and scripts did last. It is called when lines
// may be missing before the next one.
func (f *filter) forget() {
	clear(f.peers)
	f.script = lastScript{}
	f.round, f.before = ownRound{}, nil
}

// lastLine is a dropped command that may still be passed on.
type lastLine struct {
	micros int64
	db     int
	name   string
}

// lastScript is the call of a script whose lines may follow.
type lastScript struct {
	lastLine
	caller string
	ours   bool // a getsetlock client sent it
}

// mostDeleted bounds how many keys of one DEL are examined.
const mostDeleted = 4096

// mostArguments is the same for commands that may be attempts: the most
// arguments that a server takes.
const mostArguments = 1 << 20

// keyMemory remembers the keys used last: at least most of them, at most twice
// as many.
type keyMemory struct {
	most       int
	young, old map[string]bool
}

func (m *keyMemory) has(key string) bool {
	if m.young[key] {
		return true
	}
	if !m.old[key] {
		return false
	}
	m.add(key)
	return true
}

func (m *keyMemory) add(key string) {
	if m.young == nil || len(m.young) >= m.most {
		m.old, m.young = m.young, make(map[string]bool, 64)
	}
	m.young[key] = true
}

// longestArg is how many bytes of a value are kept. A stamp is far shorter.
const longestArg = 1024

// longestKey is how many bytes of a key are kept: a name of 64 KiB and what a
// serializer adds around it.
const longestKey = 1<<16 + 1024

func newFilter(cfg Config, found func(string)) *filter {
	return &filter{
		reader: reading.NewReader(cfg.Dialects), any: reading.NewReader(nil), scope: cfg.scope(),
		keys: keyMemory{most: cfg.MaxKeys}, most: cfg.MaxKeys,
		peers: map[string]*lastLine{}, found: found,
	}
}

// line takes the next line and appends the events it yields, in the order in
// which the server executed them.
func (f *filter) line(text string, out []offset.Observed) []offset.Observed {
	f.lines++
	if f.sights != nil && f.sights.ready.Load() {
		out = f.compare(out)
	}
	l, err := f.parser.parse(text, 8, longestArg)
	if err != nil || len(l.args) == 0 {
		return out
	}
	c := commandOf(l.args[0])
	name := c.name
	marker := f.follow(l, name)
	f.calls[c.counted]++
	if marker {
		f.newest = l.micros
		return f.tellOther(out)
	}
	l = f.whole(l, name, text)
	f.newest = l.micros
	if l.micros-f.told >= otherEvery.Microseconds() {
		out = f.tellOther(out)
	}
	inScript := l.addr == "lua"
	if c.acts && !(inScript && f.script.ours) {
		f.noteOther(l, name)
	}
	if !f.wanted(l, name, inScript) {
		f.leave(l, name, inScript, text)
		return out
	}
	if inScript {
		if f.script.micros != 0 {
			out = append(out, f.script.event(f.script.caller))
			f.script.micros = 0
		}
		return append(out, l.event())
	}
	if before := f.peers[l.addr]; before != nil && before.micros != 0 {
		out = append(out, before.event(strings.Clone(l.addr)))
		before.micros = 0
	}
	f.script.micros = 0
	return append(out, l.event())
}

// whole reads a line again if more of it is needed.
func (f *filter) whole(l line, name, text string) line {
	if l.more && namesManyKeys(name) {
		most := mostDeleted
		if name[0] != 'D' && name[0] != 'U' {
			most = mostArguments
		}
		l, _ = f.parser.parse(text, most, longestArg)
	} else if len(l.args) > 1 && len(l.args[1]) == longestArg {
		// A serializer writes the length of a key before its text, so a key
		// that was cut cannot be read.
		l, _ = f.parser.parse(text, 8, longestKey)
	}
	return l
}

// leave remembers a dropped command: it is the one before the connection's
// next.
func (f *filter) leave(l line, name string, inScript bool, text string) {
	if inScript {
		return
	}
	was := lastLine{l.micros, l.db, name}
	if reading.IsScript(was.name) {
		f.script = lastScript{was, strings.Clone(l.addr), strings.Contains(text, scope.MarkSuffix)}
	}
	f.remember(l.addr, was)
}

// remember stores the last dropped command of a connection, for a bounded
// number of connections.
func (f *filter) remember(addr string, was lastLine) {
	p := f.peers[addr]
	if p == nil {
		if len(f.peers) >= 16*f.most {
			clear(f.peers)
		}
		p = new(lastLine)
		f.peers[strings.Clone(addr)] = p
	}
	*p = was
}

// wanted reports whether a command is about a lock: it names a key that is
// known as a lock, or writes a value that a dialect reads.
func (f *filter) wanted(l line, name string, inScript bool) bool {
	if reading.Forgets(f.scope, name, l.db, l.args) {
		return len(f.keys.young) > 0
	}
	if len(l.args) < 2 || reading.IsScript(name) {
		return false
	}
	switch name {
	case "DEL", "UNLINK":
		return slices.ContainsFunc(l.args[1:], func(key string) bool { return f.known(l.db, key) })
	case "MOVE", "COPY":
		into := reading.Target(name, l.db, l.args)
		return slices.ContainsFunc(l.args[1:],
			func(key string) bool { return f.known(l.db, key) || f.known(into, key) })
	}
	if f.known(l.db, l.args[1]) {
		return !l.onlyLooks(name)
	}
	return l.mayBeAttempt(name) && f.attempt(l, name, inScript)
}

// onlyLooks reports whether a command neither changes a key nor returns the
// whole value to its sender.
func (l line) onlyLooks(name string) bool {
	return name == "PTTL" || name == "TTL" || name == "EXISTS" || strings.EqualFold(l.args[0], "GETRANGE")
}

// mayBeAttempt reports whether the command is a write by which a client of some
// dialect takes a lock, with a value no longer than a stamp.
func (l line) mayBeAttempt(name string) bool {
	switch name {
	case "SETNX", "GETSET", "SET":
		return len(l.args) > 2 && len(l.args[2]) <= reading.LongestStampText
	}
	return false
}

// covers reports whether the watch is about that key of that database, for
// commands and markers alike.
func (f *filter) covers(database int, key string) bool { return f.scope.Covers(database, key) }

// known reports whether that key of that database is a watched lock.
func (f *filter) known(database int, key string) bool {
	return f.covers(database, key) && f.keys.has(key)
}

// attempt examines a write on an unknown key. If it takes a lock, attempt
// remembers the key and returns true.
func (f *filter) attempt(l line, name string, inScript bool) bool {
	if !f.covers(l.db, l.args[1]) || reading.IsMark(l.args[1], l.args[2]) {
		return false
	}
	at := time.UnixMicro(l.micros).UTC()
	r := f.reader.ReadAny(l.args[2], at)
	if name == "SET" && !r.Guard && !r.Tomb {
		if inScript || !hasNX(l.args[3:]) {
			return false
		}
		r = f.reader.Read(l.args[2], at, true)
	}
	if !r.Known() {
		return false
	}
	key := strings.Clone(l.args[1])
	f.keys.add(key)
	f.found(key)
	return true
}

func hasNX(options []string) bool {
	for _, o := range options {
		if len(o) == 2 && o[0]|0x20 == 'n' && o[1]|0x20 == 'x' {
			return true
		}
	}
	return false
}

func (l line) event() offset.Observed {
	o := offset.Observed{At: time.UnixMicro(l.micros).UTC(), Kind: offset.ObservedCommand,
		Addr: strings.Clone(l.addr), DB: l.db}
	o.Args = make([]string, 0, len(l.args))
	for _, a := range l.args {
		o.Args = append(o.Args, strings.Clone(a))
	}
	return o
}

func (l lastLine) event(addr string) offset.Observed {
	return offset.Observed{At: time.UnixMicro(l.micros).UTC(), Kind: offset.ObservedCommand, Addr: addr,
		DB: l.db, Args: []string{l.name}}
}

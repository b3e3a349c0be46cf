// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/operator/offset"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
	"github.com/getsetlock/getsetlock/internal/scope"
)

// command is what the filter knows of a command's name.
type command struct {
	name    string // in capitals; OTHER for names that need no telling apart
	counted int    // place in countedCommands; 0: not counted
	acts    bool   // on a watched key it may be an attempt of an unknown client
}

var otherCommand = &command{name: "OTHER"}

// commands are the names that need no allocation.
var commands = func() map[string]*command {
	out := map[string]*command{}
	for _, n := range []string{"SETNX", "SET", "GET", "GETSET", "SETEX", "PSETEX", "DEL", "UNLINK", "GETDEL",
		"EXPIRE", "PEXPIRE", "PING",
		"EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO", "FCALL", "FCALL_RO", "EXISTS", "PTTL", "TTL", "INCR",
		"SELECT", "CLIENT", "HELLO", "AUTH",
		"FLUSHALL", "FLUSHDB", "SWAPDB", "MOVE", "COPY", "MULTI", "EXEC", "HGET", "HSET", "PERSIST",
		"EXPIREAT", "PEXPIREAT", "RENAME", "MGET", "GETEX", "WATCH"} {
		out[n] = &command{name: n}
	}
	for i, n := range countedCommands {
		if i > 0 {
			out[n] = &command{name: n, counted: i, acts: n != "INFO"}
		}
	}
	// What a waiter reads before it tries. EXISTS, TYPE and PTTL are not among
	// them: getsetlock's own tools ask them outside of scripts.
	for _, n := range []string{"GET", "MGET", "GETEX", "WATCH"} {
		out[n] = &command{name: n, acts: true}
	}
	return out
}()

func commandOf(arg string) *command {
	var upper [16]byte
	if len(arg) > len(upper) {
		return otherCommand
	}
	for i := range len(arg) {
		c := arg[i]
		if c >= 'a' && c <= 'z' {
			c -= 'a' - 'A'
		}
		upper[i] = c
	}
	if c, ok := commands[string(upper[:len(arg)])]; ok {
		return c
	}
	return otherCommand
}

// namesManyKeys reports whether all of a command's keys matter, however many it
// has.
func namesManyKeys(name string) bool {
	switch name {
	case "DEL", "UNLINK", "MSET", "MSETNX", "MGET", "WATCH":
		return true
	}
	return false
}

// otherEvery is the least time between two calls on watched keys that are
// passed on. Clients may call all the time.
const otherEvery = 100 * time.Millisecond

// calledLine is a call on a watched key, in slices of its line.
type calledLine struct {
	micros          int64
	db              int
	addr, name, key string
}

// noteOther keeps a call that ends the window, whichever client sent it, in
// whatever form, and whether it won or not: a write of one of the named
// commands, or a read that waiters send before they try. The value is not kept.
// Scripts of getsetlock clients are not asked about: they name a key M.
//
// If every key of the database is watched, most programs take no lock of the
// fleet. Then a call counts only if its key has held a lock, or if it writes a
// value that the fleet's dialects read, or SETNX or GETSET one that any known
// dialect reads.
func (f *filter) noteOther(l line, name string) {
	keys, into, value := l.args[1:], l.db, 0 // place of the value among the arguments; 0: none
	switch name {
	case "GET":
		if len(keys) == 1 {
			f.noteCall(l, l.db, name, keys[0], 0)
		}
		return
	case "MGET", "WATCH":
	case "MSET", "MSETNX":
		for i := 1; i < len(l.args); i += 2 {
			f.noteCall(l, l.db, name, l.args[i], i+1)
		}
		return
	case "COPY":
		into = reading.Target(name, l.db, l.args)
		keys = keys[min(1, len(keys)):min(2, len(keys))]
	case "RENAME", "RENAMENX":
		keys = keys[:min(2, len(keys))]
	default:
		keys = keys[:min(1, len(keys))]
		switch name {
		case "SET", "SETNX", "GETSET":
			value = 2
		case "SETEX", "PSETEX":
			value = 3
		}
	}
	for _, key := range keys {
		f.noteCall(l, into, name, key, value)
	}
}

func (f *filter) noteCall(l line, database int, name, key string, value int) {
	if !f.covers(database, key) {
		return
	}
	if f.scope.Every() && !f.keys.has(key) {
		reader := f.reader
		if name == "SETNX" || name == "GETSET" {
			reader = f.any
		}
		if value == 0 || value >= len(l.args) ||
			!reader.ReadAny(l.args[value], time.UnixMicro(l.micros)).Known() {
			return
		}
	}
	if !ownKey(key) {
		f.other = calledLine{l.micros, database, l.addr, name, key}
	}
}

// ownKey reports whether only getsetlock clients use a key of that name.
func ownKey(key string) bool {
	if strings.Contains(key, reading.TrialKey) || len(scope.OldKeys(key)) > 0 {
		return true
	}
	_, _, marker := scope.Sighted(key)
	return marker
}

// tellOther passes on the newest such call, if there is one.
func (f *filter) tellOther(out []offset.Observed) []offset.Observed {
	if f.other.micros == 0 {
		return out
	}
	o := f.other
	out = append(out, offset.Observed{At: time.UnixMicro(o.micros).UTC(), Kind: offset.ObservedCommand,
		Addr: strings.Clone(o.addr), DB: o.db,
		Args: []string{reading.Called, strings.Clone(o.key), o.name}})
	f.other, f.told = calledLine{}, f.newest
	return out
}

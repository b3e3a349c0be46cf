// SPDX-License-Identifier: Apache-2.0

package quorum

import (
	"cmp"
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/wire"
)

// Every member has a record of the quorum that it belongs to, and of the run in
// which it votes. It is read on each new connection before anything else is
// sent, and again on a connection that is older than readEvery. The package
// comment says what it is for.

// recordKey is the key of the record: a hash.
const recordKey = "gsl:quorum"

//go:embed record.lua
var recordSource string

const (
	// readEvery is how long a connection is used without another look at the
	// record.
	readEvery = 15 * time.Second

	// askEvery is the shortest time between two looks at a server that does not
	// vote.
	askEvery = time.Second

	// longestRest is how long a run is watched where no record tells which TTLs
	// were used: LongestTTL, readEvery, and time for a request to be sent.
	longestRest = 2 * time.Minute
)

// seat is what a member said of itself when it was last asked.
type seat struct {
	asked bool
	at    time.Duration // elapsed time of the question
	run   string        // id of the server's present run
	met   time.Duration // elapsed time at which this client first saw that run
	known bool          // its record is that of this quorum
	votes bool
	again time.Duration // elapsed time of the next question, if it does not vote
	why   error         // why it does not vote

	had     bool          // it voted in an earlier run
	watched string        // ms for which the run was watched; empty: nothing may be added
	since   time.Duration // elapsed time from which the rest counts
}

// asks sends a command and returns its reply.
type asks func(name string, args ...any) (any, error)

// ask asks a member who it is, and looks at its record. It returns why the
// member does not vote.
func (b *engine) ask(m *member, do asks) error {
	was, sent := m.sitting(), b.uptime()
	said, err := information(do)
	if err != nil {
		return m.sit(&seat{at: sent, again: sent, why: unlessRights(err)})
	}
	now := &seat{asked: true, at: sent, again: sent + askEvery, run: said["run_id"], met: b.uptime()}
	if now.why = unfit(said); now.why != nil {
		return m.sit(now)
	}
	if was.run == now.run {
		now.met = was.met
	}
	var by, seen string
	var at, passed time.Duration
	least := int64(-1)
	if b.proven.Load() {
		by, at = b.watcher()
		if was.run == now.run {
			least = b.rest(was).Milliseconds()
		}
		if was.run == now.run && was.watched != "" {
			seen, passed = was.watched, sent-was.since
		}
	}
	text, err := redis.Strings(do("EVAL", recordSource, 1, recordKey, m.name, b.names,
		b.cfg.GreatestTTL.Milliseconds(), b.cfg.Epoch, now.run, by, at.Milliseconds(), seen,
		passed.Milliseconds(), least))
	if err != nil {
		err = fmt.Errorf("could not look at its record %s: %w", recordKey, err)
		return m.sit(&seat{at: sent, again: sent, why: unlessRights(err)})
	}
	now.why = cmp.Or(b.differs(m, text), b.twice(m, now.run))
	now.known = now.why == nil
	m.sit(now)
	if now.known {
		b.watch(now, text[4], text[5])
	}
	return m.sit(now)
}

// watch finds out whether a member with the right record votes in this run, and
// for how long the run was watched.
func (b *engine) watch(s *seat, voted, watched string) {
	s.votes = voted == s.run
	if voted != "" {
		b.proven.Store(true)
	}
	if b.proven.CompareAndSwap(false, b.allKnown()); s.votes {
		return
	}
	if b.met.Load() < int64(s.met) { // the others are asked after that
		b.met.Store(int64(s.met))
	}
	s.had = voted != ""
	rest := &restError{}
	if b.proven.Load() {
		s.watched, s.since = watched, b.uptime()
		ms, _ := strconv.ParseInt(watched, 10, 64)
		rest.left = max(b.rest(*s)-time.Duration(ms)*time.Millisecond, time.Millisecond)
		s.again = s.at + min(askEvery, rest.left)
	}
	s.why = rest
}

// rested looks once more at the members that rest, and returns whether a
// majority votes now. The first look of a client only proves that all records
// are those of this quorum, and shows who rests for how long; only a later one
// adds to the watch or ends it. So without this, clients that try once would
// never watch anything.
func (b *engine) rested(ctx context.Context) bool {
	b.check(ctx)
	b.each(func(m *member) error {
		if !b.proven.Load() || !restarted(m.sitting().why) {
			return nil
		}
		return b.ask(m, m.within(ctx))
	})
	votes := 0
	for _, m := range b.members {
		if s := m.sitting(); s.votes && s.why == nil {
			votes++
		}
	}
	return votes >= b.need
}

// anyRests reports whether a member is known to rest.
func (b *engine) anyRests() bool {
	return slices.ContainsFunc(b.members, func(m *member) bool { return restarted(m.sitting().why) })
}

// watcher returns the name of the clock by which this client watches, and what
// it shows. Processes of one machine share it where the machine says when it
// booted: each counts the time since the first one looked. Elsewhere it has no
// name, and each process counts for itself.
func (b *engine) watcher() (by string, at time.Duration) {
	if c, ok := b.cfg.Clock.(interface {
		Boot() (id string, up time.Duration)
	}); ok {
		if id, up := c.Boot(); id != "" {
			return id, up
		}
	}
	return "", b.elapsed()
}

// uptime returns what the clock of watcher shows. On Linux a connection ages
// while the machine is suspended.
func (b *engine) uptime() time.Duration {
	_, at := b.watcher()
	return at
}

// rest returns for how long the run of a server must have been watched before
// it votes. Where nobody knows which TTLs the server has forgotten, that is
// longer than any.
func (b *engine) rest(s seat) time.Duration {
	votes := 0
	for _, m := range b.members {
		if other := m.sitting(); other.votes && other.at >= s.met {
			votes++
		}
	}
	if s.had || votes >= b.need {
		return b.cfg.GreatestTTL
	}
	return longestRest
}

// allKnown reports whether the record of every member was that of this quorum.
func (b *engine) allKnown() bool {
	return !slices.ContainsFunc(b.members, func(m *member) bool { return !m.sitting().known })
}

// differs compares a record with this quorum.
func (b *engine) differs(m *member, is []string) error {
	want := []string{m.name, b.names, fmt.Sprint(b.cfg.GreatestTTL.Milliseconds()), fmt.Sprint(b.cfg.Epoch)}
	what := []string{"the server is %q there, and %q here", "the members are %q there, and %q here",
		"the greatest TTL in ms is %s there, and %s here", "the epoch is %s there, and %s here"}
	for i := range slices.Backward(want) {
		if is[i] != want[i] {
			return &refusal{recordKey, fmt.Sprintf("its record %s is of another quorum: "+what[i]+
				"; use the same servers, names, greatest TTL and epoch in all programs, or change the quorum as docs/guide/quorum.md says",
				recordKey, is[i], want[i])}
		}
	}
	return nil
}

// refusal says why a server can be no member of this quorum.
type refusal struct{ what, why string }

func (e *refusal) Error() string { return e.why }

// Passing is false: waiting does not help.
func (e *refusal) Passing() bool { return false }

// unlessRights returns err, or a refusal if the user lacks a right to look at
// who the server is.
func unlessRights(err error) error {
	if !wire.IsNoPerm(err) {
		return err
	}
	return &refusal{"", "its user needs +info +eval +hget +hmset +hmget +hincrby +del and the key " + recordKey +
		": " + err.Error()}
}

// restError says that a server may have forgotten votes.
type restError struct{ left time.Duration }

func (e *restError) Error() string {
	const why = "it may have forgotten votes when it started"
	if e.left == 0 {
		return why + ", and does not vote until every server of the quorum has answered once"
	}
	return fmt.Sprintf("%s, and votes in %v", why, max(e.left.Round(time.Second), time.Second))
}

// Passing is true: it is a matter of time.
func (e *restError) Passing() bool { return true }

// restarted reports whether err says that a server which this client knew may
// have forgotten votes.
func restarted(err error) bool {
	var rest *restError
	return errors.As(err, &rest)
}

// information returns the fields of INFO that matter.
func information(do asks) (map[string]string, error) {
	said := map[string]string{}
	for _, section := range []string{"server", "replication", "memory"} {
		text, err := redis.String(do("INFO", section))
		if err != nil {
			return nil, fmt.Errorf("INFO says who a server is: %w", err)
		}
		for line := range strings.Lines(text) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
				said[name] = value
			}
		}
	}
	if said["maxmemory_policy"] != "" {
		return said, nil
	}
	for _, name := range []string{"maxmemory", "maxmemory-policy"} { // Redis before 3.2
		pair, err := redis.Strings(do("CONFIG", "GET", name))
		var refused redis.Error
		if err != nil && !errors.As(err, &refused) {
			return nil, err
		}
		if len(pair) == 2 {
			said[strings.ReplaceAll(name, "-", "_")] = pair[1]
		}
	}
	return said, nil
}

// twice returns why a server is refused if another member is a database of it:
// both are lost together.
func (b *engine) twice(m *member, run string) error {
	for _, other := range b.members {
		if s := other.sitting(); other != m && s.known && s.run == run {
			return &refusal{recordKey, fmt.Sprintf("%s is the same server as %s: name each server once", m, other)}
		}
	}
	return nil
}

// unfit returns why a server that says this can be no member.
func unfit(said map[string]string) error {
	why := ""
	switch {
	case said["redis_mode"] == "sentinel":
		why = "it is a sentinel; name the server itself"
	case said["redis_mode"] == "cluster":
		why = "it is a node of a cluster; a member stands alone"
	case said["run_id"] == "":
		why = "it does not say its run id: a proxy; name the server itself"
	case said["role"] != "master":
		why = "it is a replica; a member stands alone"
	case cmp.Or(said["connected_slaves"], "0") != "0":
		why = "it has replicas, and one that is promoted may lack votes; a member stands alone"
	case cmp.Or(said["second_repl_offset"], "-1") != "-1":
		why = "it was a replica and may lack votes; restart it without a replica's configuration"
	case said["maxmemory_policy"] == "":
		why = "it does not say whether it evicts keys; allow CONFIG GET"
	case said["maxmemory"] != "0" && said["maxmemory_policy"] != "noeviction":
		why = "it may evict keys, and so votes; set maxmemory-policy noeviction"
	default:
		return nil
	}
	return &refusal{"", "the server can be no member of a quorum: " + why}
}

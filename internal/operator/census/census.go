// SPDX-License-Identifier: Apache-2.0

package census

import (
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/operator/offset"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
	"github.com/getsetlock/getsetlock/internal/scope"
)

// Census counts what old clients do. It only folds observed events: the same
// events in the same order lead to the same evidence, live or from a record. It
// reads no clock, does no I/O and needs bounded memory. It is not safe for
// concurrent use.
//
// Census follows each key as commands change it. So it knows which client won a
// SETNX, although MONITOR shows no replies. While it does not know a key's
// state, it names no winner. It knows the state again when the key was seen
// free, deleted or looked at.
type Census struct {
	cfg    Config
	scope  scope.Scope
	reader *reading.Reader

	from, until time.Time            // first and last event
	sources     map[Source]*coverage // what each source saw and missed
	connections
	writers map[string]*writer // clients by address; without one, by dialect
	keys    map[keyID]*keyState

	story               // of all clients on all keys
	lastCall  *Act      // the last call on a watched key, whatever its value
	longPause Span      // the longest pause between two attempts on one key
	ended     []Hold    // holds that the last event ended
	jobs      jobs      // holds of all keys
	waits     histogram // of clients that tried until they won or gave up

	server server
	near   nearness
	gone   gone // what is kept of writers and keys that were forgotten
}

// connections is what is known of addresses, whichever client uses them.
type connections struct {
	peers    map[string]*peer           // by address, as MONITOR shows them
	clients  map[string]offset.Observed // what CLIENT LIST said of each address
	hosts    map[string]bool            // hosts of all writers, including forgotten ones
	scripter string                     // address of the client whose script the lines of "lua" belong to
}

// jobs are the times for which clients held.
type jobs struct {
	holds   []Hold // the latest that ended
	longest *Hold  // the longest whose release was seen
	polled  *Hold  // the longest by polls
}

// server is what is known of the server that is watched.
type server struct {
	run     string           // its run id; empty if unknown
	since   time.Time        // when that run was first seen
	checked time.Time        // when its clock was last compared with the observer's
	steps   []Hole           // steps of its clock
	counts  map[string]int64 // its counts of calls as they were last, by command
	moved   time.Time        // when such a count was last seen to have changed
}

// keyID is a key of one database.
type keyID struct {
	db   int
	name string
}

// peer is the last command seen on one connection.
type peer struct {
	last  time.Time
	lost  string    // key of the last command, if that was a SETNX that lost
	rests time.Time // end of the client's sleep after its GET, if the connection is its own
	name  string    // name of the last command
	get   string    // key of the last command, if that was a GET after a SETNX of the same key
	setnx string    // key of the last SETNX, if nothing but a GET of it came since
	stamp string    // value of that SETNX
	tried time.Time // when that SETNX was executed
}

// New returns a Census that has seen nothing. It returns an error that names
// the field if cfg is impossible.
func New(cfg Config) (*Census, error) {
	cfg, err := cfg.Filled()
	if err != nil {
		return nil, err
	}
	return &Census{
		cfg: cfg, scope: scope.Matching(cfg.Match).In(cfg.DB),
		reader:  reading.NewReader(cfg.Dialects),
		sources: map[Source]*coverage{},
		connections: connections{peers: map[string]*peer{}, clients: map[string]offset.Observed{},
			hosts: map[string]bool{}},
		writers: map[string]*writer{}, keys: map[keyID]*keyState{},
		server: server{counts: map[string]int64{}},
	}, nil
}

// Add takes the next event and returns the holds that it ended. The result is
// valid until the next call.
func (c *Census) Add(o offset.Observed) (ended []Hold) {
	c.ended = c.ended[:0]
	c.add(o)
	return c.ended
}

func (c *Census) add(o offset.Observed) {
	if c.from.IsZero() || o.At.Before(c.from) && o.Kind != offset.ObservedCommand {
		c.from = o.At
	}
	c.until = latest(c.until, o.At)
	switch o.Kind {
	case offset.ObservedCommand:
		c.source(SourceMonitor).see(o.At)
		c.command(o)
	case offset.ObservedLook:
		c.source(SourcePoll).see(o.At)
		c.look(o)
	case offset.ObservedEvent:
		c.source(SourceTracking).see(o.At)
	case offset.ObservedClient:
		c.source(SourceClients).see(o.At)
		if _, known := c.clients[o.Addr]; known || len(c.clients) < 4*c.cfg.MaxWriters {
			c.clients[o.Addr] = o
		}
	case offset.ObservedStats:
		c.source(SourceStats).see(o.At)
		c.called(o)
	case offset.ObservedStep:
		c.stepped(o)
	case offset.ObservedGap:
		c.blind(o)
	}
}

// selects changes the database that is watched.
func (c *Census) selects(database int) {
	c.cfg.DB = database
	c.scope = c.scope.In(database)
}

// source returns the coverage of a source, and creates it if necessary.
func (c *Census) source(s Source) *coverage {
	v := c.sources[s]
	if v == nil {
		v = &coverage{}
		c.sources[s] = v
	}
	return v
}

// called takes one of the server's counts. A count that fell was reset, and may
// have grown since.
func (c *Census) called(o offset.Observed) {
	if last, known := c.server.counts[o.Event]; known && o.Count != last {
		c.server.moved = o.At
	}
	c.server.counts[o.Event] = o.Count
}

// noticed is the longest time after which a step of the server's clock is
// noticed. Until then clients' clocks seem to step.
const noticed = 5 * time.Second

// stepped takes a comparison of the server's clock with the observer's elapsed
// time. If the two agree, the comparison only shows that the watch goes on;
// otherwise the server's clock stepped.
func (c *Census) stepped(o offset.Observed) {
	// Tracking reports nothing while nothing happens, so the comparison extends
	// its coverage. It also extends that of polls, whose reply it is. MONITOR
	// is extended by its markers, and the other sources by their own replies.
	if s := c.sources[SourceTracking]; s != nil && !s.from.IsZero() && s.missing == "" && o.At.After(s.off) {
		s.until = latest(s.until, o.At)
	}
	c.source(SourcePoll).see(o.At)
	c.server.checked = o.At
	if o.For == 0 {
		c.near.keep()
		return
	}
	from, until := o.At.Add(-o.For), o.At
	if until.Before(from) {
		from, until = until, from
	}
	c.shiftBounds(o.For)
	c.unclock(from.Add(-noticed))
	h := Hole{From: from, Until: until, Reason: HoleStep,
		Detail: "the server's clock moved by " + o.For.String() + " against the observer's"}
	c.server.steps = append(reading.Bounded(c.server.steps, mostHoles), h)
	for _, s := range c.sources {
		if !s.from.IsZero() {
			s.hole(h)
			s.stepped += o.For
		}
	}
}

// blind takes a gap, whose reason begins with a word for what it is about:
//
//   - InDB: the database that is watched from now on.
//   - OfRun: the run id of the server that answers.
//   - a source: a hole of that source, or a note on it.
//   - another word: a hole of all sources.
func (c *Census) blind(o offset.Observed) {
	source, rest, _ := strings.Cut(o.Reason, " ")
	switch source {
	case reading.InDB:
		if n, ok := reading.WatchedIn(o); ok {
			c.selects(n)
		}
		return
	case reading.OfRun:
		c.ofRun(rest, o.At)
		return
	}
	reason, detail, _ := strings.Cut(rest, " ")
	switch {
	case source == string(SourceMonitor) && reason == reading.Proved:
		c.source(SourceMonitor).proves(o.At, o.For)
		return
	case source == string(SourceMonitor) && HoleReason(reason) != HoleCounts || !knownSource(source):
		// An address may belong to another client by now, and keys may have
		// changed unseen.
		clear(c.peers)
		for _, k := range c.keys {
			k.unknown()
		}
	}
	if !knownSource(source) {
		for _, s := range c.sources {
			s.blind(o, HoleAbsent, o.Reason)
		}
		return
	}
	if Source(source) == SourceMonitor && HoleReason(reason) == HoleReset && !c.monitored() {
		// The server's counts show that another server answers. MONITOR was
		// never on, so it has no coverage that could end or begin: keys are
		// seen by polls alone.
		return
	}
	c.source(Source(source)).blind(o, HoleReason(reason), detail)
}

// monitored reports whether MONITOR was ever on.
func (c *Census) monitored() bool {
	s := c.sources[SourceMonitor]
	return s != nil && !s.from.IsZero()
}

func knownSource(s string) bool {
	switch Source(s) {
	case SourceMonitor, SourcePoll, SourceTracking, SourceStats, SourceClients:
		return true
	}
	return false
}

// monitoring reports whether MONITOR shows the commands at that instant, so
// that polls need not guess.
func (c *Census) monitoring(at time.Time) bool {
	s := c.sources[SourceMonitor]
	return c.monitored() && s.missing == "" && at.After(s.off)
}

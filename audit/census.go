package audit

import (
	"strconv"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/skew"
)

// Census counts what old clients do. It is a fold of observed events and nothing else: the same events
// in the same order come to the same evidence, live or from a record. It reads no clock and does no
// I/O, its memory is bounded, and it is not safe for concurrent use.
//
// It follows each key as the commands change it, so it knows who won a SETNX although MONITOR shows no
// replies. Where it came too late to know a key it says nothing of winners until the key was seen free, deleted
// or looked at.
type Census struct {
	cfg      Config
	scope    scope.Scope
	dialects []*dialect.Dialect // in the order of preference
	tokens   bool               // one of them writes no time
	fleet    *skew.Fleet

	from, until time.Time
	sources     map[Source]*coverage
	peers       map[string]*peer
	writers     map[string]*writer
	hosts       map[string]bool // of the writers, forgotten ones among them
	keys        map[keyID]*keyState
	sorted      []*keyState // all of keys, or none where one came or went
	clients     map[string]skew.Observed
	scripter    string // whose script the lines of "lua" belong to

	counts     Counts
	waits      histogram
	holds      []Hold
	closed     func(Hold) // told of each hold that ended; nil
	longest    *Hold
	gap        *gapSample
	doubles    []Act
	lastWrite  *Act
	lastFailed *Act
	lastCall   *Act // SETNX or GETSET, with whatever value
	steps      []Hole
	stats      map[string]*calls
	moved      time.Time
	gone       goneWriters
	run        string    // the server's run id; empty if unknown
	runSince   time.Time // when it was first seen
	longPause  time.Duration
	goneKeys   int64
}

// keyID is a key of one database.
type keyID struct {
	db   int
	name string
}

// peer is the last that was seen of one connection.
type peer struct {
	last  time.Time
	name  string // of the last command
	get   string // key of the last command, if that was a GET after a SETNX of the same key
	setnx string // key of the last SETNX, if nothing but a GET of it came since
	stamp string // its value
	prev  time.Time
}

// calls is what the server counted of one command.
type calls struct{ first, last, sum int64 }

// NewCensus starts without having seen anything. It uses Dialects, Lease, Rate, the claims, DB, Match,
// Keys and the bounds of cfg, and fails where Watch would.
func NewCensus(cfg Config) (*Census, error) {
	cfg, err := cfg.filled()
	if err != nil {
		return nil, err
	}
	fleet, err := skew.NewFleet(cfg.Rate)
	if err != nil {
		return nil, err
	}
	c := &Census{
		cfg: cfg, scope: cfg.scope(), fleet: fleet, sources: map[Source]*coverage{}, peers: map[string]*peer{},
		writers: map[string]*writer{}, hosts: map[string]bool{}, keys: map[keyID]*keyState{}, clients: map[string]skew.Observed{}, stats: map[string]*calls{},
	}
	ds := cfg.Dialects
	if len(ds) == 0 {
		ds = likeliest()
	}
	for _, d := range ds {
		c.dialects = append(c.dialects, &d)
		c.tokens = c.tokens || !d.HasStamp()
	}
	return c, nil
}

// Add takes the next event.
func (c *Census) Add(o skew.Observed) {
	if c.from.IsZero() || o.At.Before(c.from) && o.Kind != skew.ObservedCommand {
		c.from = o.At
	}
	c.until = latest(c.until, o.At)
	switch o.Kind {
	case skew.ObservedCommand:
		c.source(SourceMonitor).see(o.At)
		c.command(o)
	case skew.ObservedLook:
		c.source(SourcePoll).see(o.At)
		c.look(o)
	case skew.ObservedEvent:
		c.source(SourceTracking).see(o.At)
	case skew.ObservedClient:
		c.source(SourceClients).see(o.At)
		if _, known := c.clients[o.Addr]; known || len(c.clients) < 4*c.cfg.MaxWriters {
			c.clients[o.Addr] = o
		}
	case skew.ObservedStats:
		c.source(SourceStats).see(o.At)
		c.called(o)
	case skew.ObservedStep:
		c.stepped(o)
	case skew.ObservedGap:
		c.blind(o)
	}
}

// selects takes another database for the one that is watched.
func (c *Census) selects(database int) {
	c.cfg.DB = database
	c.scope = c.scope.In(database)
}

func (c *Census) source(s Source) *coverage {
	v := c.sources[s]
	if v == nil {
		v = &coverage{}
		c.sources[s] = v
	}
	return v
}

// called counts what the server's statistics moved by. A count that fell began anew.
func (c *Census) called(o skew.Observed) {
	n := c.stats[o.Event]
	switch {
	case n == nil:
		c.stats[o.Event] = &calls{first: o.Count, last: o.Count}
		return
	case o.Count < n.last:
		s := c.source(SourceStats)
		s.hole(Hole{From: s.before, Until: o.At, Reason: HoleReset, Detail: "the count of " + o.Event + " fell"})
		n.sum += o.Count
		c.moved = o.At
	case o.Count > n.last:
		n.sum += o.Count - n.last
		c.moved = o.At
	}
	n.last = o.Count
}

// stepped takes a comparison of the server's clock with the observer's elapsed time: the heartbeat of
// a watch where they agree, a step where they do not.
func (c *Census) stepped(o skew.Observed) {
	// What is told by others has nothing to tell where nothing happens; who asks has its own answers.
	for _, name := range []Source{SourceMonitor, SourceTracking} {
		if s := c.sources[name]; s != nil && !s.from.IsZero() && s.missing == "" && o.At.After(s.off) {
			s.until = latest(s.until, o.At)
		}
	}
	c.source(SourcePoll).see(o.At)
	if o.For == 0 {
		return
	}
	from, until := o.At.Add(-o.For), o.At
	if until.Before(from) {
		from, until = until, from
	}
	c.shiftBounds(o.For)
	h := Hole{From: from, Until: until, Reason: HoleStep, Detail: "the server's clock moved by " + o.For.String() + " against the observer's"}
	c.steps = append(bounded(c.steps, MostHoles), h)
	for _, s := range c.sources {
		if !s.from.IsZero() {
			s.hole(h)
			s.stepped += o.For
		}
	}
}

// blind takes a gap. Its reason begins with the source and the kind of hole; one that does not is of
// all sources.
func (c *Census) blind(o skew.Observed) {
	source, rest, _ := strings.Cut(o.Reason, " ")
	switch source {
	case inDB:
		if n, err := strconv.Atoi(rest); err == nil {
			c.selects(n)
		}
		return
	case ofRun:
		c.ofRun(rest, o.At)
		return
	}
	reason, detail, _ := strings.Cut(rest, " ")
	if source == string(SourceMonitor) || !knownSource(source) {
		// A connection's name may have passed to somebody else meanwhile, and keys changed unseen.
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
	c.source(Source(source)).blind(o, HoleReason(reason), detail)
}

// inDB begins the reason of the gap, of no length, that says which database was watched. A record of another
// one than the first begins with it, so that a replay need not be told.
const inDB = "database"

// ofRun begins the reason of the gap, of no length, that names the server's run
// id.
const ofRun = "run"

// Words in a gap's reason that make no hole: a source that is not there at all, and one that has less
// to say.
const (
	missing HoleReason = "missing"
	noted   HoleReason = "note"
)

// gapOf is the event of a source's hole: the other half of blind.
func gapOf(s Source, at time.Time, length time.Duration, reason HoleReason, detail string) skew.Observed {
	return skew.Observed{
		At: at, Kind: skew.ObservedGap, For: max(0, length.Truncate(time.Microsecond)),
		Reason: strings.TrimSpace(string(s) + " " + string(reason) + " " + detail),
	}
}

func knownSource(s string) bool {
	switch Source(s) {
	case SourceMonitor, SourcePoll, SourceTracking, SourceStats, SourceClients:
		return true
	}
	return false
}

// monitoring reports that commands are being seen, so that polls need not guess.
func (c *Census) monitoring(at time.Time) bool {
	s := c.sources[SourceMonitor]
	return s != nil && s.missing == "" && !s.from.IsZero() && at.After(s.off)
}

// bounded makes room for one more at the end of a list, forgetting the oldest.
func bounded[T any](list []T, most int) []T {
	if len(list) < most {
		return list
	}
	return append(list[:0], list[len(list)-most+1:]...)
}

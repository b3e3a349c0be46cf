package census

import (
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/audit/internal/reading"
	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/skew/offset"
)

// Census counts what old clients do. It is a fold of observed events and nothing else: the same events
// in the same order come to the same evidence, live or from a record. It reads no clock and does no
// I/O, its memory is bounded, and it is not safe for concurrent use.
//
// It follows each key as the commands change it, so it knows who won a SETNX although MONITOR shows no
// replies. Where it came too late to know a key it says nothing of winners until the key was seen free, deleted
// or looked at.
type Census struct {
	cfg    Config
	scope  scope.Scope
	reader *reading.Reader
	fleet  *offset.Fleet

	from, until time.Time
	sources     map[Source]*coverage
	peers       map[string]*peer
	writers     map[string]*writer
	hosts       map[string]bool // of the writers, forgotten ones among them
	keys        map[keyID]*keyState
	sorted      []*keyState // all of keys, or none where one came or went
	clients     map[string]offset.Observed
	scripter    string // whose script the lines of "lua" belong to

	counts     Counts
	waits      histogram
	holds      []Hold
	ended      []Hold // by the last event
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

	near, nearBefore nearBounds    // of the minute that runs, and of the one before
	apart            time.Duration // that clocks were proved to be apart, for a gap of zero
	spreadBefore     time.Duration // guaranteed beside servers before this one
	checked          time.Time     // when the server's clock was last compared with the observer's

	run       string    // the server's run id; empty if unknown
	runSince  time.Time // when it was first seen
	longPause Span      // between two attempts on one key
	goneKeys  int64
	sights    sights
}

// keyID is a key of one database.
type keyID struct {
	db   int
	name string
}

// peer is the last that was seen of one connection.
type peer struct {
	last  time.Time
	lost  string    // key of the last command, if that was a SETNX that lost
	rests time.Time // a client that is alone on the connection tries for no lock before
	name  string    // of the last command
	get   string    // key of the last command, if that was a GET after a SETNX of the same key
	setnx string    // key of the last SETNX, if nothing but a GET of it came since
	stamp string    // its value
	tried time.Time // when it was executed
}

// calls is what the server counted of one command.
type calls struct{ first, last, sum int64 }

// New starts without having seen anything. It fails where a field of cfg
// makes no sense.
func New(cfg Config) (*Census, error) {
	cfg, err := cfg.Filled()
	if err != nil {
		return nil, err
	}
	fleet, err := offset.NewFleet(cfg.Rate)
	if err != nil {
		return nil, err
	}
	return &Census{
		cfg: cfg, scope: scope.Matching(cfg.Match).Except(cfg.Except...).In(cfg.DB).With(cfg.Keys...), reader: reading.NewReader(cfg.Dialects), fleet: fleet, sources: map[Source]*coverage{}, peers: map[string]*peer{},
		writers: map[string]*writer{}, hosts: map[string]bool{}, keys: map[keyID]*keyState{}, clients: map[string]offset.Observed{}, stats: map[string]*calls{},
		sights: sights{spellings: reading.KeySpellings(cfg.Dialects)},
	}, nil
}

// Add takes the next event, and returns the holds that it ended. They are the
// caller's until the next event.
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
func (c *Census) called(o offset.Observed) {
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
func (c *Census) stepped(o offset.Observed) {
	// Tracking has nothing to tell where nothing happens. MONITOR's markers say how
	// far it was seen, and who asks has its own answers.
	if s := c.sources[SourceTracking]; s != nil && !s.from.IsZero() && s.missing == "" && o.At.After(s.off) {
		s.until = latest(s.until, o.At)
	}
	c.source(SourcePoll).see(o.At)
	c.checked = o.At
	if o.For == 0 {
		c.keepNear()
		return
	}
	from, until := o.At.Add(-o.For), o.At
	if until.Before(from) {
		from, until = until, from
	}
	c.shiftBounds(o.For)
	h := Hole{From: from, Until: until, Reason: HoleStep, Detail: "the server's clock moved by " + o.For.String() + " against the observer's"}
	c.steps = append(reading.Bounded(c.steps, mostHoles), h)
	for _, s := range c.sources {
		if !s.from.IsZero() {
			s.hole(h)
			s.stepped += o.For
		}
	}
}

// blind takes a gap. Its reason begins with the source and the kind of hole; one that does not is of
// all sources.
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
	if Source(source) == SourceMonitor && HoleReason(reason) == HoleReset && !c.monitored() {
		// Another server answers, which the counters told. Where nobody has begun
		// to watch by MONITOR that ends nothing, and it begins nothing either: keys
		// are seen by polls alone.
		return
	}
	c.source(Source(source)).blind(o, HoleReason(reason), detail)
}

// monitored reports that MONITOR was on at some time.
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

// monitoring reports that commands are being seen, so that polls need not guess.
func (c *Census) monitoring(at time.Time) bool {
	s := c.sources[SourceMonitor]
	return c.monitored() && s.missing == "" && at.After(s.off)
}

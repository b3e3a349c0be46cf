package skew

import (
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/legacy/dialect"
)

// SurveyConfig says what is known of the clients whose commands are surveyed.
type SurveyConfig struct {
	Dialect dialect.Dialect
	Lease   time.Duration // of the clients; 0 takes the dialect's own
	PPM     float64       // as in NewEstimator
	// Keys picks the keys of locks; nil takes all. Values that are no stamps are left out either way.
	Keys func(key string) bool
	// OwnConnections claims that no two threads share a connection at a time: then a SETNX after a GET
	// that made its client wait comes a whole poll later, which narrows offsets to a round trip.
	// Without the claim they are as wide as a poll.
	OwnConnections bool
}

// Survey reads observed commands and bounds the clock of every address by what it writes. Commands
// inside scripts have no address and are left out.
//
// HAZARD: an upper bound takes the previous command of a connection for older than the clock reading
// behind the next. A client that reads its clock and then waits for a connection from an exhausted pool
// breaks that, by as long as it waited; so does a proxy that spreads clients over connections. It
// mostly shows as a contradiction, since the lower bounds stay right.
type Survey struct {
	cfg   SurveyConfig
	fleet *Fleet
	peers map[string]*surveyPeer
	until time.Time
	other int
}

// surveyPeer is the last that was seen of one connection.
type surveyPeer struct {
	last  time.Time
	get   string // key of the last command, if that was a GET after a SETNX of the same key
	setnx string // key of the last command, if that was a SETNX
	stamp string // value of the last SETNX
}

// NewSurvey starts with nobody. It fails with a *ParameterError.
func NewSurvey(cfg SurveyConfig) (*Survey, error) {
	if err := cfg.Dialect.Validate(); err != nil {
		return nil, err
	}
	if cfg.Lease == 0 {
		cfg.Lease = cfg.Dialect.Lease
	}
	switch {
	case !cfg.Dialect.HasStamp():
		return nil, &ParameterError{"Dialect", cfg.Dialect.Name, "one that writes a time"}
	case cfg.Lease <= 0 || cfg.Lease > dialect.LongestStamp:
		return nil, &ParameterError{"Lease", cfg.Lease, "more than 0 and at most " + dialect.LongestStamp.String()}
	}
	fleet, err := NewFleet(cfg.PPM)
	if err != nil {
		return nil, err
	}
	return &Survey{cfg: cfg, fleet: fleet, peers: map[string]*surveyPeer{}}, nil
}

// Fleet is what is known so far, by address.
func (s *Survey) Fleet() *Fleet { return s.fleet }

// Until is the latest instant seen: where Spread is best asked.
func (s *Survey) Until() time.Time { return s.until }

// Unread counts writes to the picked keys whose values are no stamps of the dialect.
func (s *Survey) Unread() int { return s.other }

// Add takes the next event, in the record's order. It fails with a *ParameterError for a stamp that no
// clock could have written, and then takes no notice of it.
func (s *Survey) Add(o Observed) error {
	if o.At.After(s.until) {
		s.until = o.At
	}
	if o.Kind == ObservedGap {
		// A connection's name may have passed to somebody else meanwhile.
		clear(s.peers)
	}
	if o.Kind != ObservedCommand || o.Addr == "lua" || len(o.Args) == 0 {
		return nil
	}
	p := s.peers[o.Addr]
	if p == nil {
		p = &surveyPeer{}
		s.peers[o.Addr] = p
	}
	before := *p
	*p = surveyPeer{last: o.At}
	if len(o.Args) < 2 || s.cfg.Keys != nil && !s.cfg.Keys(o.Args[1]) {
		return nil
	}
	key := o.Args[1]
	switch name := strings.ToUpper(o.Args[0]); {
	case name == "GET" && before.setnx == key:
		p.get, p.stamp = key, before.stamp
	case len(o.Args) < 3:
	case name == "SETNX", name == "SET" && s.cfg.Dialect.Acquire != dialect.AcquireSetnx:
		p.setnx, p.stamp = key, o.Args[2]
		return s.write(o, before, before.get == key)
	case name == "GETSET" && o.Args[2] != before.stamp:
		// One that repeats its SETNX's stamp says nothing new: that was the better sample. A new stamp
		// was read after the GET, with no sleep between.
		if s.cfg.Dialect.Restamp {
			return s.write(o, before, false)
		}
		before.last = time.Time{}
		return s.write(o, before, false)
	}
	return nil
}

func (s *Survey) write(o Observed, before surveyPeer, polled bool) error {
	value, err := s.cfg.Dialect.Decode(o.Args[2], o.At)
	if err != nil {
		s.other++
		return nil
	}
	w := StampedBy(s.cfg.Dialect, s.cfg.Lease, value)
	w.Key, w.At, w.Prev = o.Args[1], o.At, before.last
	if d := s.cfg.Dialect; polled && s.cfg.OwnConnections && (d.CountsSleeps || d.WaitsForever) {
		// A thousandth off for the client's own clock, and a millisecond for timers that fire early.
		w.Slept = max(0, d.Poll-d.Poll/1000-time.Millisecond)
	}
	return s.fleet.Writer(o.Addr).Stamp(w)
}

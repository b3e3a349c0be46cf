package audit

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/audit/census"
	"github.com/getsetlock/getsetlock/audit/internal/reading"
	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/legacy/dialect"
)

const (
	// sightEvery is the time between two rounds of markers.
	sightEvery = 2 * time.Second
	// sightLost is how long no marker may come back while the server answers.
	// After that, MONITOR must be watching another server than the one that
	// answers, as after a fail-over, and the burst ends and begins anew.
	sightLost = 30 * time.Second
)

// sightings holds the markers that this watch has sent. Two goroutines share
// it: the one that sends markers and the one that reads MONITOR.
type sightings struct {
	mu   sync.Mutex
	sent map[string]time.Duration // when each marker was sent, by nonce; cleared when a burst begins
	back time.Duration            // when a marker last came back, or the burst began
	now  func() time.Duration
}

// mostSights bounds how many markers are remembered.
const mostSights = 64

func newSightings(now func() time.Duration) *sightings {
	return &sightings{sent: map[string]time.Duration{}, now: now}
}

func (s *sightings) send(nonce string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sent) >= mostSights {
		clear(s.sent)
	}
	s.sent[nonce] = s.now()
}

func (s *sightings) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.back = s.now()
	clear(s.sent)
}

// lost returns for how long no marker has come back, 0 if none was sent.
func (s *sightings) lost() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sent) == 0 {
		return 0
	}
	return s.now() - s.back
}

func (s *sightings) mine(nonce string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, sent := s.sent[nonce]; !sent {
		return false
	}
	s.back = s.now()
	return true
}

// marked reports whether the line is a marker of this watch. Another watch may
// send markers too.
func (f *filter) marked(l line) bool {
	if f.sights == nil {
		return false
	}
	nonce, _, ok := scope.Sighted(l.args[1])
	return ok && f.covers(l.db, l.args[1]) && f.sights.mine(nonce)
}

// mark sends markers until ctx ends. Each marker reads a key that never exists:
// it writes nothing, and the counts of SETNX and GETSET stay the same.
func (m *monitor) mark(ctx context.Context) {
	said := ""
	for {
		why := m.markOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		if why != said {
			said = why
			m.w.say(census.SourceMonitor, reading.Unproved, why)
		}
		if !m.w.rest(ctx, sightEvery) {
			return
		}
	}
}

// markOnce sends one round of markers. It returns why MONITOR cannot show them,
// or an empty string.
func (m *monitor) markOnce(ctx context.Context) (why string) {
	nonce := rand.Text()
	name, ok := m.w.cfg.scope().Sight(nonce)
	if !ok {
		return "the pattern fits no marker (a key that never exists), so MONITOR is not proved to show these keys; give a pattern with a *"
	}
	cmds, err := markers(name, reading.KeySpellings(m.w.cfg.Dialects))
	if err != nil {
		return "no marker can be written in the encoding of the keys: " + err.Error()
	}
	m.sights.send(nonce)
	for _, r := range m.w.mux.Batch(ctx, cmds) {
		_, err := redis.String(r.Value, r.Err)
		switch {
		case err == nil || errors.Is(err, redis.ErrNil):
		case wire.IsCluster(err):
			why = "the server does not hold keys that begin like the watched ones: " + err.Error() +
				"; watch the node that holds them"
		case wire.IsNoPerm(err):
			why = refused(err, "GET on "+name, "MONITOR proves no window; give the user +get on these keys")
		}
	}
	if why != "" {
		m.sights.forget(nonce)
	}
	return why
}

func (s *sightings) forget(nonce string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sent, nonce)
}

// markers returns the commands of one round: one read per encoding of keys.
func markers(name string, spellings []dialect.Encoding) ([]wire.Command, error) {
	var cmds []wire.Command
	for _, e := range spellings {
		key, err := (dialect.Dialect{KeyEncoding: e}).EncodeKey(name)
		if err != nil {
			return nil, err
		}
		cmds = append(cmds, wire.Cmd("GET", key))
	}
	return cmds, nil
}

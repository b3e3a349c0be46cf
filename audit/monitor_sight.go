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
	// sightEvery is how far rounds of markers are apart.
	sightEvery = 2 * time.Second
	// sightLost is how long no marker may come back although the server answers.
	// Then MONITOR watches another server than the one that answers, as after a
	// fail-over, and is begun anew.
	sightLost = 30 * time.Second
)

// sightings knows the markers that this watch has sent. The goroutine that sends
// them and the one that reads MONITOR share it.
type sightings struct {
	mu   sync.Mutex
	sent map[string]time.Duration // by nonce, when it was sent; until the burst ends
	back time.Duration            // when one came back last, or the burst began
	now  func() time.Duration
}

// mostSights bounds the markers that are under way.
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

// lost is how long no marker has come back although markers were sent.
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

// marked reports a marker of this watch. Another watch may send its own by way
// of another server.
func (f *filter) marked(l line) bool {
	if f.sights == nil {
		return false
	}
	nonce, _, ok := scope.Sighted(l.args[1])
	return ok && f.covers(l.db, l.args[1]) && f.sights.mine(nonce)
}

// mark sends markers until ctx ends. Each is a read of a key that never exists:
// it writes nothing, and moves no count of SETNX or GETSET.
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

// markOnce sends one round, and says why MONITOR cannot show it.
func (m *monitor) markOnce(ctx context.Context) (why string) {
	nonce := rand.Text()
	name, ok := m.w.cfg.scope().Sight(nonce)
	if !ok {
		return "no key that never exists matches the pattern, so no marker proves that MONITOR shows these keys; give a pattern with a * for any text"
	}
	cmds, err := markers(name, reading.KeySpellings(m.w.cfg.Dialects))
	if err != nil {
		return "no marker can be written in the spelling of the keys: " + err.Error()
	}
	m.sights.send(nonce)
	for _, r := range m.w.mux.Batch(ctx, cmds) {
		_, err := redis.String(r.Value, r.Err)
		switch {
		case err == nil || errors.Is(err, redis.ErrNil):
		case wire.IsCluster(err):
			why = "the server does not hold the keys whose names begin as those that are watched: " + err.Error() + "; watch the node that holds them"
		case wire.IsNoPerm(err):
			why = refused(err, "GET on "+name, "no window by MONITOR is proved; give the user +get on these keys")
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

// markers are the reads of one round.
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

// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
	"github.com/getsetlock/getsetlock/internal/wire"
)

const (
	// sightEvery is the time between two rounds of markers.
	sightEvery = 2 * time.Second
	// sightLost is how long no marker may come back while the server answers.
	// After that, MONITOR must be watching another server than the one that
	// answers, as after a fail-over, and the burst ends and begins anew.
	sightLost = 30 * time.Second
)

// sightings holds the rounds of markers that this watch has sent. Two
// goroutines share it: the one that sends markers and the one that reads
// MONITOR.
type sightings struct {
	spellings []dialect.Encoding // of the markers in a round, in order
	ready     atomic.Bool        // whole has an element

	mu    sync.Mutex
	sent  map[string]*sentRound // by nonce; cleared when a burst begins
	back  time.Duration         // when a marker last came back, or the burst began
	whole []point
	mixed int // how many rounds in a row were broken in the stream
	now   func() time.Duration
}

// sentRound is one round of markers: the line of its INFO and the reply come in
// any order.
type sentRound struct {
	point            point
	passed, answered bool
}

// mostMixed is how many broken rounds in a row show a proxy. Clients of one
// unix socket have one address, and may break a round now and then.
const mostMixed = 3

// mostSights bounds how many rounds are remembered.
const mostSights = 64

func newSightings(now func() time.Duration, spellings []dialect.Encoding) *sightings {
	return &sightings{sent: map[string]*sentRound{}, now: now, spellings: spellings}
}

func (s *sightings) send(nonce string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sent) >= mostSights {
		clear(s.sent)
	}
	s.sent[nonce] = &sentRound{}
}

func (s *sightings) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.back, s.mixed, s.whole = s.now(), 0, nil
	s.ready.Store(false)
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

// passed notes where MONITOR showed the INFO of a round.
func (s *sightings) passed(nonce string, p point) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.sent[nonce]; r != nil && !r.passed {
		r.passed, s.mixed = true, 0
		r.point.at, r.point.shown = p.at, p.shown
		s.meet(r)
	}
}

// answered notes what the server counted at the INFO of a round.
func (s *sightings) answered(nonce, run string, counted calls) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.sent[nonce]; r != nil {
		r.answered, r.point.run, r.point.counted = true, run, counted
		s.meet(r)
	}
}

func (s *sightings) meet(r *sentRound) {
	if r.passed && r.answered {
		s.whole = append(s.whole, r.point)
		s.ready.Store(true)
	}
}

// take returns the rounds of which both is known, the oldest first: the next
// round is sent after the replies to the one before.
func (s *sightings) take() []point {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.whole
	s.whole = nil
	s.ready.Store(false)
	return out
}

func (s *sightings) broken() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mixed++
}

// mark sends markers until ctx ends. Each marker reads a key that never exists:
// it writes nothing.
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

// markOnce sends one round: markers, INFO, and the first marker again. It
// returns why MONITOR proves nothing, or an empty string.
func (m *monitor) markOnce(ctx context.Context) (why string) {
	nonce := rand.Text()
	name, ok := m.w.cfg.scope().Sight(nonce)
	if !ok {
		return "the pattern fits no marker (a key that never exists), so MONITOR is not proved to show these keys; give a pattern with a *"
	}
	cmds, err := markers(name, m.sights.spellings)
	if err != nil {
		return "no marker can be written in the encoding of the keys: " + err.Error()
	}
	m.sights.send(nonce)
	replies := m.w.mux.Batch(ctx, cmds)
	last := len(replies) - 2
	for _, r := range append(replies[1:last:last], replies[last+1]) {
		_, err := redis.String(r.Value, r.Err)
		switch {
		case err == nil || errors.Is(err, redis.ErrNil):
		case wire.IsCluster(err):
			why = "the server does not hold keys that begin like the watched ones: " + err.Error() +
				"; watch the node that holds them"
		case wire.IsNoPerm(err):
			why = refused(err, "GET on "+name, "MONITOR proves no window; give the user +get on these keys")
		default:
			return "" // the next round goes on
		}
	}
	run, counted, untold := countedIn(replies[0], replies[last])
	switch {
	case why != "":
		m.sights.forget(nonce)
		return why
	case untold != "":
		return untold
	case counted[infoAt] > 0:
		m.sights.answered(nonce, run, counted)
	}
	return m.sights.mixture()
}

// mixture returns why rounds that were sent whole do not come back whole.
func (s *sightings) mixture() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mixed < mostMixed {
		return ""
	}
	return "the watch's own commands do not stay next to each other in MONITOR: a proxy mixes them with other clients' or sends some elsewhere, so nothing tells what MONITOR missed; connect to the server itself"
}

func (s *sightings) forget(nonce string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sent, nonce)
}

// markers returns the commands of one round: INFO of the server, one read per
// encoding of keys, INFO of the counts, and the first read again. Servers
// before Redis 7 take one section an INFO.
func markers(name string, spellings []dialect.Encoding) ([]wire.Command, error) {
	cmds := []wire.Command{wire.Cmd("INFO", "server")}
	for _, e := range spellings {
		key, err := (dialect.Dialect{KeyEncoding: e}).EncodeKey(name)
		if err != nil {
			return nil, err
		}
		cmds = append(cmds, wire.Cmd("GET", key))
	}
	return append(cmds, wire.Cmd("INFO", "commandstats"), cmds[1]), nil
}

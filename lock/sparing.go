// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// sparing limits log lines that would say the same: a process may hold a
// hundred thousand leases when its server goes away. It lets a few lines of a
// round through, and the next line says how many were left out.
type sparing struct {
	most int // most lines in a round

	mu      sync.Mutex
	began   time.Duration // begin of the round, elapsed time
	lines   int           // lines written in the round
	omitted int
}

// due reports whether a line is to be written at now, and how many were left
// out before it. round is the length of a round.
func (s *sparing) due(now, round time.Duration) (omitted int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lines == 0 || now-s.began >= round {
		s.began, s.lines = now, 0
	}
	if s.lines >= s.most {
		s.omitted++
		return 0, false
	}
	s.lines++
	omitted, s.omitted = s.omitted, 0
	return omitted, true
}

// rest returns how many lines were left out since the last one.
func (s *sparing) rest() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.omitted
	s.omitted = 0
	return n
}

// quiet is the log handler of a Config without a Logger. It drops everything.
// Lines that must not go unseen go to the program's default log: see loud.
type quiet struct{ slog.Handler }

func (quiet) Enabled(context.Context, slog.Level) bool { return false }

// loud returns the log for lines that must not go unseen, such as a key without
// a holder that keeps others out.
func loud(l *slog.Logger) *slog.Logger {
	if _, none := l.Handler().(quiet); none {
		return slog.Default()
	}
	return l
}

package lock

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// sparing counts the lines of a log of which many would say the same: a process
// may hold a hundred thousand leases when its server goes away. Of those in one
// round it lets a few through, and the next line tells how many were left out.
type sparing struct {
	most int // lines in a round

	mu      sync.Mutex
	began   time.Duration // of the round, elapsed
	lines   int           // in the round
	omitted int
}

// due reports whether a line is to be written at now, and how many were left
// out before it.
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

// quiet is the log of a Config without one. It drops everything, but what
// nobody would otherwise learn goes to the default log of the program: see loud.
type quiet struct{ slog.Handler }

func (quiet) Enabled(context.Context, slog.Level) bool { return false }

// loud returns the log for what must not go unseen, such as a key that nobody
// holds and that keeps others out.
func loud(l *slog.Logger) *slog.Logger {
	if _, none := l.Handler().(quiet); none {
		return slog.Default()
	}
	return l
}

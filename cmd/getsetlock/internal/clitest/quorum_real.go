//go:build real && unix

package clitest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/internal/testing/wallshift"
)

// RealVoters starts real servers that vote at once: each is an hour old by its
// clock.
func RealVoters(t *testing.T, n int) []*redistest.Server {
	t.Helper()
	var all []*redistest.Server
	for range n {
		clock := wallshift.New(t)
		s := redistest.Real(t, redistest.Options{Env: clock.Env()})
		clock.Set(time.Hour)
		all = append(all, s)
	}
	for _, s := range all {
		Until(t, "the server's uptime is an hour", func() bool { return uptime(t, s) >= 3600 })
	}
	return all
}

func uptime(t *testing.T, s *redistest.Server) (seconds int) {
	text, err := redis.String(s.Do("INFO", "server"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		_, _ = fmt.Sscanf(line, "uptime_in_seconds:%d", &seconds)
	}
	return seconds
}

// Until waits until a server shows that something is so.
func Until(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(redistest.Patience); !so(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("gave up: %s", what)
		}
	}
}

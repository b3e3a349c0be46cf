package clitest

import (
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// Quorum returns a stage whose variable names several embedded servers, and
// the servers.
func Quorum(t *testing.T, n int) (*Stage, []*redistest.World) {
	s := NewStage(t)
	all := []*redistest.World{s.World}
	urls := []string{s.World.URL()}
	for range n - 1 {
		w := redistest.New(t)
		all, urls = append(all, w), append(urls, w.URL())
	}
	s.Vars["GETSETLOCK_REDIS"] = strings.Join(urls, " ")
	return s, all
}

// Vote sets a value with a TTL on servers.
func Vote(t *testing.T, key, value string, ttl time.Duration, servers ...*redistest.World) {
	t.Helper()
	for _, w := range servers {
		if err := w.Mini.Set(key, value); err != nil {
			t.Fatal(err)
		}
		w.Mini.SetTTL(key, ttl)
	}
}

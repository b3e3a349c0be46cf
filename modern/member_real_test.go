//go:build real

package modern_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
	"github.com/getsetlock/getsetlock/quorum"
)

// TestServersOfAllAgesVoteOnceGrown starts servers of different ages. They do
// not vote before the greatest TTL has passed, and a waiter gets the lock then.
func TestServersOfAllAgesVoteOnceGrown(t *testing.T) {
	t.Parallel()
	var members []quorum.Member
	for _, s := range redistest.Servers(t)[:3] {
		members = append(members, member(t, redistest.Real(t, redistest.Options{Path: s.Path}), s.Name))
	}
	b, err := quorum.New(members, quorum.Config{GreatestTTL: time.Second, Fences: true})
	if err != nil {
		t.Fatal(err)
	}
	var short *quorum.ShortError
	survey := b.Check(bg)
	if err := survey.Err(); !errors.As(err, &short) || short.VotesAt.IsZero() {
		t.Errorf("servers just started: %v", err)
	}
	if last := survey.Warnings[len(survey.Warnings)-1]; !strings.Contains(last, "different versions") {
		t.Errorf("warnings of three versions: %q", survey.Warnings)
	}
	c, err := lock.New(b, lock.Config{TTL: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(bg)
	var last int64
	for range 3 {
		l, err := c.Acquire(bg, "k")
		if err != nil {
			t.Fatal(err)
		}
		number, _ := l.Fence()
		if number <= last {
			t.Errorf("number %d after %d", number, last)
		}
		last = number
		if err := l.Release(); err != nil {
			t.Error(err)
		}
	}
}

func member(t *testing.T, s *redistest.Server, name string) *modern.Backend {
	t.Helper()
	m, err := modern.New(s.Pool(), modern.Config{Fence: true, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// TestReadyRefusesWhatARealServerSays asks servers that evict keys, or that
// have replicas or are one.
func TestReadyRefusesWhatARealServerSays(t *testing.T) {
	t.Parallel()
	for _, bin := range redistest.Servers(t) {
		t.Run(bin.Name, func(t *testing.T) {
			evicts := redistest.Real(t, redistest.Options{Path: bin.Path,
				Args: []string{"--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"}})
			unfit(t, evicts, "may evict")
			evicts.Do("CONFIG", "SET", "maxmemory-policy", "noeviction")
			replica := evicts.StartReplica()
			unfit(t, evicts, "has replicas")
			unfit(t, replica, "is a replica")
			if bin.Name == "redis-2.8.19" {
				return // it does not say that it was a replica
			}
			replica.Do("REPLICAOF", "NO", "ONE")
			unfit(t, replica, "was a replica")
		})
	}
}

func unfit(t *testing.T, s *redistest.Server, want string) {
	t.Helper()
	m := member(t, s, "m")
	_, _, err := voter(m).Ready(bg, 0)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Ready: %v; it should say %q", err, want)
	}
}

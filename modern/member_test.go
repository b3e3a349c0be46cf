package modern_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/lock/locktest"
	"github.com/getsetlock/getsetlock/modern"
	"github.com/getsetlock/getsetlock/quorum"
)

var _ quorum.Member = (*modern.Backend)(nil)

func voter(b *modern.Backend) quorum.Voter { return b.Contract().(quorum.Voter) }

// TestQuorumOfServersPassesTheKit runs the kit over three embedded servers.
func TestQuorumOfServersPassesTheKit(t *testing.T) {
	for name, fences := range map[string]bool{"plain": false, "fences": true} {
		t.Run(name, func(t *testing.T) {
			traits := locktest.Traits{CannotWake: true}
			locktest.RunInBubbles(t, traits, func(t *testing.T) *locktest.World {
				var worlds []*redistest.World
				for _, id := range []string{"a", "b", "c"} {
					w := redistest.Bubble(t)
					w.Info(map[string]string{"run_id": id})
					worlds = append(worlds, w)
				}
				return &locktest.World{
					Backend: func() backend.Store { return over(t, worlds, fences) },
					Pass: func(d time.Duration) {
						worlds[0].Pass(d)
						worlds[1].ServerNow()
						worlds[2].ServerNow()
					},
					TTL: 10 * time.Second,
					Seize: func(key string) {
						for _, w := range worlds {
							w.Mini.Set(key, "thief")
							w.Mini.SetTTL(key, time.Hour)
						}
					},
				}
			})
		})
	}
}

// over returns a quorum over the servers of some worlds.
func over(t *testing.T, worlds []*redistest.World, fences bool) *quorum.Backend {
	t.Helper()
	var members []quorum.Member
	for i, w := range worlds {
		m, err := modern.New(w.Pool(), modern.Config{Fence: fences, Name: string(rune('a' + i))})
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, m)
	}
	b, err := quorum.New(members, quorum.Config{Fences: fences})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestReadyRefusesServersThatLoseVotes goes through what INFO can say.
func TestReadyRefusesServersThatLoseVotes(t *testing.T) {
	for field, c := range map[string]struct{ value, want string }{
		"redis_mode":         {"cluster", "node of a cluster"},
		"run_id":             {"", "a proxy"},
		"uptime_in_seconds":  {"", "a proxy"},
		"role":               {"slave", "is a replica"},
		"connected_slaves":   {"1", "has replicas"},
		"second_repl_offset": {"4711", "was a replica"},
	} {
		refuses(t, map[string]string{field: c.value}, c.want)
	}
	refuses(t, map[string]string{"redis_mode": "sentinel"}, "sentinel")
	refuses(t, map[string]string{"maxmemory": "1000", "maxmemory_policy": "volatile-lru"}, "may evict")
	refuses(t, map[string]string{"maxmemory_policy": ""}, "does not say whether it evicts")
}

func refuses(t *testing.T, info map[string]string, want string) {
	t.Helper()
	bubble(t, func(t *testing.T, w *redistest.World) {
		w.Info(info)
		b := open(t, w, modern.Config{Name: "a"})
		_, _, err := voter(b).Ready(bg, time.Minute)
		var passing interface{ Passing() bool }
		if err == nil || !strings.Contains(err.Error(), want) || !errors.As(err, &passing) ||
			passing.Passing() {
			t.Errorf("a server with %v: %v; it should be refused, and say %q", info, err, want)
		}
	})
}

// The quorum puts the server's name in front.
func TestReadyOnAServerThatIsAwaySaysWhatWasAsked(t *testing.T) {
	b, err := modern.New(&redis.Pool{DialContext: func(context.Context) (redis.Conn, error) {
		return nil, errors.New("nobody there")
	}}, modern.Config{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	const said = "modern: could not ask the server who it is: "
	if _, _, err := voter(b).Ready(bg, time.Minute); err == nil || !strings.HasPrefix(err.Error(), said) {
		t.Error(err)
	}
}

// TestYoungServerSaysWhenItVotes: it has been up for less than the greatest TTL
// and two seconds.
func TestYoungServerSaysWhenItVotes(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		w.Info(map[string]string{"uptime_in_seconds": "12"})
		b := open(t, w, modern.Config{Name: "a"})
		votesIn(t, b, 30*time.Second, 20*time.Second)
		w.Pass(20*time.Second - time.Millisecond)
		votesIn(t, b, 30*time.Second, time.Millisecond)
		if _, _, err := voter(b).Ready(bg, 30*time.Second); err == nil ||
			strings.Contains(err.Error(), "in 0s") {
			t.Error(err)
		}
		w.Pass(time.Millisecond)
		votesIn(t, b, 30*time.Second, 0)
	})
}

// cut ends the connections, and returns when the clients have noticed.
func cut(wire *redistest.Wire) {
	wire.Cut()
	synctest.Wait()
}

// votesIn checks that b's server votes after that time; zero: it votes now.
func votesIn(t *testing.T, b *modern.Backend, age, want time.Duration) (server string) {
	t.Helper()
	server, _, err := voter(b).Ready(bg, age)
	var young interface{ VotesIn() time.Duration }
	switch {
	case want == 0 && err != nil:
		t.Errorf("the server should vote: %v", err)
	case want > 0 && (!errors.As(err, &young) || young.VotesIn() != want):
		t.Errorf("the server should vote in %v: %v", want, err)
	}
	return server
}

// TestStepOfTheServersClockIsNoUptime: a server restarted, and its clock was
// set forward by an hour, before or after that.
func TestStepOfTheServersClockIsNoUptime(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		w.Info(map[string]string{"uptime_in_seconds": "7200"})
		b, wire := on(t, w, modern.Config{Name: "a"})
		votesIn(t, b, 30*time.Second, 0)
		w.Pass(time.Minute)
		w.StepServer(time.Hour)
		w.Info(map[string]string{"uptime_in_seconds": "3605", "run_id": "run-2"})
		cut(wire)
		votesIn(t, b, 30*time.Second, 27*time.Second) // up for 5 s
		w.Pass(10 * time.Second)
		cut(wire)
		w.Info(map[string]string{"uptime_in_seconds": "3615", "run_id": "run-2"})
		votesIn(t, b, 30*time.Second, 17*time.Second) // the step still counts for this run
		w.Pass(20 * time.Second)
		votesIn(t, b, 30*time.Second, 0)
		w.StepServer(-time.Hour) // a step back makes nothing older
		w.Info(map[string]string{"uptime_in_seconds": "35", "run_id": "run-2"})
		cut(wire)
		votesIn(t, b, 30*time.Second, 0)
	})
}

// TestVoteGoesOverTheConnectionThatWasAsked: a server that answers on another
// one gets nothing, before and after it was asked.
func TestVoteGoesOverTheConnectionThatWasAsked(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		w.Info(nil)
		b, wire := on(t, w, modern.Config{Name: "a"})
		server := votesIn(t, b, time.Minute, 0)
		if server != "run-1" {
			t.Fatalf("server %q", server)
		}
		w.Info(map[string]string{"run_id": "run-2", "uptime_in_seconds": "1"})
		cut(wire)
		for range 2 {
			g, err := voter(b).TryAs(bg, server, "k", "token-of-16-bytes", ttl)
			if err == nil || errors.Is(err, lock.ErrHeld) || w.Mini.Exists("k") {
				t.Fatalf("the server that restarted voted: %v, %v", g, err)
			}
		}
		votesIn(t, b, time.Minute, 61*time.Second)
		w.Info(nil)
		cut(wire)
		votesIn(t, b, time.Minute, 0)
		g, err := voter(b).TryAs(bg, server, "k", "token-of-16-bytes host 7", ttl)
		if err != nil {
			t.Fatal(err)
		}
		if v, _ := w.Mini.Get("k"); v != "token-of-16-bytes host 7" || g.Token() != v {
			t.Errorf("value %q, token %q", v, g.Token())
		}
		free(t, g)
	})
}

// TestServerIsAskedOnceAConnection, by however many attempts.
func TestServerIsAskedOnceAConnection(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		w.Info(nil)
		b, wire := on(t, w, modern.Config{Name: "a"})
		for range 5 {
			g, err := voter(b).TryAs(bg, votesIn(t, b, time.Minute, 0), "k", "token-of-16-bytes", ttl)
			if err != nil {
				t.Fatal(err)
			}
			free(t, g)
		}
		asked := 0
		for _, c := range wire.Sent() {
			if c.Is("TIME") {
				asked++
			}
		}
		if asked != 1 {
			t.Errorf("the server was asked %d times", asked)
		}
	})
}

// TestRaiseWritesTheNumberBesideItsToken, and nowhere else.
func TestRaiseWritesTheNumberBesideItsToken(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		w.Info(nil)
		b := open(t, w, modern.Config{Name: "a", Fence: true, Namespace: "n"})
		vote := func() backend.Grant {
			g, err := voter(b).TryAs(bg, votesIn(t, b, time.Minute, 0), "k", "token-of-16-bytes", ttl)
			if err != nil {
				t.Fatal(err)
			}
			return g
		}
		g := vote()
		drawn := g.(backend.Fenced).Fence()
		far := drawn + 1e12
		if err := voter(b).Raise(bg, g, far); err != nil {
			t.Fatal(err)
		}
		if err := voter(b).Raise(bg, g, drawn); err != nil { // less than the counter: nothing to do
			t.Fatal(err)
		}
		free(t, g)
		if err := voter(b).Raise(bg, g, far+1e12); !errors.Is(err, lock.ErrLost) {
			t.Errorf("Raise without the token: %v", err)
		}
		g = vote()
		if next := g.(backend.Fenced).Fence(); next != far+1 {
			t.Errorf("number %d after %d", next, far)
		}
		free(t, g)
		w.Mini.Set("gsl:fence:n", "nonsense")
		if _, err := voter(b).TryAs(bg, "run-1", "k", "token-of-16-bytes", ttl); err == nil {
			t.Error("voted without a number")
		}
		w.Mini.Del("gsl:fence:n")
	})
}

// TestTryAsRefusesWhatAMemberCannotHave: parts of its Config, and bad tokens.
func TestTryAsRefusesWhatAMemberCannotHave(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		w.Info(nil)
		for _, cfg := range []modern.Config{{Fair: true}, {Replicas: 1}} {
			b := open(t, w, cfg)
			if _, err := voter(b).TryAs(bg, "run-1", "k", "token-of-16-bytes", ttl); err == nil {
				t.Errorf("%+v voted", cfg)
			}
		}
		b := open(t, w, modern.Config{})
		for _, token := range []string{"", "short", "short with a long note"} {
			if _, err := voter(b).TryAs(bg, votesIn(t, b, time.Minute, 0), "k", token, ttl); err == nil {
				t.Errorf("token %q was taken", token)
			}
		}
	})
}

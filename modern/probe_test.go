package modern_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

// compares picks the servers' own compare commands.
func compares(c redistest.Command) bool {
	return c.Is("DELEX") || c.Is("DELIFEQ") || c.Is("SET") && len(c) > 3 && c[3] == "IFEQ"
}

// ofProbe picks the commands of a probe.
func ofProbe(c redistest.Command) bool { return len(c) > 1 && c[1] == "gsl:trial:" }

// probes returns the commands of a probe that clients sent.
func probes(wire *redistest.Wire) (sent []string) {
	for _, c := range wire.Sent() {
		if ofProbe(c) {
			sent = append(sent, c[0])
		}
	}
	return sent
}

// probed fails the test unless these and no other commands of probes were sent.
func probed(t *testing.T, wire *redistest.Wire, want ...string) {
	t.Helper()
	if sent := probes(wire); !slices.Equal(sent, want) {
		t.Errorf("probes sent %q, want %q", sent, want)
	}
}

// natively counts the compare commands that were sent for locks.
func natively(wire *redistest.Wire) (n int) {
	for _, c := range wire.Sent() {
		if compares(c) && !ofProbe(c) {
			n++
		}
	}
	return n
}

// refusing are servers and proxies that lack the compare commands.
var refusing = map[string]redistest.Action{
	"Redis":     redistest.Answer("ERR unknown command 'DELEX', with args beginning with: 'k' "),
	"Upstash":   redistest.Answer("ERR Command is not available: 'DELEX'. See https://upstash.com/docs"),
	"Envoy":     redistest.Answer("unsupported command 'delex'"),
	"Envoy ERR": redistest.Answer("ERR unsupported command 'delex'"),
	"arity":     redistest.Answer("ERR wrong number of arguments for 'set' command"),
	"no rights": redistest.Answer(redistest.NoPerm),
	"twemproxy": redistest.CutBefore,
	"gone":      redistest.CutAfter,
}

// livesBehind takes, renews, hands over and releases locks five times.
func livesBehind(t *testing.T, b *modern.Backend, rest func()) {
	t.Helper()
	for i := range 5 {
		key := fmt.Sprint("k", i)
		g := try(t, b, key)
		rest()
		if _, err := g.Extend(bg, ttl); err != nil {
			t.Errorf("renewal %d: %v", i, err)
		}
		rest()
		next, err := b.Pass(bg, g, ttl)
		if err != nil {
			t.Fatalf("hand-over %d: %v", i, err)
		}
		rest()
		free(t, next)
		if info, err := b.Inspect(bg, key); err != nil || info.Exists {
			t.Errorf("release %d left %+v, %v", i, info, err)
		}
		rest()
		g = try(t, b, key)
		if deleted, err := b.ForceRelease(bg, key, g.Token()); !deleted || err != nil {
			t.Errorf("deletion %d: %v, %v", i, deleted, err)
		}
	}
}

// The shared connections are dialed once each: a refusal must end no
// connection.
func TestReleaseWorksBehindEveryProxy(t *testing.T) {
	for name, do := range refusing {
		for form, cfg := range forms {
			for when, rest := range map[string]func(){"at once": func() {}, "later": synctest.Wait} {
				t.Run(name+" "+form+" "+when, func(t *testing.T) {
					bubble(t, func(t *testing.T, w *redistest.World) {
						b, wire := on(t, w, cfg, redistest.Rule{When: compares, Times: -1, Do: do})
						livesBehind(t, b, rest)
						synctest.Wait()
						if n := natively(wire); n > 0 {
							t.Errorf("%d compare commands were sent besides the probe", n)
						}
						if n := wire.Connections(); n != 2 {
							t.Errorf("%d connections are open, want 2", n)
						}
					})
				})
			}
		}
	}
}

// A proxy hangs up on the probe while an attempt of another goroutine is under
// way.
func TestProbeEndsNoOtherConnection(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b, wire := on(t, w, modern.Config{},
			redistest.Rule{When: compares, Times: -1, Do: redistest.CutBefore})
		g := try(t, b, "k")
		if _, err := g.Extend(bg, ttl); err != nil {
			t.Fatal(err)
		}
		gate := redistest.NewGate()
		wire.Fault(redistest.Rule{Command: "SET",
			When: func(c redistest.Command) bool { return c[1] == "other" }, Do: redistest.HoldReply(gate)})
		taken := make(chan lock.Grant)
		go func() { taken <- try(t, b, "other") }()
		<-gate.Reached()
		if _, err := g.Extend(bg, ttl); err != nil { // on another connection
			t.Fatal(err)
		}
		synctest.Wait()
		probed(t, wire, "GET", "DELEX", "GET", "DELEX", "GET", "DELIFEQ", "GET", "DELIFEQ", "GET", "SET",
			"GET", "SET")
		gate.Open()
		free(t, <-taken)
		free(t, g)
	})
}

// The result is remembered whether or not the probe found the commands.
func TestProbeIsRememberedAcrossReconnects(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b, wire := on(t, w, modern.Config{})
		tried(t, b)
		probed(t, wire, "GET", "DELEX", "SET")
		for range 3 {
			wire.Cut()
			w.Pass(time.Hour)
			g := try(t, b, "k")
			if _, err := g.Extend(bg, ttl); err != nil {
				t.Fatal(err)
			}
			free(t, g)
		}
		synctest.Wait()
		probed(t, wire, "GET", "DELEX", "SET")
		if n := natively(wire); n != 3 {
			t.Errorf("%d compare commands were sent, want 3", n)
		}
	})
}

// A process may end with that release.
func TestOneReleaseSendsNoProbe(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b, wire := on(t, w, modern.Config{})
		free(t, try(t, b, "k"))
		synctest.Wait()
		probed(t, wire)
	})
}

// After a fail-over another server may lack the command, or have it under
// another name.
func TestBackendUnlearnsARefusedCommand(t *testing.T) {
	for name, do := range refusing {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *redistest.World) {
				b, wire := on(t, w, modern.Config{})
				tried(t, b)
				w.Pass(time.Minute)
				wire.Fault(redistest.Rule{Command: "DELEX", Times: -1, Do: do})
				wire.Forget()
				hangsUp := do == redistest.CutBefore || do == redistest.CutAfter
				for i := range 5 {
					g := try(t, b, "k")
					err := g.Release(bg)
					if hangsUp && i == 0 {
						if err == nil || errors.Is(err, lock.ErrLost) {
							t.Fatalf("Release on a connection that was lost: %v", err)
						}
						err = g.Release(bg)
					}
					if err != nil {
						t.Errorf("release %d: %v", i, err)
					}
					synctest.Wait()
				}
				if n := natively(wire); n != 1 {
					t.Errorf("%d compare commands were sent for locks, want 1", n)
				}
				want := []string{"GET", "DELEX", "DELIFEQ"}
				if hangsUp {
					want = []string{"GET", "DELEX", "GET", "DELEX", "GET", "DELIFEQ"}
				}
				probed(t, wire, want...)
			})
		})
	}
}

// The probe is repeated, and not with each operation.
func TestRefusalThatPassesConcludesNothing(t *testing.T) {
	for _, words := range []string{
		redistest.Loading, redistest.ReadOnly, redistest.OOM, "BUSY Redis is busy running a script.",
		"NOAUTH Authentication required.",
		"MASTERDOWN Link with MASTER is down", "MISCONF Redis is configured to save",
		"CLUSTERDOWN The cluster is down",
		"TRYAGAIN Multiple keys request during rehashing of slot", "MOVED 1 10.0.0.1:6379",
		"NOREPLICAS Not enough good replicas to write.",
	} {
		t.Run(words, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *redistest.World) {
				b, wire := on(t, w, modern.Config{},
					redistest.Rule{Command: "DELEX", Do: redistest.Answer(words)})
				tried(t, b)
				probed(t, wire, "GET", "DELEX", "SET")
				for range 10 {
					free(t, try(t, b, "k"))
					synctest.Wait()
				}
				probed(t, wire, "GET", "DELEX", "SET")
				w.Pass(time.Second)
				for range 3 {
					free(t, try(t, b, "k"))
					synctest.Wait()
				}
				probed(t, wire, "GET", "DELEX", "SET", "GET", "DELEX")
				if n := natively(wire); n != 2 {
					t.Errorf("%d compare commands were sent for locks, want 2", n)
				}
			})
		})
	}
}

// Such a refusal is returned as an error.
func TestKnownCommandStaysKnownWhileItsServerIsBusy(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b, wire := on(t, w, modern.Config{})
		tried(t, b)
		wire.Fault(redistest.Rule{Command: "DELEX", Do: redistest.Answer(redistest.Loading)})
		g := try(t, b, "k")
		if err := g.Release(bg); err == nil || errors.Is(err, lock.ErrLost) {
			t.Errorf("Release: %v", err)
		}
		free(t, g)
		synctest.Wait()
		probed(t, wire, "GET", "DELEX", "SET")
		if n := natively(wire); n != 2 {
			t.Errorf("%d compare commands were sent for locks, want 2", n)
		}
	})
}

// A server that refuses even GET, or cannot be reached, shows nothing about its
// commands.
func TestProbeConcludesNothingWithoutItsControl(t *testing.T) {
	for name, rule := range map[string]redistest.Rule{
		"full":         {Command: "GET", Do: redistest.Answer("ERR max number of clients reached")},
		"own words":    {Command: "GET", Do: redistest.Answer("ERR max daily request limit exceeded")},
		"hangs up":     {Command: "GET", Do: redistest.CutBefore},
		"silent":       {Command: "GET", Do: redistest.Silence},
		"silent later": {Command: "DELEX", Do: redistest.Silence},
		"unreachable":  {Command: redistest.Dialing, Nth: 2, Do: redistest.Refuse},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *redistest.World) {
				b, wire := on(t, w, modern.Config{Timeout: time.Second}, rule)
				tried(t, b)
				wire.Forget()
				w.Pass(time.Second)
				free(t, try(t, b, "k"))
				synctest.Wait()
				probed(t, wire, "GET", "DELEX", "SET")
				free(t, try(t, b, "k"))
				if n := natively(wire); n != 1 {
					t.Errorf("%d compare commands were sent for locks, want 1", n)
				}
			})
		})
	}
}

// The bubble fails the test if a goroutine is left.
func TestCloseEndsAProbe(t *testing.T) {
	for name, rule := range map[string]redistest.Rule{
		"dials":  {Command: redistest.Dialing, Nth: 2},
		"waits":  {Command: "DELEX", Do: redistest.Silence},
		"begins": {Command: "GET", Do: redistest.Silence},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *redistest.World) {
				if rule.Command == redistest.Dialing {
					rule.Do = redistest.HoldRequest(redistest.NewGate()) // made in this bubble
				}
				b, wire := on(t, w, modern.Config{Timeout: time.Hour}, rule)
				tried(t, b)
				begun := time.Now()
				if err := b.Close(); err != nil {
					t.Error(err)
				}
				if took := time.Since(begun); took != 0 {
					t.Errorf("Close took %v", took)
				}
				synctest.Wait()
				if n := wire.Connections(); n != 0 {
					t.Errorf("%d connections are left", n)
				}
			})
		})
	}
}

// Scripts then draw the numbers.
func TestTransactionsAreRefusedInAnyWords(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		words := redistest.Answer("ERR Command is not available: 'MULTI'")
		b, wire := on(t, w, modern.Config{Fence: true},
			redistest.Rule{Times: -1, Do: words, When: func(c redistest.Command) bool {
				return c.Is("MULTI") || c.Is("EXEC")
			}})
		for range 5 {
			free(t, try(t, b, "k"))
		}
		if n := wire.Count("MULTI"); n != 1 {
			t.Errorf("%d transactions, want 1", n)
		}
	})
}

// A proxy refuses in words of its own, for example because the script has keys
// of several slots.
func TestReleaseDeletesIfTheQueueScriptIsRefused(t *testing.T) {
	for _, fence := range []bool{false, true} {
		bubble(t, func(t *testing.T, w *redistest.World) {
			b, wire := on(t, w, modern.Config{Fence: fence})
			g := try(t, b, "k")
			p := stand(t, b, "k")
			free(t, g)
			g, err := p.Try(bg, ttl) // a key from the queue is handed over
			if err != nil {
				t.Fatal(err)
			}
			words := redistest.Answer("ERR eval/evalsha command keys must in same slot")
			wire.Fault(redistest.Rule{Times: -1, Do: words, When: func(c redistest.Command) bool {
				return (c.Is("EVALSHA") || c.Is("EVAL")) && c[2] == "5"
			}})
			free(t, g)
			if w.Mini.Exists("k") {
				t.Error("the key was left")
			}
			w.Pass(5 * time.Second) // the queue's own keys end
		})
	}
}

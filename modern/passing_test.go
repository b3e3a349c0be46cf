// SPDX-License-Identifier: Apache-2.0

package modern_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/modern"
)

// tracks answers tracking commands, which the embedded server does not know.
func tracks() []redistest.Rule {
	answer := func(sub, raw string) redistest.Rule {
		return redistest.Rule{Command: "CLIENT", Times: -1, Do: redistest.Reply(raw),
			When: func(c redistest.Command) bool { return c[1] == sub }}
	}
	return []redistest.Rule{answer("ID", ":1\r\n"), answer("TRACKING", "+OK\r\n"),
		answer("CACHING", "+OK\r\n")}
}

type unmoved struct{}

func (unmoved) Touched() {}

// The look is repeated as a whole, and not key by key: that is for users who
// may not use the command.
func TestLookIsRepeatedAfterAPassingRefusal(t *testing.T) {
	const keys = 100
	for _, c := range []struct {
		words           string
		times           int
		mgets, oneByOne int
		watched         bool
	}{
		{words: "TRYAGAIN Multiple keys request during rehashing of slot", times: 1, mgets: 2, watched: true},
		{words: redistest.Loading, times: -1, mgets: 2},
		{words: "BUSY Redis is busy running a script.", times: -1, mgets: 2},
		{words: "CLUSTERDOWN The cluster is down", times: -1, mgets: 2},
		{words: redistest.NoPerm, times: -1, mgets: 1, oneByOne: keys, watched: true},
	} {
		t.Run(c.words, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *redistest.World) {
				b, wire := on(t, w, modern.Config{}, tracks()...)
				var grants []backend.Grant
				var holders []interface{ Touched() }
				for i := range keys {
					grants, holders = append(grants, try(t, b, fmt.Sprint("k", i))),
						append(holders, unmoved{})
				}
				wire.Fault(redistest.Rule{Command: "MGET", Times: c.times, Do: redistest.Answer(c.words)})
				for _, err := range b.Contract().(backend.Waker).Watch(bg, grants, holders) {
					if (err == nil) != c.watched || errors.Is(err, lock.ErrLost) {
						t.Fatal(err)
					}
				}
				if m, n := wire.Count("MGET"), wire.Count("GETRANGE"); m != c.mgets || n != c.oneByOne {
					t.Errorf("%d MGETs, %d GETRANGEs; want %d, %d", m, n, c.mgets, c.oneByOne)
				}
				for _, g := range grants {
					b.Contract().(backend.Waker).Unwatch(g)
					free(t, g)
				}
			})
		})
	}
}

// Only a lasting refusal counts, in whatever words. After a refusal that
// passes, or an error inside a script, the queue stays in use.
func TestQueueIsGivenUpOnlyIfItIsRefused(t *testing.T) {
	for words, stands := range map[string]bool{
		"TRYAGAIN Multiple keys request during rehashing of slot":                  true,
		"CLUSTERDOWN The cluster is down":                                          true,
		redistest.Loading:                                                          true,
		"BUSY Redis is busy running a script.":                                     true,
		"ERR Error running script (call to f_1): @user_script:9: user_script:9: x": true,
		"ERR x script: 9a, on @user_script:9.":                                     true,
		redistest.NoPerm:                                                           false,
		"CROSSSLOT Keys in request don't hash to the same slot":                    false,
		"ERR eval/evalsha command keys must in same slot":                          false,
		"ERR unknown command 'EVALSHA'":                                            false,
		"ERR Error running script (call to f_1): @user_script:9: The user executing the script can't run this command or subcommand": false,
	} {
		t.Run(words, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *redistest.World) {
				b, wire := on(t, w, modern.Config{})
				g := try(t, b, "k")
				wire.Fault(redistest.Rule{
					Do:   redistest.Answer(words),
					When: func(c redistest.Command) bool { return c.Is("EVALSHA") || c.Is("EVAL") }})
				p := enter(t, b, "k")
				_, err := p.Try(bg, ttl)
				if errors.Is(err, lock.ErrHeld) == stands {
					t.Errorf("the refused try says %v", err)
				}
				if _, err := p.Try(bg, ttl); !errors.Is(err, lock.ErrHeld) {
					t.Errorf("the next try says %v", err)
				}
				if w.Mini.Exists("gsl:queue::{k}") != stands {
					t.Errorf("keys %q", w.Mini.Keys())
				}
				if err := p.Leave(bg); err != nil {
					t.Error(err)
				}
				free(t, g)
			})
		})
	}
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
			g = got(t, p)
			words := redistest.Answer("ERR eval/evalsha command keys must in same slot")
			wire.Fault(redistest.Rule{Times: -1, Do: words, When: func(c redistest.Command) bool {
				return (c.Is("EVALSHA") || c.Is("EVAL")) && c[2] == "4"
			}})
			free(t, g)
			if w.Mini.Exists("k") {
				t.Error("the key was left")
			}
			w.Pass(5 * time.Second) // the queue's own keys end
		})
	}
}

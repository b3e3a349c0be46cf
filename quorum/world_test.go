// SPDX-License-Identifier: Apache-2.0

package quorum_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/modern"
	"github.com/getsetlock/getsetlock/quorum"
)

func TestMain(m *testing.M) { redistest.Main(m) }

var bg = context.Background()

// ttl is the TTL of the tests, and greatest their Config.GreatestTTL.
const (
	ttl      = 10 * time.Second
	greatest = 30 * time.Second
)

// world is some servers in virtual time, each named by a letter.
type world struct {
	*testing.T
	names   []string
	servers []*redistest.World
	runs    []int
	clients []*client
}

// client is a process with a quorum.
type client struct {
	*quorum.Backend
	w     *world
	wires []*redistest.Wire // to each server
}

// unseated runs f over servers that nobody has used before.
func unseated(t *testing.T, names string, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, names: strings.Split(names, "")}
		w.runs = make([]int, len(w.names))
		for i := range w.names {
			w.servers = append(w.servers, redistest.Bubble(t))
			w.says(i)
		}
		f(w)
		for _, c := range w.clients {
			if err := c.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
	})
}

// bubble runs f over servers that vote.
func bubble(t *testing.T, names string, f func(w *world)) {
	t.Helper()
	unseated(t, names, func(w *world) {
		for i := range w.names {
			w.seat(i)
		}
		f(w)
	})
}

// seat lets a server vote at once.
func (w *world) seat(i int) {
	w.Helper()
	p := w.servers[i].Pool()
	c := p.Get()
	defer c.Close()
	if err := redistest.Seat(c.Do, w.names[i], w.names, greatest); err != nil {
		w.Fatal(err)
	}
}

// says lets INFO of a server name its present run, and other fields.
func (w *world) says(i int, pairs ...string) {
	fields := map[string]string{"run_id": fmt.Sprintf("%s-%d", w.names[i], w.runs[i])}
	for j := 0; j+1 < len(pairs); j += 2 {
		fields[pairs[j]] = pairs[j+1]
	}
	w.servers[i].Info(fields)
}

// restart begins another run of a server, which has no keys then, unless keeps
// is set.
func (w *world) restart(i int, keeps bool) {
	w.Helper()
	if !keeps {
		w.servers[i].Restart()
	}
	w.runs[i]++
	w.says(i)
	for _, c := range w.clients {
		c.wires[i].Cut()
	}
	synctest.Wait()
}

// open returns a client of all servers.
func (w *world) open(cfg quorum.Config) *client {
	w.Helper()
	var all []int
	for i := range w.names {
		all = append(all, i)
	}
	return w.over(cfg, modern.Config{}, all...)
}

// over returns a client of some servers.
func (w *world) over(cfg quorum.Config, each modern.Config, which ...int) *client {
	w.Helper()
	c := &client{w: w}
	var members []quorum.Member
	for i := range w.names {
		c.wires = append(c.wires, w.servers[i].Wire())
		if !slices.Contains(which, i) {
			continue
		}
		each.Name, each.Fence = w.names[i], cfg.Fences
		m, err := modern.New(c.wires[i].Pool(), each)
		if err != nil {
			w.Fatal(err)
		}
		members = append(members, m)
	}
	if cfg.Clock == nil {
		cfg.Clock = virtual{lock.Machine}
	}
	b, err := quorum.New(members, cfg)
	if err != nil {
		w.Fatal(err)
	}
	c.Backend = b
	w.clients = append(w.clients, c)
	return c
}

// virtual is the bubble's clock. It does not say when the machine booted, since
// that time is real.
type virtual struct{ lock.Clock }

func (v virtual) Elapsed() time.Duration {
	return v.Clock.(interface{ Elapsed() time.Duration }).Elapsed()
}

// try makes one attempt at key k.
func (c *client) try() (backend.Grant, error) {
	return c.Contract().Try(bg, "k", ttl)
}

// take takes key k, and waits until late votes are confirmed.
func (c *client) take() backend.Grant {
	c.w.Helper()
	g, err := c.try()
	if err != nil {
		c.w.Fatal(err)
	}
	c.w.settle()
	return g
}

// pass moves the bubble's time.
func pass(d time.Duration) { time.Sleep(d) }

// settle lets what is under way end.
func (w *world) settle() { pass(20 * time.Millisecond) }

func (w *world) free(g backend.Grant) {
	w.Helper()
	if err := g.Release(bg); err != nil {
		w.Errorf("Release: %v", err)
	}
	w.settle()
}

// renew renews a grant, which succeeds.
func (w *world) renew(g backend.Grant) backend.Term {
	w.Helper()
	term, err := g.Extend(bg, ttl)
	if err != nil {
		w.Fatalf("Extend: %v", err)
	}
	w.settle()
	return term
}

// value returns what a server has on key k.
func (w *world) value(i int) string {
	w.servers[i].ServerNow()
	v, _ := w.servers[i].Mini.Get("k")
	return v
}

// want checks the value of k on each server: a token for "x", none for "-".
func (w *world) want(what, pattern string, token string) {
	w.Helper()
	got := ""
	for i := range w.servers {
		switch w.value(i) {
		case "":
			got += "-"
		case token:
			got += "x"
		default:
			got += "?"
		}
	}
	if got != pattern {
		w.Errorf("%s: the servers have %q, want %q", what, got, pattern)
	}
}

// drop loses the vote of a server before its time.
func (w *world) drop(i int) { w.servers[i].Mini.Del("k") }

// away lets a server refuse connections of a client until back is called.
func (c *client) away(i int) {
	c.wires[i].Fault(redistest.Rule{Command: redistest.Dialing, Times: -1, Do: redistest.Refuse})
	c.wires[i].Cut()
	synctest.Wait()
}

// back ends all faults between a client and a server.
func (c *client) back(i int) { c.wires[i].Calm() }

// late holds the requests of a client for a server's vote back.
func (c *client) late(which ...int) (free func()) {
	gate := redistest.NewGate()
	for _, i := range which {
		c.wires[i].Fault(redistest.Rule{Command: "SET", Times: -1, Do: redistest.HoldRequest(gate)})
	}
	return func() {
		gate.Open()
		c.w.settle()
	}
}

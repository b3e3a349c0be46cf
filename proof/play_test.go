// SPDX-License-Identifier: Apache-2.0

package proof

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/proof/internal/model"
)

// tick is the length of the model's tick. It is many units of every dialect, a
// whole number of seconds for dialects in seconds, and long compared with the
// 100 ms by which a settle exceeds the gap.
const tick = 10 * time.Second

// Play is a scenario with real clients.
type Play struct {
	t        testing.TB
	sc       model.Scenario
	protocol Protocol
	dialect  dialect.Dialect
	tick     time.Duration
	world    *redistest.World
	key      string // key as clients name it
	l, m     string // keys on the server
	old      []*old
	ours     []*ours
	told     []string
	fleet    int
}

// NewPlay sets up a scenario; getsetlock clients use the protocol.
func NewPlay(t testing.TB, sc model.Scenario, protocol Protocol) *Play {
	t.Helper()
	p := &Play{t: t, sc: sc, protocol: protocol, dialect: scaled(sc.Dialect), tick: tick,
		world: redistest.New(t), key: "stock"}
	var err error
	if p.l, err = p.dialect.EncodeKey(p.key); err != nil {
		t.Fatal(err)
	}
	p.m = legacy.MarkKey(p.l)
	p.names("first")
	if protocol != nil {
		protocol.Begin(p)
	}
	for i := range sc.Old {
		p.old = append(p.old, p.newOld(fmt.Sprintf("old%d", i+1)))
	}
	for i := range sc.Ours.Clients {
		p.ours = append(p.ours, p.newOurs(fmt.Sprintf("ours%d", i+1)))
	}
	return p
}

// scaled returns the dialect with a slack of one tick, as in the model.
// Readings are whole ticks here, so a float dialect's clock could equal a
// stamp, which the model correctly excludes.
func scaled(d dialect.Dialect) dialect.Dialect {
	if d.Slack > 0 {
		d.Slack = tick
	}
	if d.Unit == dialect.UnitFloatSeconds {
		d.Inclusive = false
	}
	return d
}

func (p *Play) ticks(n int) time.Duration { return time.Duration(n) * p.tick }

// Dialect returns the old clients' dialect.
func (p *Play) Dialect() dialect.Dialect { return p.dialect }

// Scenario returns the scenario.
func (p *Play) Scenario() model.Scenario { return p.sc }

func (p *Play) fail(format string, args ...any) {
	p.t.Helper()
	p.t.Fatalf("%s\nafter\n  %s", fmt.Sprintf(format, args...), strings.Join(p.told, "\n  "))
}

// Step takes the nth event that the walk allows, in the model's world and in
// the real one, and compares the two.
func (p *Play) Step(w *model.Walk, n int) {
	p.t.Helper()
	e, before := w.Next()[n], w.World()
	free := p.goesOn(w, e)
	w.Take(n)
	after := w.World()
	p.fleet = after.Fleet
	p.told = append(p.told, e.String())
	if got := p.act(e, before, after, free); got != e.Result && !p.noted(e, got) {
		p.fail("%q came to %q", e, got)
	}
	if differ := p.compare(after); differ != "" && !p.halfway() {
		p.fail("after %q: %s", e, differ)
	}
}

// names makes the server show this run id.
func (p *Play) names(run string) {
	p.world.Mini.Server().SetPreHook(func(c *server.Peer, command string, args ...string) bool {
		if command != "INFO" || len(args) != 1 || !strings.EqualFold(args[0], "server") {
			return false
		}
		c.WriteBulk("# Server\r\nrun_id:" + run + "\r\n")
		return true
	})
}

// noted reports whether a refused attempt remembered a look at exactly the
// bytes that are on L.
func (p *Play) noted(e model.Event, got string) bool {
	if e.Result != "noted" || got != "held" {
		return false
	}
	bytes, err := p.world.Mini.Get(p.l)
	return err == nil && p.world.Mini.HGet(p.m+":look", "bytes") == bytes
}

// shift is what is added to a stamp's distance in the real world. If a
// scenario's getsetlock stamps lie at a distance that the rules do not allow,
// old clocks are moved by the difference.
func (p *Play) shift() time.Duration {
	if n := p.sc.Ours.StampAhead; n > 0 {
		return dialect.Terms{}.StampAhead() - p.ticks(n)
	}
	return 0
}

func (p *Play) halfway() bool {
	return slices.ContainsFunc(p.ours,
		func(o *ours) bool { return o.at != nil && o.trying && !p.sc.Ours.Late })
}

// Halfway lets a getsetlock client look at a value that it may take over, and
// stops it before the takeover. The model has no such state: there, judging and
// replacing are one event. The client's next acquire is the other half.
func (p *Play) Halfway(who string) {
	p.t.Helper()
	for _, o := range p.ours {
		if o.name == who {
			o.looks()
			p.told = append(p.told, who+" looks")
		}
	}
}

// goesOn reports whether an old client that gives up could have gone on to
// write. Then its own judgement is not tested.
func (p *Play) goesOn(w *model.Walk, e model.Event) bool {
	return slices.ContainsFunc(w.Next(), func(o model.Event) bool {
		return o.Who == e.Who && slices.Contains([]string{"getset", "judge", "reply"}, o.What)
	})
}

// act makes an event happen in the real world, and returns its result.
func (p *Play) act(e model.Event, before, after model.World, free bool) string {
	p.t.Helper()
	switch {
	case e.What == model.Tick.What:
		p.passes()
		return ""
	case e.Who == "server":
		p.world.Mini.FastForward(-p.tick / lag)
		p.world.StepServer(p.ticks(e.Arg))
		if p.sc.FailOver {
			p.names("second")
		}
		return ""
	case e.Who == "fleet":
		return "" // the schedule sets what the clocks show
	case e.Who == "record":
		p.protocol.Moves(p, e, after.Record)
		return ""
	case e.Who == "other":
		p.world.Mini.SetTTL(p.l, p.ticks(e.Arg))
		return ""
	}
	var i int
	if _, err := fmt.Sscanf(e.Who, "old%d", &i); err == nil {
		return p.old[i-1].act(e, before.Old[i-1], after.Old[i-1], before.Fleet, free)
	}
	if _, err := fmt.Sscanf(e.Who, "ours%d", &i); err != nil {
		p.fail("no client is called %q", e.Who)
	}
	return p.ours[i-1].act(e, before.Ours[i-1], after.Ours[i-1])
}

// lag slows the server's TTLs by one part in a hundred against its clock. In
// the model a key exists through its last tick, since within a tick anything
// may come first. So what should end at a tick ends within it here.
const lag = 100

func (p *Play) passes() {
	p.world.Mini.FastForward(-p.tick / lag)
	p.world.Pass(p.tick)
}

// settles checks the length of a settle's pause.
func (p *Play) settles(d time.Duration) {
	if s := p.sc.Ours.Settle; s > 0 && (d <= p.ticks(p.sc.Gap) || d > p.ticks(p.sc.Gap+1)) {
		p.fail("a settle of %v, with a gap of %v", d, p.ticks(p.sc.Gap))
	}
}

// identity returns what distinguishes writers of L: the uuid in values that
// have one, otherwise the whole value.
func (p *Play) identity(value string) string {
	if p.dialect.Shape == dialect.ShapeUUIDNumber {
		id, _, _ := strings.Cut(value, ":")
		return id
	}
	return value
}

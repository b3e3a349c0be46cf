package proof

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/skew"
)

// tick is how long the model's tick is. It is many units of every dialect, a whole number of seconds for
// those that count them, and long beside the 100 ms by which a settle exceeds the gap.
const tick = 10 * time.Second

// Play is a scenario with real clients in it.
type Play struct {
	t        testing.TB
	sc       skew.Scenario
	protocol Protocol
	dialect  dialect.Dialect
	tick     time.Duration
	world    *redistest.World
	key      string // as clients say it
	l, m     string // as the server has them
	old      []*old
	ours     []*ours
	told     []string
	fleet    int
	run      string // the server's
}

// firstRun is the run id of the server of the beginning.
const firstRun = "first"

// NewPlay sets a scenario up, with ours by the protocol.
func NewPlay(t testing.TB, sc skew.Scenario, protocol Protocol) *Play {
	t.Helper()
	p := &Play{t: t, sc: sc, protocol: protocol, dialect: scaled(sc.Dialect), tick: tick, world: redistest.New(t), key: "stock"}
	var err error
	if p.l, err = p.dialect.EncodeKey(p.key); err != nil {
		t.Fatal(err)
	}
	p.m = legacy.MarkKey(p.l)
	p.names(firstRun)
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

// scaled is the dialect in which slack is a tick, as it is in the model. Readings fall on whole ticks
// here, so a float dialect's clocks could be equal to a stamp, which the model rightly calls impossible.
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

// Dialect is what the old clients speak.
func (p *Play) Dialect() dialect.Dialect { return p.dialect }

// Scenario is what is played.
func (p *Play) Scenario() skew.Scenario { return p.sc }

func (p *Play) fail(format string, args ...any) {
	p.t.Helper()
	p.t.Fatalf("%s\nafter\n  %s", fmt.Sprintf(format, args...), strings.Join(p.told, "\n  "))
}

// Step takes the nth of what the walk allows in both worlds, the model's and the real one, and compares
// them.
func (p *Play) Step(w *skew.Walk, n int) {
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

// names lets the server tell its run id.
func (p *Play) names(run string) {
	p.run = run
	p.world.Mini.Server().SetPreHook(func(c *server.Peer, command string, args ...string) bool {
		if command != "INFO" || len(args) != 1 || !strings.EqualFold(args[0], "server") {
			return false
		}
		c.WriteBulk("# Server\r\nrun_id:" + run + "\r\n")
		return true
	})
}

// noted: an attempt that finds the key held, and remembers a look at the very bytes that are on L.
func (p *Play) noted(e skew.Event, got string) bool {
	if e.Result != "noted" || got != "held" {
		return false
	}
	bytes, err := p.world.Mini.Get(p.l)
	return err == nil && p.world.Mini.HGet(p.m+":look", "bytes") == bytes
}

// shift is what a stamp's distance is more in the real world: where a scenario has the stamps of ours at a
// distance that the rules do not allow, old clocks are moved as far as those stamps are.
func (p *Play) shift() time.Duration {
	if n := p.sc.Ours.StampAhead; n > 0 {
		return dialect.Terms{}.StampAhead() - p.ticks(n)
	}
	return 0
}

func (p *Play) halfway() bool {
	return slices.ContainsFunc(p.ours, func(o *ours) bool { return o.at != nil && o.trying && !p.sc.Ours.Late })
}

// Halfway lets a client of ours look at a value that it may take over, and stops it before it does. The
// model knows no such state: what is judged and what is replaced are one to it. The client's next acquire
// is the other half.
func (p *Play) Halfway(who string) {
	p.t.Helper()
	for _, o := range p.ours {
		if o.name == who {
			o.looks()
			p.told = append(p.told, who+" looks")
		}
	}
}

// goesOn: an old client that gives up could have gone on to write, so that its own judgement is not
// to be asked.
func (p *Play) goesOn(w *skew.Walk, e skew.Event) bool {
	return slices.ContainsFunc(w.Next(), func(o skew.Event) bool {
		return o.Who == e.Who && slices.Contains([]string{"getset", "judge", "reply"}, o.What)
	})
}

// act lets an event happen in the real world.
func (p *Play) act(e skew.Event, before, after skew.World, free bool) string {
	p.t.Helper()
	switch {
	case e.What == skew.Tick.What:
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
		return "" // clocks are told what to show
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
		p.fail("nobody is called %q", e.Who)
	}
	return p.ours[i-1].act(e, before.Ours[i-1], after.Ours[i-1])
}

// lag: the model lets a key exist through its last tick, since within a tick anything may come first.
// So the server's TTLs run by one part in a hundred slower than its clock, and what should end at a tick
// ends within it.
const lag = 100

func (p *Play) passes() {
	p.world.Mini.FastForward(-p.tick / lag)
	p.world.Pass(p.tick)
}

// settles checks how long a pause of ours is.
func (p *Play) settles(d time.Duration) {
	if s := p.sc.Ours.Settle; s > 0 && (d <= p.ticks(p.sc.Gap) || d > p.ticks(p.sc.Gap+1)) {
		p.fail("a settle of %v, with a gap of %v", d, p.ticks(p.sc.Gap))
	}
}

// identity is what tells writers of L apart: in values with a uuid that, else the whole value.
func (p *Play) identity(value string) string {
	if p.dialect.Shape == dialect.ShapeUUIDNumber {
		id, _, _ := strings.Cut(value, ":")
		return id
	}
	return value
}

package migrate

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/lock"
)

// pair are two members of a fleet, one of which has followed a step and one has not, and an old client.
type pair struct {
	*fleet
	ahead, behind *Bridge
	members       map[*Bridge]*Member
	old           lock.Backend
}

const leaseOfOurs = 10 * time.Second

// beyond is how much longer a stamp of observe stands than the token beside it, and more.
const beyond = 2 * time.Second

// sleepy is a clock that wakes no heartbeat, so that its member lags until it is told to look.
type sleepy struct{ *redistest.Clock }

func (sleepy) After(time.Duration) <-chan time.Time { return nil }

// newPair has the record at a phase that one member acts by, while the other acts by the one before.
func newPair(f *fleet, from, to Phase) *pair {
	f.t.Helper()
	p := &pair{fleet: f, members: map[*Bridge]*Member{}}
	epoch := int64(1)
	write := func(phase Phase) {
		r := Record{Epoch: epoch, Phase: phase, Since: f.w.ServerNow(), Dialect: "Jedis"}
		epoch++
		if err := f.w.Mini.Set(recordKey(""), r.String()); err != nil {
			f.t.Fatal(err)
		}
	}
	write(from)
	p.behind = p.bridge()
	write(to)
	p.ahead = p.bridge()
	old, err := legacy.New(f.w.Pool(), legacy.Config{Clock: f.w.Clock(redistest.Skew{})})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = old.Close() })
	p.old = old
	return p
}

func (p *pair) bridge() *Bridge {
	p.t.Helper()
	m, err := Join(bg, p.w.Pool(), MemberConfig{Clock: sleepy{p.w.Clock(redistest.Skew{})}, Every: time.Hour})
	if err != nil {
		p.t.Fatal(err)
	}
	b, err := New(p.w.Pool(), Config{Phases: m, Clock: p.w.Clock(redistest.Skew{})})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = b.Close(); _ = m.Leave() })
	p.members[b] = m
	return b
}

func (p *pair) gets(who string, b lock.Backend, key string) lock.Grant {
	p.t.Helper()
	ttl := leaseOfOurs
	if b == p.old {
		ttl = dialect.Jedis().Lease
	}
	g, err := b.Try(bg, key, ttl)
	if err != nil {
		p.t.Fatalf("%s does not get %s: %v", who, key, err)
	}
	return g
}

func (p *pair) waits(who string, b lock.Backend, key string) {
	p.t.Helper()
	g, err := b.Try(bg, key, leaseOfOurs)
	if !errors.Is(err, lock.ErrHeld) {
		p.t.Errorf("%s does not wait for %s: %v, %v", who, key, g, err)
	}
}

func (p *pair) frees(g lock.Grant) {
	p.t.Helper()
	if err := g.Release(context.Background()); err != nil {
		p.t.Error(err)
	}
}

// TestEveryPairOfPhasesExcludesWhatItPromises has a member in each of two neighbouring phases, in both
// directions, and the new beginning after clean. What it does not promise is checked too: in clean
// nothing keeps an old client out.
func TestEveryPairOfPhasesExcludesWhatItPromises(t *testing.T) {
	for _, from := range Phases() {
		for _, to := range Phases() {
			if from != to && !from.Adjacent(to) && (from != Clean || to != Observe) {
				continue
			}
			t.Run(fmt.Sprintf("%v to %v", from, to), func(t *testing.T) {
				inBubble(t, func(f *fleet) { newPair(f, from, to).excludes(from, to) })
			})
		}
	}
}

func (p *pair) excludes(from, to Phase) {
	for b, want := range map[*Bridge]Phase{p.behind: from, p.ahead: to} {
		phase(p.t, p.members[b], want)
	}
	both := []*Bridge{p.behind, p.ahead}
	for i, holder := range both {
		other, key := both[1-i], fmt.Sprintf("stock:%d", i)
		acts := []Phase{from, to}[i]
		p.oneAfterTheOther(holder, other, key)
		p.paused(holder, other, key)
		p.restarted(holder, other, key)
		p.besideOldClients(holder, acts, fmt.Sprintf("till:%d", i))
	}
}

func (p *pair) oneAfterTheOther(holder, other *Bridge, key string) {
	p.t.Helper()
	g := p.gets("the first", holder, key)
	p.waits("the second", other, key)
	p.w.Pass(leaseOfOurs / 2)
	if _, err := g.Extend(bg, leaseOfOurs); err != nil {
		p.t.Errorf("renewal: %v", err)
	}
	p.w.Pass(leaseOfOurs * 3 / 4)
	p.waits("the second, after a renewal", other, key)
	p.frees(g)
	p.frees(p.gets("the second", other, key))
}

// paused is a holder that wakes up after its lease: it is told, and harms nobody.
func (p *pair) paused(holder, other *Bridge, key string) {
	p.t.Helper()
	g := p.gets("the first", holder, key)
	p.w.Pass(leaseOfOurs + beyond)
	next := p.gets("the second, after the lease", other, key)
	if _, err := g.Extend(bg, leaseOfOurs); !errors.Is(err, lock.ErrLost) {
		p.t.Errorf("who was paused is not told: %v", err)
	}
	_ = g.Release(bg)
	p.waits("a third", holder, key)
	if _, err := next.Extend(bg, leaseOfOurs); err != nil {
		p.t.Errorf("who came after the paused one is harmed: %v", err)
	}
	p.frees(next)
}

// restarted is a holder that died: its lock ends by itself and not before.
func (p *pair) restarted(holder, other *Bridge, key string) {
	p.t.Helper()
	p.gets("the first", holder, key)
	p.w.Pass(leaseOfOurs - time.Second)
	p.waits("the second, before the dead one's lease is over", other, key)
	p.w.Pass(time.Second + beyond)
	p.frees(p.gets("the second", other, key))
}

func (p *pair) besideOldClients(b *Bridge, acts Phase, key string) {
	p.t.Helper()
	if acts == Clean {
		g := p.gets("ours in clean", b, key)
		old := p.gets("the old client, whom clean does not keep out", p.old, key)
		p.frees(old)
		p.frees(g)
		return
	}
	old := p.gets("the old client", p.old, key)
	p.waits("ours", b, key)
	p.frees(old)
	g := p.gets("ours", b, key)
	p.waits("the old client", p.old, key)
	p.frees(g)
	if acts >= Sealed {
		p.waits("the old client that the tombstone keeps out", p.old, key)
		return
	}
	p.frees(p.gets("the old client again", p.old, key))
}

// TestALeaseKeepsThePhaseItWasTakenIn: after the step its renewal and release do what they did before, and
// the other member waits all the time.
func TestALeaseKeepsThePhaseItWasTakenIn(t *testing.T) {
	for from := Observe; from <= Clean; from++ {
		for _, to := range []Phase{from - 1, from + 1} {
			if !from.Adjacent(to) {
				continue
			}
			t.Run(fmt.Sprintf("%v to %v", from, to), func(t *testing.T) {
				inBubble(t, func(f *fleet) {
					p := newPair(f, from, to)
					g := p.gets("the first", p.behind, "k")
					if err := p.members[p.behind].Refresh(bg); err != nil {
						t.Fatal(err)
					}
					s := p.members[p.behind].State()
					if s.Phase != to || s.Leases[from] != 1 {
						t.Errorf("%+v", s)
					}
					if _, err := g.Extend(bg, leaseOfOurs); err != nil {
						t.Errorf("renewal after the step: %v", err)
					}
					p.waits("the other", p.ahead, "k")
					p.frees(g)
					if s := p.members[p.behind].State(); len(s.Leases) != 0 {
						t.Errorf("after the release: %v", s.Leases)
					}
					p.frees(p.gets("the other", p.ahead, "k"))
				})
			})
		}
	}
}

package simulate

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/skew"
)

// Where the key means "done", a release says so for a time: until the stamp
// would end of an old client that had taken the key at the same instant. In
// observe and dual that stamp is on L. From sealed on L has the tombstone, and
// M says it.
func TestReleaseLeavesDoneWhereKeyMeansDone(t *testing.T) {
	for _, phase := range []skew.Phase{
		skew.PhaseObserve, skew.PhaseDual, skew.PhaseSealed, skew.PhaseModern} {
		for _, job := range []time.Duration{3 * time.Second, 25 * time.Second} {
			t.Run(string(phase)+" "+job.String(), func(t *testing.T) { releasesDone(t, phase, job) })
		}
	}
}

func releasesDone(t *testing.T, phase skew.Phase, job time.Duration) {
	const lease = 20 * time.Second
	m, err := New(Fleet{
		Dialect: dialect.Machinery(), Clients: 1, Lease: lease, Job: Constant(time.Second),
		Rest:    Constant(time.Second),
		Latency: Constant(time.Millisecond), Poll: time.Second, For: time.Hour,
		Ours: Ours{Clients: 2, Phase: phase, Job: Constant(job)},
	})
	if err != nil {
		t.Fatal(err)
	}
	released, last := 0, int64(0)
	for more := true; more; {
		c := &m.clients[m.queue[0]]
		releases := c.pc == simOurRelease && !m.member(c.name).retry
		if more = m.Run(1); !more {
			break
		}
		sealed := phase == skew.PhaseSealed || phase == skew.PhaseModern
		if sealed && m.key.present && m.key.value.stamp < guardStamp {
			t.Fatal("an old client's stamp is on L")
		}
		if !releases {
			continue
		}
		g := m.member(c.name)
		released++
		until := g.taken + int64(lease)
		done := until > m.server.time
		switch {
		case g.taken < last:
			t.Fatalf("a tick was done again %v too early", time.Duration(last-g.taken))
		case sealed && done != (m.token == simToken{doneToken, until}):
			t.Fatalf("M is %+v, the tick is done until %d", m.token, until)
		case !sealed && done && (m.key.value.stamp != until || m.key.expires != until):
			t.Fatalf("L is %+v, the tick is done until %d", m.key, until)
		case !sealed && !done && m.key.present:
			t.Fatalf("L is %+v, and the tick's time is over", m.key)
		}
		last = until
		if !done {
			last = 0
		}
	}
	if released < 5 {
		t.Errorf("getsetlock clients released %d times", released)
	}
}

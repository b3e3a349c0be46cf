package migrate

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/locktest"
	"github.com/getsetlock/getsetlock/migrate/internal/record"
)

// late is a target that answers after a while.
type late struct {
	lock.Backend
	answer func()
}

func (l late) Try(ctx context.Context, key string, ttl time.Duration) (lock.Grant, error) {
	defer l.answer()
	return l.Backend.Try(ctx, key, ttl)
}

// A gate may have taken the member for dead while the target did not answer.
func TestComposedTakesNothingForAMemberSilentForLong(t *testing.T) {
	for _, p := range Phases() {
		t.Run(p.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { silentInside(t, p) })
		})
	}
}

func silentInside(t *testing.T, p Phase) {
	w := redistest.Bubble(t)
	first := Record{Epoch: 1, Phase: p, Since: w.ServerNow(), Dialect: "Jedis"}
	if p == Clean {
		first.Target = "elsewhere"
	}
	text := first.String()
	if err := w.Mini.Set(record.Key(""), text); err != nil {
		t.Fatal(err)
	}
	wire, clock := w.Wire(), w.Clock(redistest.Skew{})
	m, err := Join(t.Context(), wire.Pool(), MemberConfig{Clock: asleep{clock}, Target: "elsewhere"})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Leave()
	b, err := New(w.Pool(), Config{Phases: m, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	store := locktest.NewStore(clock)
	c, err := Compose(b, late{store.Backend(), func() {
		wire.Fault(redistest.Rule{Times: -1, Do: redistest.CutBefore})
		w.Pass(record.LeastRenewals + time.Second)
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if g, err := c.Try(t.Context(), "k", 30*time.Second); err == nil {
		t.Errorf("taken: %v", g)
	}
	if store.Holder("k") != "" || w.Mini.Exists("{k}:gsl") {
		t.Errorf("left: the target %q, M %v", store.Holder("k"), w.Mini.Exists("{k}:gsl"))
	}
}

// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// An attempt that waits for another one's round ends with its own context.
func TestTurnEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		round := make(turn, 1)
		if err := round.take(context.Background()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := round.take(ctx); err == nil {
			t.Error("two rounds at once")
		}
		round.give()
		if err := round.take(ctx); err != nil {
			t.Errorf("a free turn: %v", err)
		}
	})
}

// A heartbeat that was answered counts while the trial of scripts after it
// hangs, as on another connection that fell silent. Leases are renewed
// meanwhile.
func TestAnsweredHeartbeatCountsWhileTheProbeHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := redistest.Bubble(t)
		r := Record{Epoch: 1, Phase: Dual, Since: time.Now().UTC(), Dialect: "Jedis"}
		if err := w.Mini.Set(record.Key("k"), r.String()); err != nil {
			t.Fatal(err)
		}
		m, err := Join(t.Context(), w.Pool(), MemberConfig{Namespace: "k", Every: time.Second,
			Renews: 3 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		hangs := make(chan struct{})
		m.Attach(func(context.Context, string) error { <-hangs; return nil })
		time.Sleep(3500 * time.Millisecond) // the heartbeat after a second was answered
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := m.keeps(ctx, 0); err != nil {
			t.Errorf("a lease was not renewed: %v", err)
		}
		close(hangs)
		if err := m.Leave(); err != nil {
			t.Error(err)
		}
	})
}

// A member that was silent acts by no new phase before the roster has it: init
// goes by the roster where the record is lost.
func TestNewPhaseIsToldBeforeAnAttemptAfterASilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := redistest.Bubble(t)
		write := func(r Record) {
			r.Since, r.Dialect = time.Now().UTC(), "Jedis"
			if err := w.Mini.Set(record.Key("k"), r.String()); err != nil {
				t.Fatal(err)
			}
		}
		write(Record{Epoch: 1, Phase: Dual})
		m, err := Join(t.Context(), w.Pool(), MemberConfig{Namespace: "k", Every: time.Second,
			Renews: 3 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if _, end, err := m.Begin(t.Context(), time.Second); err != nil {
			t.Fatal(err)
		} else {
			end()
		}
		hangs := make(chan struct{})
		m.Attach(func(context.Context, string) error { <-hangs; return nil })
		write(Record{Epoch: 2, Phase: Sealed})
		time.Sleep(3500 * time.Millisecond) // the heartbeat after a second read the new phase
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if p, end, err := m.Begin(ctx, time.Second); err == nil {
			end()
			t.Errorf("an attempt began by %v, and the roster has %q", p,
				w.Mini.HGet(record.RosterKey("k"), m.ID()))
		}
		close(hangs)
		if err := m.Leave(); err != nil {
			t.Error(err)
		}
	})
}

// An Acquire waits out trouble that passes, also where a member's own commands
// meet it.
func TestMembersTroubleSaysWhetherItPasses(t *testing.T) {
	for text, passes := range map[string]bool{
		"BUSY Redis is busy running a script": true, redistest.Loading: true,
		"WRONGTYPE Operation against a key holding the wrong kind of value": false,
	} {
		err := (&Member{}).refused("look for the member in", "gsl:roster:", redis.Error(text))
		var judged interface{ Passing() bool }
		if said := errors.As(err, &judged) && judged.Passing(); said != passes {
			t.Errorf("%v: passes %v", err, said)
		}
	}
}

// A member whose field is missing is only elsewhere if it has just written it.
func TestMemberThatCannotWriteItsFieldIsNotElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := observing(t)
		wire, clock := w.Wire(), w.Clock(redistest.Skew{})
		m, err := Join(t.Context(), wire.Pool(), MemberConfig{Clock: asleep{clock}})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Leave()
		b, err := New(w.Pool(), Config{Phases: m, Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		w.Mini.Del(record.RosterKey(""))
		wire.Fault(redistest.Rule{Times: -1, Do: redistest.CutBefore})
		if err := b.engine.placed(t.Context()); err == nil || errors.Is(err, errElsewhere) {
			t.Errorf("%v; want what kept the member from writing its field", err)
		}
	})
}

// In observe a silent connection is left as soon as in the other phases, while
// there is time for a renewal on another one.
func TestObserveLeavesASilentConnectionInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := &redis.Pool{Dial: func() (redis.Conn, error) {
			here, there := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, there) }() // it answers nothing
			return redis.NewConn(redistest.Memory(here), 0, 0), nil
		}}
		b, err := New(pool, Config{Phases: Fixed(Observe)})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		const ttl = 4 * time.Second
		if err := b.engine.Fits(ttl, time.Second, 500*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := b.engine.Try(t.Context(), "k", ttl); err == nil {
			t.Error("a lock of a silent server")
		}
		if passed := time.Since(began); passed > ttl/4 {
			t.Errorf("the attempt ended after %v; want a quarter of the TTL", passed)
		}
	})
}

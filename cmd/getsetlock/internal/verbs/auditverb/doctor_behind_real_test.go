// SPDX-License-Identifier: Apache-2.0

//go:build real

package auditverb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/internal/testing/wallshift"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
)

// Old clients take and release one lock during the watch, and one of them works
// under another, which nobody else asks for. The server's clock is past that
// lock's time, and the operator claims that no clock is behind by more than a
// second.
func TestDoctorSparesHoldersThatItsWatchMakesDoubtful(t *testing.T) {
	starts := dialect.Jedis()
	starts.Slack = 0
	for name, c := range map[string]struct {
		d      dialect.Dialect
		lease  time.Duration
		behind time.Duration // how far the fleet is behind the server
	}{
		"two minutes behind": {dialect.Jedis(), time.Minute, 2 * time.Minute},
		"start times":        {starts, time.Millisecond, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := wallshift.New(t)
			server := redistest.Real(t, redistest.Options{Env: clock.Env()})
			old, err := legacy.New(server.Pool(), legacy.Config{Mode: legacy.Verbatim, Dialect: c.d})
			if err != nil {
				t.Fatal(err)
			}
			defer old.Close()
			if _, err := old.Contract().Try(t.Context(), "lock:works", c.lease); err != nil {
				t.Fatal(err)
			}
			// The holder of a start time has worked for five seconds.
			clock.Set(max(c.behind, 5*time.Second))
			if c.behind == 0 {
				text, err := c.d.Stamp(time.Now().Add(-5*time.Second), c.lease, "")
				if err != nil {
					t.Fatal(err)
				}
				server.Do("SET", "lock:works", text)
				clock.Set(0)
			}
			value, err := redis.String(server.Do("GET", "lock:works"), nil)
			if err != nil {
				t.Fatal(err)
			}
			stop, ended := make(chan struct{}), make(chan error)
			go func() { ended <- taking(old, c.lease, stop) }()
			s := clitest.OnReal(t, server)
			for _, more := range []string{"--watch 2s --dialect jedis", "--watch 2s",
				"--watch 2s --dialect jedis --lease 60s --gap 500ms"} {
				args := "doctor --match lock:* --quiet --fix --yes --behind 1s " + more
				got := s.Run(strings.Fields(args)...)
				if got.Code != out.CodeBad ||
					!strings.Contains(flowing(got.Out), "--behind 1s does not count") {
					t.Errorf("%s: code %d\n%s%s", more, got.Code, got.Out, got.Errors)
				}
				if is, err := redis.String(server.Do("GET", "lock:works"), nil); err != nil || is != value {
					t.Fatalf("%s: the holder's lock holds %q, %v", more, is, err)
				}
			}
			close(stop)
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// flowing undoes the wrapping of lines.
func flowing(text string) string { return strings.Join(strings.Fields(text), " ") }

// taking takes a lock and releases it until stop.
func taking(old *legacy.Backend, lease time.Duration, stop <-chan struct{}) error {
	for {
		select {
		case <-stop:
			return nil
		case <-time.After(20 * time.Millisecond):
		}
		g, err := old.Contract().Try(context.Background(), "lock:busy", lease)
		if err != nil {
			return err
		}
		// A lease of a millisecond may be over by then.
		if err := g.Release(context.Background()); err != nil && !errors.Is(err, lock.ErrLost) {
			return err
		}
	}
}

// A watch that contradicts nothing leaves the claim alone.
func TestDoctorFreesByATrueBehindWhatItWatched(t *testing.T) {
	server := redistest.Real(t, redistest.Options{})
	server.Do("SET", "lock:dead", time.Now().Add(-time.Minute).UnixMilli())
	old, err := legacy.New(server.Pool(), legacy.Config{Mode: legacy.Verbatim, Dialect: dialect.Jedis()})
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	stop, ended := make(chan struct{}), make(chan error)
	go func() { ended <- taking(old, time.Minute, stop) }()
	s := clitest.OnReal(t, server)
	got := s.Run(strings.Fields(
		"doctor --match lock:* --quiet --fix --yes --dialect jedis --behind 20s --watch 2s")...)
	close(stop)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if !strings.Contains(got.Out, "lock:dead: done") || server.Do("EXISTS", "lock:dead").(int64) != 0 {
		t.Errorf("code %d\n%s%s", got.Code, got.Out, got.Errors)
	}
}

// One call frees all of them, though it lists no more than a thousand findings,
// and though the keys that come first in the scan have no fix.
func TestDoctorFreesAllDeadLocksInOneCall(t *testing.T) {
	server := redistest.Real(t, redistest.Options{})
	const dead, constant = 4000, 1500
	pool := server.Pool()
	defer pool.Close()
	conn := pool.Get()
	defer conn.Close()
	value := time.Now().Add(-time.Hour).UnixMilli()
	for i := range dead {
		if err := conn.Send("SET", fmt.Sprint("lock:dead:", i), value); err != nil {
			t.Fatal(err)
		}
	}
	for i := range constant {
		if err := conn.Send("SET", fmt.Sprint("lock:const:", i), "busy"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := conn.Do(""); err != nil {
		t.Fatal(err)
	}
	s := clitest.OnReal(t, server)
	args := strings.Fields("doctor --match lock:* --quiet --fix --yes --json --dialect jedis --behind 1s")
	doc := clitest.DocumentOf[DoctorDocument](t, s.Run(args...))
	if doc.Fixes != dead || doc.Fixed != dead || doc.More != dead+constant-1000 {
		t.Errorf("%d fixes, %d done, %d more", doc.Fixes, doc.Fixed, doc.More)
	}
	if left := server.Do("DBSIZE").(int64); left != constant {
		t.Errorf("%d keys are left, want %d", left, constant)
	}
	// Looks are remembered at all of them, too.
	for i := range dead {
		if err := conn.Send("SET", fmt.Sprint("lock:dead:", i), value); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := conn.Do(""); err != nil {
		t.Fatal(err)
	}
	args = strings.Fields("doctor --match lock:* --quiet --fix --yes --dialect jedis --lease 60s")
	s.Run(args...)
	looks, err := redis.Int(server.Do("EVAL", "return #redis.call('KEYS', '*:gsl:look')", 0), nil)
	if err != nil || looks != dead {
		t.Errorf("%d looks are remembered, %v", looks, err)
	}
}

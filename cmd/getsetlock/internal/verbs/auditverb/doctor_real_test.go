// SPDX-License-Identifier: Apache-2.0

//go:build real

package auditverb

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// fleetBehind has old clients whose clocks agree with each other and are two
// minutes behind the server's. One works under the lock, and two wait for it.
type fleetBehind struct {
	*redistest.Server
	value string
	polls chan struct{} // one value for each poll of a waiter
	ended chan error
}

const (
	behindBy    = 2 * time.Minute
	behindLease = time.Minute
)

func (f *fleetBehind) stamp() string {
	return strconv.FormatInt(time.Now().Add(behindLease-behindBy).UnixMilli()+1, 10)
}

// newFleetBehind begins the work, which ends with ctx.
func newFleetBehind(ctx context.Context, t *testing.T) *fleetBehind {
	f := &fleetBehind{Server: redistest.Real(t, redistest.Options{}), polls: make(chan struct{}),
		ended: make(chan error)}
	f.value = f.stamp()
	if f.Do("SETNX", "lock:stock", f.value).(int64) != 1 {
		t.Fatal("the holder did not get the lock")
	}
	for range 2 {
		go func() { f.ended <- f.wait(ctx) }()
	}
	return f
}

// wait polls as jedis-lock does. The stamp is live by this client's clock.
func (f *fleetBehind) wait(ctx context.Context) error {
	pool := f.Pool()
	defer pool.Close()
	c := pool.Get()
	defer c.Close()
	for {
		select {
		case <-ctx.Done():
			return nil
		case f.polls <- struct{}{}:
		case <-time.After(20 * time.Millisecond):
		}
		if _, err := c.Do("SETNX", "lock:stock", f.stamp()); err != nil {
			return err
		}
		if _, err := redis.String(c.Do("GET", "lock:stock")); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// The holder works, and its waiters find its stamp live at every poll.
func TestDoctorSparesAFleetBehindItsServer(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	f := newFleetBehind(ctx, t)
	s := clitest.NewStage(t)
	doctor := func(more ...string) clitest.Screen {
		return s.Run(
			append([]string{"doctor", "--redis", f.URL(), "--match", "lock:*", "--dialect", "jedis",
				"--quiet", "--fix", "--yes"}, more...)...)
	}
	for _, more := range [][]string{
		{"--watch", "2s", "--lease", "60s"},
		{"--watch", "2s", "--lease", "60s", "--behind", "1s"}, // a claim that the watch refutes
		{"--lease", "60s"},
		{},
	} {
		<-f.polls // the waiters do poll
		got := doctor(more...)
		if got.Code != out.CodeBad || !strings.Contains(got.Out, "lock:stock: ended 1m") ||
			strings.Contains(got.Out, "done") {
			t.Errorf("%q: code %d\n%s%s", more, got.Code, got.Out, got.Errors)
		}
		if is, err := redis.String(f.Do("GET", "lock:stock"), nil); err != nil || is != f.value {
			t.Fatalf("%q: the holder's lock holds %q, %v", more, is, err)
		}
		if read := strings.Contains(got.Out, "read it"); read != (len(more) > 0 && more[0] == "--watch") {
			t.Errorf("%q:\n%s", more, got.Out)
		}
	}
	stop()
	for range 2 {
		if err := <-f.ended; err != nil {
			t.Error(err)
		}
	}
	// The calls with --fix remembered a look at these bytes on this server.
	look, err := redis.StringMap(f.Do("HGETALL", "{lock:stock}:gsl:look"), nil)
	run, err2 := redis.String(f.Do("INFO", "server"), nil)
	if err != nil || err2 != nil || look["bytes"] != f.value ||
		!strings.Contains(run, "run_id:"+look["run"]+"\r\n") {
		t.Errorf("remembered %q, %v %v", look, err, err2)
	}
	// Now the holder has crashed, and a look is old enough.
	f.Do("HINCRBY", "{lock:stock}:gsl:look", "sec", -80)
	if got := doctor("--lease", "60s"); !strings.Contains(got.Out, "lock:stock: done") ||
		f.Do("DBSIZE").(int64) != 0 {
		t.Errorf("%s%s", got.Out, got.Errors)
	}
}

// A watch proves how far such a fleet is behind at least. It knows no upper
// bound, whatever it saw.
func TestAuditProvesAFleetBehindItsServer(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	f := newFleetBehind(ctx, t)
	s := clitest.NewStage(t)
	doc := clitest.AnswerOf(t,
		s.Run("audit", "--redis", f.URL(), "--match", "lock:*", "--dialect", "jedis", "--quiet", "--json",
			"--monitor", "--for", "2s", "--lease", "60s", "--gap", "1s"))
	stop()
	for range 2 {
		if err := <-f.ended; err != nil {
			t.Error(err)
		}
	}
	if doc.At("behind_ms") != nil || doc.At("ahead_ms") != nil || doc.At("server_clock.run_id") == nil ||
		doc.Number("server_clock.writes") == 0 {
		t.Fatal(doc)
	}
	least := doc.Number("server_clock.behind.at_least_ms")
	if want := float64(behindBy.Milliseconds()); least > want || least < want-2000 {
		t.Errorf("behind by at least %v ms", least)
	}
}

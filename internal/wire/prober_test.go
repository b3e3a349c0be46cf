package wire

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// doer is a connection whose Do calls a func of the test.
type doer struct {
	*stub
	answer func(name string) (any, error)
}

func (d *doer) Do(name string, _ ...any) (any, error) { return d.answer(name) }

// lateError is the error of a connection whose own read timeout has passed.
type lateError struct{ error }

func (lateError) Timeout() bool   { return true }
func (lateError) Temporary() bool { return true }

// probeOnce tries the command X, for which want is the right reply. It returns
// the last verdict and the number of connections.
func probeOnce(t *testing.T, want any, answer func(name string) (any, error)) (v Verdict, dials int) {
	t.Helper()
	var mu sync.Mutex
	m := open(t, &redis.Pool{Dial: func() (redis.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		dials++
		return &doer{newStub(), answer}, nil
	}}, Options{})
	m.Prober().Start(Cmd("GET", "k"), func(trial *Trial) {
		found := trial.Ask(want, "X", "k")
		mu.Lock()
		defer mu.Unlock()
		v = found
	})
	synctest.Wait()
	return v, dials
}

func TestProbeJudgesEachAnswer(t *testing.T) {
	hangUp := errors.New("EOF")
	for name, c := range map[string]struct {
		want    any
		reply   any
		err     error
		verdict Verdict
		dials   int
	}{
		"number":            {int64(0), int64(0), nil, Has, 1},
		"nil":               {nil, nil, nil, Has, 1},
		"condition ignored": {nil, "OK", nil, Lacks, 1},
		"another number":    {int64(0), int64(1), nil, Lacks, 1},
		"bytes":             {nil, []byte("x"), nil, Lacks, 1},
		"list":              {int64(0), []any{}, nil, Lacks, 1},
		"unknown":           {nil, nil, redis.Error("ERR unknown command 'X'"), Lacks, 1},
		"own words":         {nil, nil, redis.Error("Command is not available"), Lacks, 1},
		"no words":          {nil, nil, redis.Error(""), Lacks, 1},
		"no rights":         {nil, nil, redis.Error(redistest.NoPerm), Lacks, 1},
		"loading":           {nil, nil, redis.Error(redistest.Loading), Open, 1},
		"out of memory":     {nil, nil, redis.Error(redistest.OOM), Open, 1},
		"hang-up":           {nil, nil, hangUp, Lacks, hangUps},
		"time of its own":   {nil, nil, lateError{errors.New("i/o timeout")}, Open, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v, dials := probeOnce(t, c.want, func(name string) (any, error) {
					if name == "GET" {
						return nil, nil
					}
					return c.reply, c.err
				})
				if v != c.verdict || dials != c.dials {
					t.Errorf("verdict %v with %d connections, want %v with %d", v, dials, c.verdict, c.dials)
				}
			})
		})
	}
}

func TestProbeNeedsItsControlAnswered(t *testing.T) {
	for name, c := range map[string]struct {
		err     error
		verdict Verdict
	}{
		"answered":  {nil, Has},
		"no rights": {redis.Error(redistest.NoPerm), Has},
		"a list": {redis.Error("WRONGTYPE Operation against a key holding the wrong kind of value"),
			Has},
		"full":        {redis.Error("ERR max number of clients reached"), Open},
		"no password": {redis.Error("NOAUTH Authentication required."), Open},
		"hang-up":     {errors.New("EOF"), Open},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v, dials := probeOnce(t, nil, func(name string) (any, error) {
					if name == "GET" {
						return nil, c.err
					}
					return nil, nil
				})
				if v != c.verdict || dials != 1 {
					t.Errorf("verdict %v with %d connections, want %v with one", v, dials, c.verdict)
				}
			})
		})
	}
}

// The test asks for a new probe every second.
func TestUnansweredProbesAreRare(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		wire := w.Wire(redistest.Rule{Command: "GET", Times: -1, Do: redistest.Silence})
		m := open(t, wire.Pool(), Options{Timeout: time.Second / 2})
		begun := time.Now()
		var at []time.Duration
		for n := 0; time.Since(begun) < time.Hour; time.Sleep(time.Second) {
			m.Prober().Start(Cmd("GET", "k"), func(trial *Trial) { trial.Ask(nil, "X") })
			synctest.Wait()
			if now := wire.Count("GET"); now > n {
				n, at = now, append(at, time.Since(begun)/time.Second)
			}
		}
		if want := []time.Duration{0, 1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 1623, 2223, 2823,
			3423}; !slices.Equal(at, want) {
			t.Errorf("probes began after %d seconds, want %d", at, want)
		}
	})
}

// None begins after Close either.
func TestProbesDoNotRunAtTheSameTime(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		wire := w.Wire(redistest.Rule{Command: "GET", Times: -1, Do: redistest.Silence})
		m := open(t, wire.Pool(), Options{Timeout: time.Hour})
		start := func() {
			m.Prober().Start(Cmd("GET", "k"), func(trial *Trial) { trial.Ask(nil, "X") })
			synctest.Wait()
		}
		for range 3 {
			start()
			time.Sleep(time.Minute)
		}
		if n := wire.Count("GET"); n != 1 {
			t.Errorf("%d probes, want 1", n)
		}
		m.Close()
		time.Sleep(longestPause)
		start()
		if n := wire.Count("GET"); n != 1 {
			t.Errorf("%d probes after Close, want no more", n)
		}
	})
}

// A probe's connections get the same setup as those of the Mux.
func TestProbeSetsItsConnectionsUp(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		wire := w.Wire()
		m := open(t, wire.Pool(), Options{Setup: func(c redis.Conn) error {
			_, err := c.Do("SELECT", 3)
			return err
		}})
		m.Prober().Start(Cmd("GET", "k"), func(trial *Trial) { trial.Ask(nil, "GET", "k") })
		synctest.Wait()
		var names []string
		for _, c := range wire.Sent() {
			names = append(names, c[0])
		}
		if want := []string{"SELECT", "GET", "GET"}; !slices.Equal(names, want) {
			t.Errorf("sent %q, want %q", names, want)
		}
		if n := wire.Connections(); n != 0 {
			t.Errorf("%d connections are left", n)
		}
	})
}

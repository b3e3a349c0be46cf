// SPDX-License-Identifier: Apache-2.0

//go:build real

package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"go.uber.org/goleak"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/migrate"
)

// workerEnv makes this test binary a worker: a getsetlock process that does
// what a [Loop] does in Java.
const workerEnv = "GETSETLOCK_INTEROP_WORKER"

// task is a worker's configuration, as JSON in its environment.
type task struct {
	Addr       string
	Politeness time.Duration
	Lease      time.Duration // E, the jar's lease; 0: the dialect's own
	Job        time.Duration // time between reading the counter and writing it
	Keep       bool          // hold the first acquisition until stdin ends
	Phase      string        // phase of a bridge; empty: a hardened backend
	Unchanged  bool          // judge by unchanged bytes
	DeadStamp  bool          // a JVM is killed while it holds the key: see overwritten
}

// backend returns the backend by which the worker takes its locks.
func (to task) backend(pool *redis.Pool) (backend.Store, error) {
	terms := dialect.Terms{Lease: to.Lease}
	if to.Phase == "" {
		return legacy.New(pool, legacy.Config{Mode: legacy.Hardened, Terms: terms})
	}
	p, err := migrate.ParsePhase(to.Phase)
	if err != nil {
		return nil, err
	}
	cfg := migrate.Config{Phases: migrate.Fixed(p), Terms: terms}
	if to.Unchanged {
		cfg.Takeover = legacy.Unchanged(to.Lease)
	}
	return migrate.New(pool, cfg)
}

func TestMain(m *testing.M) {
	if told := os.Getenv(workerEnv); told != "" {
		if err := work(told); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(Ending(m))
}

// work acquires the lock again and again, printing a line for every
// acquisition, until stdin ends.
func work(told string) error {
	var to task
	if err := json.Unmarshal([]byte(told), &to); err != nil {
		return err
	}
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", to.Addr) }}
	defer pool.Close()
	b, err := to.backend(pool)
	if err != nil {
		return err
	}
	client, err := lock.New(b, lock.Config{Politeness: to.Politeness})
	if err != nil {
		return err
	}
	defer client.Close(context.Background())
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	if to.Keep {
		return keep(ctx, client)
	}
	conn := pool.Get()
	defer conn.Close()
	losses := 0
	for {
		span, err := round(ctx, client, conn, to.Job)
		if ctx.Err() != nil && span.Held == 0 {
			return nil
		}
		if to.DeadStamp && overwritten(err) && span.Released != 0 && losses == 0 {
			losses++
			span.Overwritten = true
			fmt.Fprintln(os.Stderr, err)
		} else if err != nil {
			return err
		}
		fmt.Println(span.Asked, span.Held, span.Released, span.Overwritten)
	}
}

// overwritten reports whether err is a loss that no client can prevent and that
// the holder notices, after a JVM was killed while it held the key. Two Java
// clients find the dead stamp expired. One wins, works and deletes the key, and
// a getsetlock process takes it. Then the other's GETSET arrives, which loses
// and leaves its stamp on the key. No other client holds then, and none enters
// before that stamp ends.
//
// The explorer has the trace and finds no two holders
// (TestLateLoserAtDeadStampLetsNoClientIn in package skew). A worker accepts
// that once; the test still checks that no two held at once and that no update
// was lost. In sealed this happens only until the first tombstone has been on
// the key for a gap (TestTombstoneEndsLossesToLateLosers): besideSealed fails
// for a later loss.
func overwritten(err error) bool {
	return errors.Is(err, lock.ErrLost) && strings.Contains(err.Error(), "was overwritten by another")
}

func keep(ctx context.Context, client *lock.Client) error {
	asked := time.Now().UnixMicro()
	lease, err := client.Acquire(ctx, key)
	if err != nil {
		return err
	}
	fmt.Println(asked, time.Now().UnixMicro(), 0, false)
	<-lease.Done()
	return nil
}

// round is one acquisition: read the counter, hold, write it back. Once the
// lock is held, the round is completed.
func round(ctx context.Context, client *lock.Client, conn redis.Conn, job time.Duration) (s Span, err error) {
	s.Asked = time.Now().UnixMicro()
	lease, err := client.Acquire(ctx, key)
	if err != nil {
		return s, err
	}
	s.Held = time.Now().UnixMicro()
	seen, err := redis.Int(conn.Do("GET", counter))
	if err != nil && err != redis.ErrNil {
		return s, err
	}
	if job > 0 {
		<-time.After(job)
	}
	if _, err := conn.Do("SET", counter, strconv.Itoa(seen+1)); err != nil {
		return s, err
	}
	s.Released = time.Now().UnixMicro()
	if err := lease.Release(); err != nil && ctx.Err() == nil {
		return s, err
	}
	return s, nil
}

// worker is the parent's end of a worker process.
type worker struct {
	cmd   *exec.Cmd
	stdin io.Closer
	ended chan struct{}
	err   error // set before ended is closed

	mu    sync.Mutex
	spans []Span
	more  chan struct{} // closed at the next span
}

func startWorker(t *testing.T, to task) *worker {
	t.Helper()
	told := must[[]byte](t)(json.Marshal(to))
	w := &worker{cmd: exec.Command(os.Args[0]), ended: make(chan struct{}), more: make(chan struct{})}
	w.cmd.Env = append(os.Environ(), workerEnv+"="+string(told))
	w.cmd.Stderr = os.Stderr
	stdin := must[io.WriteCloser](t)(w.cmd.StdinPipe())
	stdout := must[io.ReadCloser](t)(w.cmd.StdoutPipe())
	w.stdin = stdin
	check(t, w.cmd.Start())
	go w.read(stdout)
	t.Cleanup(func() {
		_ = w.cmd.Process.Kill() // most workers have ended long before
		<-w.ended
	})
	return w
}

func (w *worker) read(stdout io.Reader) {
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		var s Span
		if _, err := fmt.Sscan(lines.Text(), &s.Asked, &s.Held, &s.Released, &s.Overwritten); err != nil {
			w.err = err
			break
		}
		w.mu.Lock()
		w.spans = append(w.spans, s)
		close(w.more)
		w.more = make(chan struct{})
		w.mu.Unlock()
	}
	if err := w.cmd.Wait(); w.err == nil {
		w.err = err
	}
	close(w.ended)
}

// reach waits until the worker has made that many acquisitions.
func (w *worker) reach(t *testing.T, ctx context.Context, least int) int {
	t.Helper()
	for {
		w.mu.Lock()
		n, more := len(w.spans), w.more
		w.mu.Unlock()
		if n >= least {
			return n
		}
		select {
		case <-more:
		case <-w.ended:
			t.Fatalf("a worker ended after %d acquisitions: %v", n, w.err)
		case <-ctx.Done():
			t.Fatalf("a worker has made %d of %d acquisitions: %v", n, least, ctx.Err())
		}
	}
}

// kill ends the worker abruptly, as a crash does.
func (w *worker) kill(t *testing.T) {
	t.Helper()
	check(t, w.cmd.Process.Kill())
	<-w.ended
}

// stop lets the present round end, and returns all acquisitions.
func (w *worker) stop(t *testing.T) []Span {
	t.Helper()
	_ = w.stdin.Close()
	<-w.ended
	if w.err != nil {
		t.Errorf("a worker: %v", w.err)
	}
	return w.spans
}

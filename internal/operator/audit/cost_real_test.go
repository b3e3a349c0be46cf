// SPDX-License-Identifier: Apache-2.0

//go:build real && linux

package audit

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"golang.org/x/sys/unix"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// saturate keeps the server busy with pipelined reads and writes, and counts
// them.
func saturate(ctx context.Context, tb testing.TB, s *redistest.Server, clients int) (count *atomic.Int64,
	wait func()) {
	pool := s.Pool()
	count = new(atomic.Int64)
	var wg sync.WaitGroup
	for i := range clients {
		wg.Add(1)
		go func() {
			defer wg.Done()
			c := pool.Get()
			defer c.Close()
			const batch = 32
			for n := 0; ctx.Err() == nil; n++ {
				for j := range batch {
					key := fmt.Sprint("app:", (n*batch+j+i)%1000)
					if j%4 == 0 {
						_ = c.Send("SET", key, "some value of an application")
					} else {
						_ = c.Send("GET", key)
					}
				}
				if _, err := redis.Values(c.Do("")); err != nil {
					tb.Error(err)
					return
				}
				count.Add(batch)
			}
		}()
	}
	return count, func() { wg.Wait(); pool.Close() }
}

// busy returns a server that holds locks to look at and is saturated by four
// clients.
func busy(b *testing.B) (s *redistest.Server, count *atomic.Int64, end func()) {
	s = redistest.Real(b, redistest.Options{})
	for i := range watchedKeys {
		s.Do("SET", fmt.Sprint("lock:", i), jedisStamp(time.Now().Add(time.Hour)))
	}
	ctx, stop := context.WithCancel(b.Context())
	count, wait := saturate(ctx, b, s, 4)
	return s, count, func() { stop(); wait() }
}

// A watch at its default rate runs in a separate process for as many seconds as
// -benchtime says, with a terminal's live view. Bound to one processor (taskset
// -c 0), the two shares are the watch's own work and the server's work for it.
// They are exact, but leave out the switches between processes.
func BenchmarkRealPollingAThousandKeysASecond(b *testing.B) {
	s, count, end := busy(b)
	c := startChild(b, s.Addr())
	pid := c.Process.Pid
	all := func() time.Duration { return processorTime(b, os.Getpid(), s.PID(), pid) }
	begun, had, own := asked(s), all(), processorTime(b, pid)
	done, from := count.Load(), time.Now()
	<-time.After(time.Duration(b.N) * time.Second)
	had, own = all()-had, processorTime(b, pid)-own
	did, span := asked(s), time.Since(from).Seconds()
	c.end(b)
	b.ReportMetric(float64(count.Load()-done)/span, "ops/s")
	end()
	b.ReportMetric(float64(did.looks-begun.looks)/span, "looks/s")
	b.ReportMetric(100*own.Seconds()/had.Seconds(), "%audit")
	b.ReportMetric(100*(did.took-begun.took).Seconds()/had.Seconds(), "%server")
}

// child is a watch in a separate process; see watchOf.
type child struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startChild(b *testing.B, addr string) child {
	c := child{Cmd: exec.Command(os.Args[0])}
	c.Env = append(os.Environ(), watchOf+"="+addr)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	c.in, c.out = in, bufio.NewReader(out)
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	if _, err := c.out.ReadString('\n'); err != nil {
		b.Fatal(err)
	}
	return c
}

func (c child) end(b *testing.B) {
	c.in.Close()
	var cost Cost
	if err := json.NewDecoder(c.out).Decode(&cost); err != nil {
		b.Error(err)
	}
	if err := c.Wait(); err != nil {
		b.Error(err)
	}
	b.ReportMetric(100*cost.Share, "%core-by-itself")
}

// processorTime returns the processor time that the processes have used so far.
func processorTime(b *testing.B, pids ...int) (sum time.Duration) {
	for _, pid := range pids {
		const scheduled = 2 // CPUCLOCK_SCHED, for a whole process, in ns
		var ts unix.Timespec
		if err := unix.ClockGettime(int32(^pid<<3|scheduled), &ts); err != nil {
			b.Fatal(err)
		}
		sum += time.Duration(ts.Nano())
	}
	return sum
}

// work is what the server did for a watch. Only the watch sends GETRANGE, once
// per look.
type work struct {
	looks int64
	took  time.Duration
}

func asked(s *redistest.Server) (w work) {
	text, _ := redis.String(s.Do("INFO", "commandstats"), nil)
	w.looks, _, _ = callsIn(text, "getrange")
	for _, name := range []string{"evalsha", "eval", "client|caching", "time", "scan", "client|list"} {
		_, _, took := callsIn(text, name)
		w.took += took
	}
	return w
}

// SPDX-License-Identifier: Apache-2.0

//go:build real && unix

package auditverb

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// ward is a server with locks that a fix frees, with locks that it shortens,
// and with locks that it must not touch.
type ward struct {
	*redistest.Server
	begun  time.Time
	values map[string]string
}

const (
	wardKeys  = 300              // number of keys of each kind
	wardLease = 10 * time.Minute // of the old clients; half of it outlasts the slowest run
)

func newWard(t *testing.T) *ward {
	w := &ward{Server: redistest.Real(t, redistest.Options{}), begun: time.Now(), values: map[string]string{}}
	for n := range wardKeys {
		w.put(fmt.Sprintf("lock:dead:%d", n), -time.Hour-time.Duration(n)*time.Second)
		w.put(fmt.Sprintf("lock:far:%d", n), time.Hour+time.Duration(n)*time.Second)
		w.put(fmt.Sprintf("lock:held:%d", n), wardLease/2)
	}
	return w
}

func (w *ward) put(key string, ahead time.Duration) {
	w.values[key] = strconv.FormatInt(w.begun.Add(ahead).UnixMilli(), 10)
	w.Do("SET", key, w.values[key])
}

// fixed counts the changed keys. It fails at a key that is neither unchanged
// nor wholly fixed.
func (w *ward) fixed(t *testing.T) (n int) {
	t.Helper()
	for key, was := range w.values {
		is, err := redis.String(w.Do("GET", key), nil)
		gone := err != nil
		switch kind := strings.Split(key, ":")[1]; {
		case is == was:
		case kind == "dead" && gone:
			n++
		case kind == "far" && !gone:
			n++
			stamp, err := strconv.ParseInt(is, 10, 64)
			if now := time.Now(); err != nil || time.UnixMilli(stamp).Before(w.begun.Add(wardLease)) ||
				time.UnixMilli(stamp).After(now.Add(wardLease)) {
				t.Errorf("%s holds %q, which does not end one lease after an instant between %v and %v", key,
					is, w.begun, now)
			}
		default:
			t.Errorf("%s was %s and is %q", key, was, is)
		}
	}
	if size := w.Do("DBSIZE").(int64); size > int64(len(w.values)) {
		t.Errorf("%d keys were left of %d", size, len(w.values))
	}
	return n
}

// The doctor is killed between any two commands. Each lock is then unchanged or
// wholly fixed, and the next doctor fixes the rest.
func TestKilledDoctorLeavesNoLockHalfFixed(t *testing.T) {
	program := clitest.Built(t)
	// The doctor first deletes the dead locks, by one command each. Then it
	// shortens the stamps, by two commands each, of which one asks for the
	// time.
	for _, after := range []int{1, 2, 100, wardKeys, wardKeys + 1, wardKeys + 2, wardKeys + 3, wardKeys + 4,
		2*wardKeys + 100, 3*wardKeys - 1} {
		t.Run(fmt.Sprint("after ", after), func(t *testing.T) {
			t.Parallel()
			w := newWard(t)
			w.killedAfter(t, program, after)
			n := w.fixed(t)
			if want := min(after, wardKeys) + max(0, after-wardKeys)/2; n != want {
				t.Errorf("%d were mended by %d commands, want %d", n, after, want)
			}
			if out, _ := doctorOf(program, w.URL()).CombinedOutput(); w.fixed(t) != 2*wardKeys {
				t.Errorf("the next doctor left %d of %d\n%s", 2*wardKeys-w.fixed(t), 2*wardKeys, out)
			}
		})
	}
}

func doctorOf(program, url string) *exec.Cmd {
	return exec.Command(program, "doctor", "--match", "lock:*", "--dialect", "jedis", "--lease",
		wardLease.String(), "--spread", "100ms",
		"--behind", "1s", "--ahead", "0s", "--fix", "--yes", "--quiet", "--redis", url)
}

// killedAfter kills the doctor after the server has answered that many commands
// of its fixes, and before it gets the next.
func (w *ward) killedAfter(t *testing.T, program string, commands int) {
	t.Helper()
	last, begun := redistest.NewGate(), false
	fixing := func(c redistest.Command) bool {
		begun = begun || strings.Contains(c.String(), "doctor-fix") // the script of the first fix
		return begun
	}
	wire := w.Wire(redistest.Rule{When: fixing, Nth: commands, Do: redistest.HoldReply(last)},
		redistest.Rule{When: fixing, Nth: commands + 1, Times: -1, Do: redistest.Silence})
	cmd := doctorOf(program, "redis://"+wire.Listen())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-last.Reached():
		_ = cmd.Process.Kill()
		<-ended
	case err := <-ended:
		select {
		case <-last.Reached(): // it gave up before the test could kill it
		default:
			t.Fatalf("it ended by itself: %v", err)
		}
	}
}

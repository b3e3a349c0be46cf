//go:build real && unix

package cli

import (
	"bufio"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/redistest"
)

// ward is a server with locks that a fix frees, with locks that it moves, and with such as it must not touch.
type ward struct {
	*redistest.Server
	begun  time.Time
	values map[string]string
}

const (
	wardKeys  = 300           // of each kind
	wardLease = time.Minute   // of the old clients
	wardTTL   = 2 * time.Hour // of the far ones, which a fix must leave them
)

func newWard(t *testing.T) *ward {
	w := &ward{Server: redistest.Real(t, redistest.Options{}), begun: time.Now(), values: map[string]string{}}
	for n := range wardKeys {
		w.put(fmt.Sprintf("lock:dead:%d", n), -time.Hour-time.Duration(n)*time.Second)
		w.put(fmt.Sprintf("lock:far:%d", n), time.Hour+time.Duration(n)*time.Second)
		w.put(fmt.Sprintf("lock:held:%d", n), wardLease/2)
	}
	for n := range wardKeys {
		w.Do("PEXPIRE", fmt.Sprintf("lock:far:%d", n), wardTTL.Milliseconds())
	}
	return w
}

func (w *ward) put(key string, ahead time.Duration) {
	w.values[key] = strconv.FormatInt(w.begun.Add(ahead).UnixMilli(), 10)
	w.Do("SET", key, w.values[key])
}

// fixed counts keys that were changed, and fails at one that is neither as it was nor as a whole fix leaves it.
func (w *ward) fixed(t *testing.T) (n int) {
	t.Helper()
	for key, was := range w.values {
		is, err := redis.String(w.Do("GET", key), nil)
		ttl := time.Duration(w.Do("PTTL", key).(int64)) * time.Millisecond
		gone := err != nil
		switch kind := strings.Split(key, ":")[1]; {
		case kind == "far" && !gone && (ttl <= wardTTL/2 || ttl > wardTTL):
			t.Errorf("%s lost its TTL: %v", key, ttl)
		case is == was:
		case kind == "dead" && gone:
			n++
		case kind == "far" && !gone:
			n++
			stamp, err := strconv.ParseInt(is, 10, 64)
			if now := time.Now(); err != nil || time.UnixMilli(stamp).Before(w.begun.Add(wardLease)) || time.UnixMilli(stamp).After(now.Add(wardLease)) {
				t.Errorf("%s holds %q, which does not end one lease after an instant between %v and %v", key, is, w.begun, now)
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

// Killed after it has told of so many fixes: each lock is as it was or wholly mended, and who comes next can mend
// the rest.
func TestKilledAmidItsFixesTheDoctorLeavesNoLockHalfDone(t *testing.T) {
	program := filepath.Join(t.TempDir(), "getsetlock")
	if out, err := exec.Command("go", "build", "-o", program, "../../cmd/getsetlock").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, told := range []int{0, 1, 2, 7, 60, 250, 400, 599} {
		t.Run(strconv.Itoa(told), func(t *testing.T) {
			t.Parallel()
			w := newWard(t)
			w.killedAfter(t, program, told)
			n := w.fixed(t)
			if n < told {
				t.Errorf("it told of %d fixes, and %d were made", told, n)
			}
			t.Logf("told of %d, made %d of %d", told, n, 2*wardKeys)
			out, err := w.doctor(program).CombinedOutput()
			if again := w.fixed(t); again != 2*wardKeys || err == nil && n < again {
				t.Errorf("who came next, with %d mended of %d, left %d: %v\n%s", n, 2*wardKeys, 2*wardKeys-again, err, out)
			}
		})
	}
}

func (w *ward) doctor(program string) *exec.Cmd {
	return exec.Command(program, "doctor", "--match", "lock:*", "--dialect", "jedis", "--lease", wardLease.String(), "--spread", "100ms",
		"--fix", "--yes", "--quiet", "--redis", w.URL())
}

// killedAfter kills the doctor as soon as it has told of so many fixes; after none, when it has said what it will do.
func (w *ward) killedAfter(t *testing.T, program string, told int) {
	t.Helper()
	cmd := w.doctor(program)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	begun := false
	for n := 0; lines.Scan(); {
		begun = begun || lines.Text() == "To be done:"
		if strings.HasSuffix(lines.Text(), ": done") {
			n++
		}
		if begun && n >= told {
			break
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if !begun {
		t.Fatal("it ended before it began to fix")
	}
}

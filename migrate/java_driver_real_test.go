// SPDX-License-Identifier: Apache-2.0

//go:build real

package migrate_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/operator/fleet"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// javaDriver is a JVM of testdata/java/DualDriver.java: a service with many
// leases that reports what becomes of them.
type javaDriver struct {
	t     *testing.T
	in    io.WriteCloser
	lines chan string
}

// drive starts one on the server at addr, which may be a Wire's. With a
// greatest lease it does not know how far old clients' clocks are behind the
// server's.
func drive(t *testing.T, addr, dialect string, ttl, gap time.Duration,
	greatest ...time.Duration) *javaDriver {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{filepath.Join("testdata", "java", "DualDriver.java"), host, port, dialect,
		fmt.Sprint(ttl.Milliseconds()), fmt.Sprint(gap.Milliseconds())}
	for _, d := range greatest {
		args = append(args, fmt.Sprint(d.Milliseconds()))
	}
	return driveJVM(t, args...)
}

// driveJVM starts a JVM that obeys lines on stdin.
func driveJVM(t *testing.T, args ...string) *javaDriver {
	t.Helper()
	jar := filepath.Join("..", "java", "interop", "target", "interop.jar")
	cmd := exec.Command("java", append([]string{"-cp", jar}, args...)...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d := &javaDriver{t: t, in: in, lines: make(chan string, 1024)} // more than any test lets happen
	go func() {
		defer close(d.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			d.lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		in.Close()
		for range d.lines { // Wait may only be called once all is read
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the driver: %v", err)
		}
	})
	return d
}

func (d *javaDriver) order(format string, args ...any) {
	d.t.Helper()
	if _, err := fmt.Fprintf(d.in, format+"\n", args...); err != nil {
		d.t.Fatal(err)
	}
}

// next is what happened next.
func (d *javaDriver) next() string {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(background, redistest.Patience)
	defer cancel()
	select {
	case line, ok := <-d.lines:
		if !ok {
			d.t.Fatal("the driver has ended")
		}
		return line
	case <-ctx.Done():
		d.t.Fatalf("nothing happened for %v", redistest.Patience)
	}
	return ""
}

func (d *javaDriver) expect(want string) {
	d.t.Helper()
	if got := d.next(); got != want {
		d.t.Fatalf("the driver says %q, want %q", got, want)
	}
}

// A guard is a bare number: to clients of JedisUUID that is no stamp, and the
// key is free.
func TestJavaLockRefusesADialectThatItCannotWrite(t *testing.T) {
	w := inJavaWorld(t, 10*time.Second)
	before := w.keys("*") - w.keys("gsl:lived:*")
	d := drive(t, w.server.Addr(), "JedisUUID", 30*time.Second, time.Second)
	got := d.next()
	if !strings.HasPrefix(got, "failed lock java.lang.IllegalArgumentException") ||
		!strings.Contains(got, "JedisUUID") {
		t.Errorf("a member for JedisUUID: %q", got)
	}
	if r, err := fleet.Status(background, w.pool, fleet.Options{Namespace: "stock:"}); err != nil ||
		len(r.Members) != 2 {
		t.Errorf("%v: %v; want the Go client and the Java one, with no lock", r, err)
	}
	if n := w.keys("*") - w.keys("gsl:lived:*"); n != before {
		t.Errorf("%d keys, were %d: something besides the member was written", n, before)
	}
}

// Every renewal waits for a server that does not answer. No connection breaks,
// and no onLost action ever returns.
func TestJavaReportsLossesWhileNothingAnswers(t *testing.T) {
	const leases = 20 // more than there are threads for renewals, or connections
	w := inJavaWorld(t, 10*time.Second)
	wire := w.server.Wire()
	d := drive(t, wire.Listen(), "Jedis", 6*time.Second, 500*time.Millisecond)
	d.expect("ready")
	for i := range leases {
		d.order("take stock:%d", i)
		d.expect(fmt.Sprintf("took stock:%d true", i))
	}
	wire.Fault(redistest.Rule{Times: -1, Do: redistest.Silence})
	told := make(map[string]bool)
	for range leases {
		line := d.next()
		if !strings.HasPrefix(line, "lost stock:") || !strings.HasSuffix(line, " free") || told[line] {
			t.Fatalf("the driver says %q; told so far: %d", line, len(told))
		}
		told[line] = true
	}
}

// expired leaves on the key what a client left that died a minute ago.
func (w *javaWorld) expired(key string) string {
	w.t.Helper()
	stamp := fmt.Sprint(time.Now().Add(-time.Minute).UnixMilli())
	w.server.Do("SET", key, stamp)
	return stamp
}

// until waits for what the server is to show.
func (w *javaWorld) until(what string, shown func() bool) {
	w.t.Helper()
	for end := time.Now().Add(redistest.Patience); !shown(); {
		if time.Now().After(end) {
			w.t.Fatalf("not shown: %s", what)
		}
	}
}

// stand counts those of a lock's two keys that exist. It asks by name, since a
// pattern may match a member, whose id is random.
func (w *javaWorld) stand(key string) any {
	w.t.Helper()
	return w.server.Do("EXISTS", key, "{"+key+"}:gsl")
}

// persist takes both keys' TTLs away, so that only being given back ends them.
func (w *javaWorld) persist(key string) {
	w.t.Helper()
	for _, k := range []string{key, "{" + key + "}:gsl"} {
		if n := w.server.Do("PERSIST", k); n != int64(1) {
			w.t.Fatalf("PERSIST %s: %v", k, n)
		}
	}
}

// An exception that Jedis does not throw, as from a pool that is closed or
// wrapped, ends no clean-up.
func TestJavaGivesBackWhateverIsThrownMeanwhile(t *testing.T) {
	w := inJavaWorld(t, 10*time.Second)
	d := drive(t, w.server.Addr(), "Jedis", 30*time.Second, 5*time.Second)
	d.expect("ready")
	gone := func() bool { return w.stand("stock:42") == int64(0) && w.stand("stock:43") == int64(0) }

	d.order("take stock:42")
	d.expect("took stock:42 true")
	w.persist("stock:42")
	d.order("break 3")
	d.order("release stock:42")
	d.expect("failed stock:42 IllegalStateException broken")
	w.until("a release that is tried again", gone)

	stamp := w.expired("stock:43")
	d.order("take stock:43")
	w.until("a takeover", func() bool { return w.read("stock:43") != stamp })
	w.persist("stock:43") // it settles
	d.order("break 3")
	d.order("interrupt stock:43")
	d.expect("failed stock:43 InterruptedException")
	w.until("an attempt that is undone", gone)
}

func TestJavaRenewsOnWhateverIsThrownMeanwhile(t *testing.T) {
	w := inJavaWorld(t, 10*time.Second)
	d := drive(t, w.server.Addr(), "Jedis", 6*time.Second, 500*time.Millisecond)
	d.expect("ready")
	d.order("take stock:42")
	d.expect("took stock:42 true")
	d.order("break 1")
	w.persist("stock:42")
	w.until("a renewal, which gives the keys a TTL again", func() bool {
		return w.server.Do("PTTL", "{stock:42}:gsl") != int64(-1)
	})
	d.order("release stock:42")
	d.expect("released stock:42 true")
}

// Another client's EXPIRE cuts the keys' TTLs while a takeover settles. Trust
// ends before the keys do (rule 9).
func TestJavaTrustsATakeoverNoLongerThanTheServerKeepsIt(t *testing.T) {
	w := inJavaWorld(t, 10*time.Second)
	wire := w.server.Wire()
	d := drive(t, wire.Listen(), "Jedis", 30*time.Second, 3*time.Second) // settles 3.1 s, margin 3 s
	d.expect("ready")
	takeover := func(key string, left time.Duration) {
		t.Helper()
		stamp := w.expired(key)
		d.order("take %s", key)
		w.until("a takeover", func() bool { return w.read(key) != stamp })
		for _, k := range []string{key, "{" + key + "}:gsl"} {
			w.server.Do("PEXPIRE", k, left.Milliseconds())
		}
	}

	takeover("stock:1", 5*time.Second) // less than the margin is left after the settle
	d.expect("took stock:1 false")
	w.until("an attempt that is undone", func() bool { return w.stand("stock:1") == int64(0) })

	const cut = 12 * time.Second
	takeover("stock:2", cut)
	d.expect("took stock:2 true")
	w.until("a renewal in time", func() bool {
		left, _ := w.server.Do("PTTL", "{stock:2}:gsl").(int64)
		return left > cut.Milliseconds()
	})
	d.order("release stock:2")
	d.expect("released stock:2 true")

	takeover("stock:3", cut)
	d.expect("took stock:3 true")
	wire.Fault(redistest.Rule{Times: -1, Do: redistest.Silence}) // nothing renews it
	d.expect("lost stock:3 free")
	if n := w.stand("stock:3"); n != int64(2) {
		t.Errorf("%v keys when the loss was told, want both", n)
	}
}

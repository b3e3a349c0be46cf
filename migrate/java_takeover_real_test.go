// SPDX-License-Identifier: Apache-2.0

//go:build real

package migrate_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/interop"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// Java takes over when the server's clock is past the stamp and the spread,
// even at its first look. A client that has just begun has seen no step of that
// clock.
func TestJavaTakesOverFromADeadJar(t *testing.T) {
	w := inJavaWorld(t, 10*time.Second)
	old := interop.SharedClient(t, w.server.Addr())
	if err := old.Lock(background, interop.Jar, "stock:42", 0, 2*time.Second); err != nil {
		t.Fatal(err)
	}
	w.take(old)
	if err := old.Die(background); err != nil {
		t.Fatal(err)
	}
	stamp := w.read("stock:42")
	j := w.java(10 * time.Second)
	w.take(j) // waits for 30 s at most, half of the greatest lease
	if l := w.read("stock:42"); l == stamp {
		t.Error("the dead client's stamp still stands")
	}
	if err := j.Release(background); err != nil {
		t.Fatal(err)
	}
	// Java has met an old client's stamp, so its release leaves the key to old
	// clients for a moment
	w.freed("stock:42")
}

// TestJavaTakesNoPastStampOverAtItsFirstLook where it does not know how far the
// old clients' clocks are behind the server's: the client that wrote the stamp
// may still hold the lock. Once the bytes were seen for a greatest lease, its
// lease has ended.
func TestJavaTakesNoPastStampOverAtItsFirstLook(t *testing.T) {
	const key = "stock:42"
	for greatest, again := range map[time.Duration]bool{time.Hour: false, time.Millisecond: true} {
		w := inJavaWorld(t, 10*time.Second)
		d := drive(t, w.server.Addr(), "Jedis", 30*time.Second, time.Second, greatest)
		d.expect("ready")
		w.expired(key)
		for looks := 0; ; looks++ {
			d.order("take %s", key)
			took := d.next() == "took "+key+" true"
			if took && (looks == 0 || !again) {
				t.Fatalf("taken over at look %d with a greatest lease of %v", looks+1, greatest)
			}
			if took || !again && looks == 3 {
				break
			}
		}
	}
}

// named counts the commands that name a key.
func named(key string) func(redistest.Command) bool {
	return func(c redistest.Command) bool { return slices.Contains(c, key) }
}

// jar is an old client through a wire, which gives up at once when the key is
// held.
func (w *javaWorld) jar(addr, key string) *interop.Client {
	w.t.Helper()
	c := interop.SharedClient(w.t, addr)
	if err := c.Lock(background, interop.Jar, key, 0, time.Minute); err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *javaWorld) reaches(what string, g *redistest.Gate) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(background, redistest.Patience)
	defer cancel()
	select {
	case <-g.Reached():
	case <-ctx.Done():
		w.t.Fatalf("%s never came", what)
	}
}

// Rule 1: between the look that finds a stamp expired and the takeover, the jar
// takes the stamp over. Java leaves alone what it did not judge, and leaves
// nothing on M.
func TestJavaTakesNothingOverThatChangedSinceItLooked(t *testing.T) {
	const key = "stock:42"
	w := inJavaWorld(t, 10*time.Second)
	gate := redistest.NewGate()
	wire := w.server.Wire()
	d := drive(t, wire.Listen(), "Jedis", 30*time.Second, time.Second)
	d.expect("ready")
	w.expired(key)
	wire.Fault(redistest.Rule{When: named(key), Nth: 2, Do: redistest.HoldRequest(gate)})
	d.order("take %s", key)
	w.reaches("Java's takeover", gate)
	old := w.jar(w.server.Addr(), key)
	w.take(old)
	stamp := w.read(key)
	gate.Open()
	d.expect("took " + key + " false")
	if l := w.read(key); l != stamp {
		t.Errorf("the jar holds by %q, and Java wrote %q over it", stamp, l)
	}
	if w.stand(key) != int64(1) {
		t.Error("Java's token stands beside the jar's stamp")
	}
	if err := old.Release(background); err != nil {
		t.Fatal(err)
	}
	d.order("take %s", key)
	d.expect("took " + key + " true")
	d.order("release %s", key)
	d.expect("released " + key + " true")
}

// Rule 5: a jar that had seen the same expired stamp, and paused for less than
// the gap, writes over Java's guard. Java has waited longer than that before it
// looks again, and then holds nothing.
func TestJavaThatIsWrittenOverWhileItSettlesDoesNotHold(t *testing.T) {
	const key, ttl, gap = "stock:42", 30 * time.Second, time.Second
	w := inJavaWorld(t, 10*time.Second)
	paused, looks := redistest.NewGate(), redistest.NewGate()
	oldWire := w.server.Wire(redistest.Rule{Command: "GETSET", Do: redistest.HoldRequest(paused)})
	wire := w.server.Wire()
	d := drive(t, wire.Listen(), "Jedis", ttl, gap)
	d.expect("ready")
	stamp := w.expired(key)
	old, err := w.jar(oldWire.Listen(), key).BeginAcquire()
	if err != nil {
		t.Fatal(err)
	}
	w.reaches("the jar's GETSET", paused)
	wire.Fault(redistest.Rule{When: named(key), Nth: 3, Do: redistest.HoldRequest(looks)})
	d.order("take %s", key)
	w.reaches("Java's second look", looks)
	if guard := w.read(key); guard == stamp {
		t.Error("Java looks again before it took the key over")
	}
	// By the server's clock, which began to count when it executed the
	// takeover.
	if left, _ := w.server.Do("PTTL", "{"+key+"}:gsl").(int64); left >= (ttl - gap).Milliseconds() {
		t.Errorf("the token has %d ms left: Java looks again before the gap is over", left)
	}
	paused.Open()
	if got, err := old.Wait(background); err != nil || got.Won {
		t.Fatalf("the jar, whose GETSET came after Java's: %+v, %v", got, err)
	}
	left := w.read(key)
	looks.Open()
	d.expect("took " + key + " false")
	w.until("that the token is given back", func() bool { return w.stand(key) == int64(1) })
	if l := w.read(key); l != left {
		t.Errorf("the jar left %q, and Java made %q of it", left, l)
	}
}

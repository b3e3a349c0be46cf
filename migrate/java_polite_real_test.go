// SPDX-License-Identifier: Apache-2.0

//go:build real

package migrate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/polite"
)

// A key that a release left is held by nobody: Java waits for the rest of the
// gap. It leaves the key itself once it has met an old client.
func TestJavaLeavesTheKeyAndTakesAGapForNobody(t *testing.T) {
	const key, m = "stock:42", "{stock:42}:gsl"
	w := inJavaWorld(t, 10*time.Second)
	wire := w.server.Wire()
	d := drive(t, wire.Listen(), "Jedis", 30*time.Second, time.Second)
	d.expect("ready")
	w.server.Do("SET", m, "left nobody", "PX", "60000")
	d.order("take %s", key)
	d.expect("took " + key + " false")
	w.server.Do("SET", m, polite.Value(strings.Repeat("A", 22)), "PX", "200")
	d.order("take %s", key)
	d.expect("took " + key + " true")
	d.order("release %s", key)
	d.expect("released " + key + " true")

	w.server.Do("DEL", m)
	old := w.jar(w.server.Addr(), key)
	w.take(old)
	d.order("take %s", key)
	d.expect("took " + key + " false")
	if err := old.Release(background); err != nil {
		t.Fatal(err)
	}
	d.order("take %s", key)
	d.expect("took " + key + " true")
	wire.Forget()
	d.order("release %s", key)
	d.expect("released " + key + " true")
	left := 0
	for _, c := range wire.Sent() {
		if (c.Is("EVAL") || c.Is("EVALSHA")) && len(c) > 2 && c[len(c)-1] == "145" {
			left++
		}
	}
	if left == 0 {
		t.Errorf("beside an old client that was seen, Java sent %q", wire.Sent())
	}
}

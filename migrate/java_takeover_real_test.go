//go:build real

package migrate

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/interop"
)

// After the stamp and the spread by the server's clock, at the first look already: a client that has only begun
// has seen no step of that clock.
func TestJavaTakesOverFromADeadJar(t *testing.T) {
	w := inJavaWorld(t, 10*time.Second)
	old := interop.SharedClient(t, w.server.Addr())
	if err := old.Lock(bg, interop.Jar, "stock:42", 0, 2*time.Second); err != nil {
		t.Fatal(err)
	}
	w.take(old)
	if err := old.Die(bg); err != nil {
		t.Fatal(err)
	}
	stamp := w.read("stock:42")
	j := w.java(10 * time.Second)
	w.take(j) // waits for 30 s at most, half of the greatest lease
	if l := w.read("stock:42"); l == stamp {
		t.Error("the dead client's stamp still stands")
	}
	if err := j.Release(bg); err != nil {
		t.Fatal(err)
	}
	if n := w.keys("*stock:42*"); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

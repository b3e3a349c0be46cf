package modern_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

const unknown = "ERR unknown command"

// tried makes b find out which compare commands its server has. The first use
// sends no probe.
func tried(t *testing.T, b *modern.Backend) {
	t.Helper()
	for range 2 {
		if deleted, err := b.ForceRelease(bg, "nobody's", "no token"); deleted || err != nil {
			t.Fatalf("deleted %v, error %v", deleted, err)
		}
	}
	synctest.Wait()
}

// TestBackendUsesTheServersOwnCompareCommands runs on the embedded server,
// which has DELEX and lacks SET … IFEQ. The tests of real servers count
// Valkey's.
func TestBackendUsesTheServersOwnCompareCommands(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b, wire := on(t, w, modern.Config{})
		tried(t, b)
		wire.Forget()
		for range 3 {
			g := try(t, b, "k")
			for range 3 {
				if _, err := g.Extend(bg, ttl); err != nil {
					t.Fatal(err)
				}
			}
			free(t, g)
		}
		ifeq := 0
		for _, c := range wire.Sent() {
			if c.Is("SET") && len(c) > 4 && c[3] == "IFEQ" {
				ifeq++
			}
		}
		if ifeq != 0 || wire.Count("DELEX") != 3 || wire.Count("EVALSHA") != 9 {
			t.Errorf("SET … IFEQ was sent %d times, DELEX %d, scripts %d", ifeq, wire.Count("DELEX"),
				wire.Count("EVALSHA"))
		}
	})
}

// A server without memory refuses SET before it checks whether it has IFEQ.
func TestFullServerRenewsByScript(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b, wire := on(t, w, modern.Config{})
		g := try(t, b, "k")
		wire.Fault(redistest.Rule{Command: "SET", Times: -1, Do: redistest.Answer(redistest.OOM)})
		for range 2 {
			w.Pass(ttl / 2)
			if _, err := g.Extend(bg, ttl); err != nil {
				t.Fatal(err)
			}
			if left := w.Mini.TTL("k"); left != ttl {
				t.Errorf("%v are left of %v", left, ttl)
			}
		}
		free(t, g)
	})
}

// A release needs no memory.
func TestKeyIsReleasedIfAFullServerCannotPassItOn(t *testing.T) {
	for name, cfg := range map[string]modern.Config{"plain": {}, "fence": {Fence: true}} {
		bubble(t, func(t *testing.T, w *redistest.World) {
			b, wire := on(t, w, cfg)
			c, err := lock.New(b, lock.Config{LocalHandOvers: -1})
			if err != nil {
				t.Fatal(err)
			}
			first, err := c.Acquire(bg, "k")
			if err != nil {
				t.Fatal(err)
			}
			next := c.Request(bg, "k")
			synctest.Wait()
			wire.Fault(redistest.Rule{Command: "SET", Do: redistest.Answer(redistest.OOM)},
				redistest.Rule{Command: "EVALSHA", Do: redistest.Answer(redistest.OOM)})
			if err := first.Release(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			got := <-next
			if got.Err != nil {
				t.Fatalf("%s: %v", name, got.Err)
			}
			if err := got.Lease.Release(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if err := c.Close(bg); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestDelexOnAnotherTypeIsALoss(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		// The embedded server uses other words for it than Redis.
		b, wire := on(t, w, modern.Config{})
		tried(t, b)
		wire.Fault(redistest.Rule{Command: "DELEX",
			Do: redistest.Answer("ERR Key should be of string type if conditions are specified")})
		g := try(t, b, "k")
		w.Mini.Del("k")
		w.Mini.Push("k", "x")
		if err := g.Release(bg); !errors.Is(err, lock.ErrLost) {
			t.Errorf("Release: %v", err)
		}
		w.Mini.Del("k")
	})
}

func TestAnyOtherValueOnTheKeyIsALoss(t *testing.T) {
	for name, cfg := range forms {
		for what, put := range map[string]func(*redistest.World){
			"nothing": func(*redistest.World) {},
			"list":    func(w *redistest.World) { w.Mini.Push("k", "x") },
			"longer":  func(w *redistest.World) { w.Mini.Set("k", "x") },
		} {
			for _, refusal := range []string{"", unknown} {
				bubble(t, func(t *testing.T, w *redistest.World) {
					b, wire := on(t, w, cfg)
					tried(t, b)
					if refusal != "" {
						wire.Fault(redistest.Rule{Command: "DELEX", Times: -1, Do: redistest.Answer(refusal)})
					}
					lost := func(how string, err error) {
						t.Helper()
						if !errors.Is(err, lock.ErrLost) {
							t.Errorf("%s, %s, %q: %s: %v; it should wrap ErrLost", name, what, refusal, how,
								err)
						}
					}
					for range 2 { // the second time it no longer tries what the server lacks
						one, two, three := try(t, b, "k"), try(t, b, "l"), try(t, b, "m")
						token := one.Token()
						w.Mini.Del("k")
						if put(w); what == "longer" {
							w.Mini.Set("k", token+"x") // begins with the grant's token
						}
						_, err := one.Extend(bg, ttl)
						lost("Extend", err)
						_, errs := b.ExtendAll(bg, []lock.Grant{two, one, three}, ttl)
						lost("ExtendAll", errs[1])
						if errs[0] != nil || errs[2] != nil {
							t.Errorf("the others of the batch: %v, %v", errs[0], errs[2])
						}
						lost("Release", one.Release(bg))
						if deleted, err := b.ForceRelease(bg, "k", token); deleted || err != nil {
							t.Errorf("ForceRelease: %v, %v", deleted, err)
						}
						if what != "nothing" && !w.Mini.Exists("k") {
							t.Error("another client's key was deleted")
						}
						free(t, two)
						free(t, three)
						w.Mini.Del("k")
					}
				})
			}
		}
	}
}

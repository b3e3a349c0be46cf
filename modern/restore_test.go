// SPDX-License-Identifier: Apache-2.0

package modern

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// The restored TTL may reach the server after a renewal. The holder then trusts
// the key for longer than that TTL.
func TestRestoreNeverShortensATTL(t *testing.T) {
	const ttl, left = 30 * time.Second, 20 * time.Second
	for name, c := range map[string]struct{ set, want time.Duration }{
		"shortened":       {2 * time.Second, left},
		"renewed since":   {ttl, ttl},
		"taken away":      {0, 0},
		"as it should be": {left, left},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := redistest.Bubble(t)
				b, err := New(w.Pool(), Config{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { b.Close() })
				granted, err := b.Contract().Try(t.Context(), "k", ttl)
				if err != nil {
					t.Fatal(err)
				}
				g := granted.(*grant)
				before := g.Term()
				if c.set == 0 {
					s := w.Pool().Get()
					if _, err := s.Do("PERSIST", "k"); err != nil {
						t.Fatal(err)
					}
					s.Close()
				} else {
					w.Mini.SetTTL("k", c.set)
				}
				_ = g.restore(t.Context(), left) // this server reports no changes
				if got := w.Mini.TTL("k"); got != c.want {
					t.Errorf("the key has %v left; want %v", got, c.want)
				}
				if after := g.Term(); after != before {
					t.Errorf("trust moved from %v to %v", before, after)
				}
				if err := g.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// SPDX-License-Identifier: Apache-2.0

package modern_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/modern"
)

// The server refuses the whole script; the other keys must be renewed all the
// same.
func TestKeyWithoutRightsFailsOnlyItsOwnRenewal(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b, wire := on(t, w, modern.Config{})
		var grants []backend.Grant
		for _, key := range []string{"one", "refused", "two"} {
			grants = append(grants, try(t, b, key))
		}
		if _, errs := b.Contract().(backend.BatchExtender).ExtendAll(bg, grants,
			ttl); slices.ContainsFunc(errs,
			func(err error) bool { return err != nil }) {
			t.Fatal(errs)
		}
		wire.Fault(redistest.Rule{Times: -1, Do: redistest.Answer(redistest.NoPerm),
			When: func(c redistest.Command) bool {
				return (c.Is("EVALSHA") || c.Is("EVAL")) && slices.Contains(c, "refused")
			}})
		w.Pass(ttl / 2)
		terms, errs := b.Contract().(backend.BatchExtender).ExtendAll(bg, grants, ttl)
		for i, g := range []string{"one", "refused", "two"} {
			if refused := g == "refused"; refused != (errs[i] != nil) || refused == (terms[i].TTL == ttl) {
				t.Errorf("%s: %v, %v", g, terms[i], errs[i])
			}
			if left := w.Mini.TTL(g); (left == ttl) == (g == "refused") {
				t.Errorf("%s has %v left", g, left)
			}
		}
		wire.Calm()
		for _, g := range grants {
			free(t, g)
		}
	})
}

func TestKeysOfGetsetlockAreRefused(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b := open(t, w, modern.Config{Fence: true})
		if _, err := b.Contract().Try(bg, "gsl:fence:", ttl); err == nil ||
			!strings.Contains(err.Error(), "another name") {
			t.Error(err)
		}
		free(t, try(t, b, "k"))
	})
}

// SPDX-License-Identifier: Apache-2.0

package modern_test

import (
	"errors"
	"testing"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/modern"
)

func TestAnyOtherValueOnTheKeyIsALoss(t *testing.T) {
	for what, put := range map[string]func(w *redistest.World, token string){
		"nothing": func(*redistest.World, string) {},
		"list":    func(w *redistest.World, _ string) { w.Mini.Push("k", "x") },
		"longer":  func(w *redistest.World, token string) { w.Mini.Set("k", token+"x") },
	} {
		inForms(t, func(t *testing.T, w *redistest.World, cfg modern.Config) {
			b := open(t, w, cfg)
			lost := func(how string, err error) {
				t.Helper()
				if !errors.Is(err, lock.ErrLost) {
					t.Errorf("%s: %s: %v; it should wrap ErrLost", what, how, err)
				}
			}
			one, two, three := try(t, b, "k"), try(t, b, "l"), try(t, b, "m")
			w.Mini.Del("k")
			put(w, one.Token())
			_, err := one.Extend(bg, ttl)
			lost("Extend", err)
			batch := b.Contract().(backend.BatchExtender)
			_, errs := batch.ExtendAll(bg, []backend.Grant{two, one, three}, ttl)
			lost("ExtendAll", errs[1])
			if errs[0] != nil || errs[2] != nil {
				t.Errorf("the others of the batch: %v, %v", errs[0], errs[2])
			}
			lost("Release", one.Release(bg))
			if deleted, err := b.ForceRelease(bg, "k", one.Token()); deleted || err != nil {
				t.Errorf("ForceRelease: %v, %v", deleted, err)
			}
			if what != "nothing" && !w.Mini.Exists("k") {
				t.Error("another client's key was deleted")
			}
			free(t, two)
			free(t, three)
			w.Mini.Del("k")
		})
	}
}

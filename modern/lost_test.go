// SPDX-License-Identifier: Apache-2.0

package modern_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/modern"
)

func TestBackendLooksAtOnlyAFewOfManyLostKeys(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		b := open(t, w, modern.Config{})
		var grants []backend.Grant
		for i := range 600 { // more than one script renews
			grants = append(grants, try(t, b, fmt.Sprint("k", i)))
			if i%3 > 0 {
				w.Mini.Del(fmt.Sprint("k", i))
			}
		}
		_, errs := b.Contract().(backend.BatchExtender).ExtendAll(bg, grants, ttl)
		lost, seen := 0, 0
		for i, g := range grants {
			if i%3 == 0 {
				if errs[i] != nil {
					t.Errorf("k%d: %v", i, errs[i])
				}
				free(t, g)
				continue
			}
			var e *modern.LostError
			if errors.As(errs[i], &e) && errors.Is(errs[i], lock.ErrLost) {
				lost++
				if e.Seen != nil {
					seen++
				}
			}
		}
		if lost != 400 || seen == 0 || seen > 8 {
			t.Errorf("%d lost, %d looked at", lost, seen)
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"errors"
	"testing"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/locktest"
)

func TestInspectNamesABackendThatCannot(t *testing.T) {
	c := newClient(t, locktest.NewStore(lock.Machine).Backend(), lock.Config{})
	defer c.Close(t.Context())
	if _, err := c.Inspect(t.Context(), "k"); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	if _, err := c.ForceRelease(t.Context(), "k", "v"); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}

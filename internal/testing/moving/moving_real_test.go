// SPDX-License-Identifier: Apache-2.0

//go:build real

package moving

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/lock/locktest"
)

// The fleet moves to a store in memory whose keys live as long as a session.
func TestFleetMovesToASessionStore(t *testing.T) {
	t.Parallel()
	store := locktest.NewStore(lock.Machine)
	Move(t, func() backend.Store {
		b, _ := store.Session(20 * time.Second)
		return b
	}, func() {})
}

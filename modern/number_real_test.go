// SPDX-License-Identifier: Apache-2.0

//go:build real

package modern_test

import (
	"fmt"
	"testing"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

// TestNumbersIncreaseOnEveryServer lets two processes draw in turn. Their own
// clocks stand still, and do not matter.
func TestNumbersIncreaseOnEveryServer(t *testing.T) {
	for _, binary := range redistest.Servers(t) {
		t.Run(binary.Name, func(t *testing.T) {
			s := binary.Start(t, redistest.Options{})
			still := redistest.New(t).Clock(redistest.Skew{})
			var clients []*lock.Client
			for range 2 {
				b, err := modern.New(s.Pool(), modern.Config{Fence: true})
				if err != nil {
					t.Fatal(err)
				}
				clients = append(clients, client(t, b, lock.Config{Clock: still}))
			}
			last := int64(0)
			for i := range 30 {
				l := acquire(t, clients[i%3%2], fmt.Sprint("k", i%4))
				fence, ok := l.Fence()
				if !ok || fence <= last {
					t.Errorf("%d after %d", fence, last)
				}
				last = fence
				if err := l.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

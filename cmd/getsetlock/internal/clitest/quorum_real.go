// SPDX-License-Identifier: Apache-2.0

//go:build real && unix

package clitest

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// RealVoters starts real servers that vote at once.
func RealVoters(t *testing.T, n int) (all []*redistest.Server) {
	t.Helper()
	var names []string
	for range n {
		all = append(all, redistest.Real(t, redistest.Options{}))
		names = append(names, all[len(all)-1].Addr())
	}
	for i, s := range all {
		c := s.Pool().Get()
		if err := redistest.Seat(c.Do, names[i], names, out.GreatestTTL); err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	return all
}

// Until waits until a server shows that something is so.
func Until(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(redistest.Patience); !so(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("gave up: %s", what)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package clitest

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// Voter is an embedded server that can be a member of a quorum.
type Voter struct {
	*redistest.World
	run string
}

// Restarts lets the server be in another run, with its keys.
func (v *Voter) Restarts() {
	v.run += "-again"
	v.Says()
}

// Says lets INFO of the server show other fields: name, value, name, value …
func (v *Voter) Says(pairs ...string) {
	fields := map[string]string{"run_id": v.run}
	for i := 0; i < len(pairs); i += 2 {
		maps.Copy(fields, map[string]string{pairs[i]: pairs[i+1]})
	}
	v.Info(fields)
}

// Seat lets the server vote at once.
func (v *Voter) Seat(name string, names []string) {
	c := v.Pool().Get()
	defer c.Close()
	if err := redistest.Seat(c.Do, name, names, out.GreatestTTL); err != nil {
		panic(err)
	}
}

// Quorum returns a stage whose variable names several servers that vote, and
// the servers.
func Quorum(t *testing.T, n int) (*Stage, []*Voter) {
	s := NewStage(t)
	var all []*Voter
	var urls, names []string
	for i := range n {
		w := s.World
		if i > 0 {
			w = redistest.New(t)
		}
		v := &Voter{w, fmt.Sprintf("run-%d", i+1)}
		v.Says()
		all, urls, names = append(all, v), append(urls, w.URL()), append(names, w.Addr())
	}
	for i, v := range all {
		v.Seat(names[i], names)
	}
	s.Vars["GETSETLOCK_REDIS"] = strings.Join(urls, " ")
	return s, all
}

// Vote sets a value with a TTL on servers.
func Vote(t *testing.T, key, value string, ttl time.Duration, servers ...*Voter) {
	t.Helper()
	for _, w := range servers {
		if err := w.Mini.Set(key, value); err != nil {
			t.Fatal(err)
		}
		w.Mini.SetTTL(key, ttl)
	}
}

// SPDX-License-Identifier: Apache-2.0

package look

import (
	"testing"
	"time"
)

// Each row is a look and a later one. Only the two readings decide.
func TestAgeUsesTheClockThatRanLess(t *testing.T) {
	const s = time.Second
	at := func(server, up time.Duration, run, boot string) Reading {
		return Reading{Server: 1e9*s + server, Run: run, Boot: boot, Up: up}
	}
	for _, c := range []struct {
		name         string
		before, now  Reading
		age          time.Duration
		incomparable bool
		slack        time.Duration
	}{
		{name: "one machine", before: at(0, 5*s, "r", "a"), now: at(60*s, 65*s, "r", "a"), age: 60 * s,
			slack: 9 * s},
		{name: "server runs fast", before: at(0, 0, "r", "a"), now: at(60*s, 59*s, "r", "a"), age: 59 * s},
		{name: "machine runs fast", before: at(0, 0, "r", "a"), now: at(59*s, 60*s, "r", "a"), age: 59 * s},
		{name: "at the bound of disagreement", before: at(0, 0, "r", "a"),
			now: at(61060*time.Millisecond, 60*s, "r", "a"), age: 60 * s},
		{name: "beyond that bound", before: at(0, 0, "r", "a"),
			now: at(61062*time.Millisecond, 60*s, "r", "a"), incomparable: true},
		{name: "server set back", before: at(0, 0, "r", "a"), now: at(-s, 60*s, "r", "a"),
			incomparable: true},
		{name: "machine restarted", before: at(0, 60*s, "r", "a"), now: at(60*s, 0, "r", "a"),
			incomparable: true},
		{name: "another run", before: at(0, 0, "r", "a"), now: at(60*s, 60*s, "q", "a"), incomparable: true},
		{name: "server without a run id", before: at(0, 0, "", "a"), now: at(60*s, 60*s, "", "a"),
			age: 60 * s},
		{name: "server has a run id only later", before: at(0, 0, "", "a"), now: at(60*s, 60*s, "r", "a"),
			incomparable: true},
		{name: "two machines", before: at(0, 0, "r", "a"), now: at(60*s, 900*s, "r", "b"), age: 51 * s,
			slack: 3 * s},
		{name: "two machines, too soon", before: at(0, 0, "r", "a"), now: at(3*s, 900*s, "r", "b"), age: 0,
			slack: 3 * s},
		{name: "machines without a boot id", before: at(0, 0, "r", ""), now: at(60*s, 0, "r", ""),
			age: 54 * s},
		{name: "two machines, no run id", before: at(0, 0, "", "a"), now: at(60*s, 60*s, "", "b"), age: 0},
	} {
		age, comparable := c.before.Age(c.now, c.slack)
		if age != c.age || comparable == c.incomparable {
			t.Errorf("%s: %v, comparable %v; want %v, %v", c.name, age, comparable, c.age, !c.incomparable)
		}
	}
}

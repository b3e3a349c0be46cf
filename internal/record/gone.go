// SPDX-License-Identifier: Apache-2.0

package record

import (
	"fmt"
	"strings"
	"time"
)

// Gone counts members that have been silent for a week and whose leases are
// over. It is a field of the roster, and blocks like one vanished member.
type Gone struct {
	Count       int64
	First, Last time.Time // earliest and latest of their last heartbeats, by the server's clock
	Phase       string    // lowest phase that one of them acted by
	Names       []string  // names of the last ones
}

var goneWords = []string{"count", "first", "last", "phase", "names"}

// String is the text on the wire.
func (g Gone) String() string {
	names := make([]string, len(g.Names))
	for i, name := range g.Names {
		names[i] = Word(name)
	}
	return Line(goneWords, []string{
		fmt.Sprint(g.Count), Instant(g.First), Instant(g.Last), Word(g.Phase), strings.Join(names, ",")})
}

// ParseGone reads what [Gone.String] writes and nothing else.
func ParseGone(text string) (Gone, error) {
	f, err := Words(text, goneWords...)
	if err != nil {
		return Gone{}, err
	}
	var in Reader
	g := Gone{Count: in.Number(f[0]), First: in.Instant(f[1]), Last: in.Instant(f[2]), Phase: in.Word(f[3])}
	for _, name := range strings.Split(f[4], ",") {
		g.Names = append(g.Names, in.Word(name))
	}
	if in.Err == nil && g.String() != text {
		in.Bad("gone", text)
	}
	return g, in.Err
}

// Over is when no lease can run any more of a member that has been silent since
// its last heartbeat. By then it has stopped renewing leases, and the last one
// has ended. For a member that said when its last lease ends, it is that time.
func Over(seen, leaving time.Time, renews, ttl time.Duration) time.Time {
	if !leaving.IsZero() {
		return leaving
	}
	return seen.Add(renews + ttl + Late)
}

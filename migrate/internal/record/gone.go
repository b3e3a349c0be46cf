package record

import (
	"fmt"
	"strings"
	"time"
)

// Gone is what is left of members that have been silent for a week and whose
// leases are over: a field of the roster that blocks like one vanished member.
type Gone struct {
	Count       int64
	First, Last time.Time // their last heartbeats, by the server's clock
	Phase       string    // the lowest that one of them acted by
	Names       []string  // the last of them
}

var goneWords = []string{"count", "first", "last", "phase", "names"}

// String is the field as it stands on the wire.
func (g Gone) String() string {
	names := make([]string, len(g.Names))
	for i, name := range g.Names {
		names[i] = Word(name)
	}
	return Line(goneWords, []string{fmt.Sprint(g.Count), Instant(g.First), Instant(g.Last), Word(g.Phase), strings.Join(names, ",")})
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

// Over is when no lease of a member can run any more that was silent since its
// last heartbeat: it renewed leases for a while, and the last of them has ended.
// A member that said when its last lease ends is believed.
func Over(seen, leaving time.Time, renews, ttl time.Duration) time.Time {
	if !leaving.IsZero() {
		return leaving
	}
	return seen.Add(renews + ttl + Late)
}

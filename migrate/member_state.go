// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/record"
)

// MemberState is what a member says of itself on the server.
type MemberState struct {
	ID      string
	Name    string // for people: host, program
	Host    string // the machine's name
	Dialect string // what its old clients write

	// Epoch is the epoch of the newest record that it read; 0 if it never read
	// one.
	Epoch int64
	Phase Phase         // phase it acts by; NoPhase: it takes no lock
	Seen  time.Time     // time of its last heartbeat, by the server's clock
	Every time.Duration // time between its heartbeats

	// Renews is how long it renews its leases after its last answered
	// heartbeat.
	Renews time.Duration

	// Since is when it joined. Leaving is when the last lock of a member has
	// ended that left it to its TTL. Both are by the server's clock. Zero means
	// unknown, and not leaving.
	Since, Leaving time.Time

	// TTL is the longest lease that it asks for, told before it takes one.
	TTL time.Duration
	// First is the longest lease that it takes before phase modern: TTL, or
	// less with [Config].LongLeases.
	First  time.Duration
	Leases map[Phase]int // number of running leases by the phase under which they were taken

	// Behind and Ahead are the bounds by which it judges old clients' clocks,
	// with the steps of the server's clock that it saw. They are as in
	// [dialect.Terms], where unset is unknown.
	Behind, Ahead time.Duration

	// Target names what it composes all its locks with; empty: none.
	Target string

	// Probe is the result of running its scripts on its probe key: "ok", an
	// error, or empty where they have not run.
	Probe string

	// Sight is what it saw of the target that it composes with: the id of the
	// member whose acquisition refused one by this member's own connection, its
	// own id if its acquisition is the one that refuses others, or empty.
	Sight string
}

var memberWords = []string{
	"id", "name", "host", "dialect", "epoch", "phase", "every", "renews", "ttl", "first", "leases", "behind",
	"ahead", "probe", "sight", "since", "leaving", "seen",
}

// head is the text on the wire up to the time, which the server adds.
func (s MemberState) head() string {
	values := []string{
		record.Word(s.ID), record.Word(s.Name), record.Word(s.Host), record.Word(s.Dialect),
		fmt.Sprint(s.Epoch), s.Phase.String(),
		record.Millis(s.Every), record.Millis(s.Renews), record.Millis(s.TTL),
		record.Millis(s.First), leasesText(s.Leases), boundText(s.Behind), boundText(s.Ahead),
		record.Word(s.Probe), record.Word(s.Sight),
		record.MaybeInstant(s.Since), record.MaybeInstant(s.Leaving), "",
	}
	return targetLine(memberWords, values, len(memberWords)-1, s.Target)
}

// String is the text on the wire.
func (s MemberState) String() string { return s.head() + record.Instant(s.Seen) }

// boundText is a field of [dialect.Terms] in whole milliseconds; "-" is
// unknown. It rounds down, so that a member never claims to allow for more than
// it does.
func boundText(field time.Duration) string {
	d, known := dialect.Claimed(field)
	if !known {
		return "-"
	}
	return strconv.FormatInt(d.Milliseconds(), 10)
}

func readBound(r *record.Reader, text string) time.Duration {
	if text == "-" {
		return 0
	}
	return dialect.Claim(r.Millis(text))
}

// leasesText lists counts by phase in the order of the phases, as in
// "observe:2,dual:1"; "-" is none.
func leasesText(leases map[Phase]int) string {
	var parts []string
	for _, p := range Phases() {
		if n := leases[p]; n > 0 {
			parts = append(parts, fmt.Sprintf("%v:%d", p, n))
		}
	}
	if len(parts) == 0 {
		return "-"
	}
	return strings.Join(parts, ",")
}

func readLeases(r *record.Reader, text string) map[Phase]int {
	leases := map[Phase]int{}
	if text == "-" {
		return leases
	}
	for _, part := range strings.Split(text, ",") {
		name, count, _ := strings.Cut(part, ":")
		leases[readPhase(r, name)] = int(r.Number(count))
	}
	if leasesText(leases) != text {
		r.Bad("leases", text)
	}
	return leases
}

// ParseMember reads what [MemberState.String] writes and nothing else.
func ParseMember(text string) (MemberState, error) {
	f, target, err := targetWords(text, memberWords, len(memberWords)-1)
	if err != nil {
		return MemberState{}, err
	}
	var in record.Reader
	s := MemberState{
		ID: in.Word(f[0]), Name: in.Word(f[1]), Host: in.Word(f[2]), Dialect: in.Word(f[3]),
		Epoch: in.Number(f[4]), Phase: readPhase(&in, f[5]),
		Every: in.Millis(f[6]), Renews: in.Millis(f[7]), TTL: in.Millis(f[8]), First: in.Millis(f[9]),
		Leases: readLeases(&in, f[10]), Behind: readBound(&in, f[11]), Ahead: readBound(&in, f[12]),
		Probe: in.Word(f[13]), Sight: in.Word(f[14]),
		Since: in.MaybeInstant(f[15]), Leaving: in.MaybeInstant(f[16]), Seen: in.Instant(f[17]),
		Target: in.Word(target),
	}
	if in.Err == nil && s.String() != text {
		in.Bad("member", text)
	}
	return s, in.Err
}

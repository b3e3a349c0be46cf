package migrate

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/legacy/dialect"
)

// MemberState is what a member says of itself, as it stands on the server.
type MemberState struct {
	ID      string
	Name    string // for people: host, program
	Dialect string // that it writes

	// Epoch is of the newest record that it read; 0 if it never read one.
	Epoch int64
	Phase Phase         // by which it acts; NoPhase: it takes no lock
	Seen  time.Time     // of its last heartbeat, by the server's clock
	Every time.Duration // how far its heartbeats are apart

	// TTL is the longest lease that it asked for since it joined.
	TTL    time.Duration
	Leases map[Phase]int // still running, by the phase under which they were taken; none is left out

	// Behind and Ahead are by which it judges old clients' clocks, what it saw of
	// the server's steps included; as in [dialect.Terms], where unset is unknown.
	Behind, Ahead time.Duration

	// Probe is what came of running its scripts on its probe key: empty while it has not, "ok", or what
	// went wrong.
	Probe string

	err   error // it cannot be read
	bytes string
}

// probeOK is Probe where all went well.
const probeOK = "ok"

// beatsMissed is how many heartbeats may fail to come before a member counts as vanished.
const beatsMissed = 3

var memberWords = []string{"id", "name", "dialect", "epoch", "phase", "every", "ttl", "leases", "behind", "ahead", "probe", "seen"}

// head is the state as it stands on the wire, up to the time, which the server adds.
func (s MemberState) head() string {
	values := []string{
		wordText(s.ID), wordText(s.Name), wordText(s.Dialect), fmt.Sprint(s.Epoch), s.Phase.String(),
		millisText(s.Every), millisText(s.TTL), leasesText(s.Leases), boundText(s.Behind), boundText(s.Ahead), wordText(s.Probe), "",
	}
	var b strings.Builder
	b.WriteString(wireVersion)
	for i, name := range memberWords {
		b.WriteString(" " + name + "=" + values[i])
	}
	return b.String()
}

// String is the state as it stands on the wire.
func (s MemberState) String() string { return s.head() + instantText(s.Seen) }

// boundText is a field of [dialect.Terms] in whole milliseconds; "-" is unknown.
// What is less than a millisecond is cut: a member never says that it allows for
// more than it does.
func boundText(field time.Duration) string {
	d, known := dialect.Claimed(field)
	if !known {
		return "-"
	}
	return strconv.FormatInt(d.Milliseconds(), 10)
}

func (r *reader) bound(text string) time.Duration {
	if text == "-" {
		return 0
	}
	return dialect.Claim(r.millis(text))
}

// leasesText lists counts by phase in the order of the phases, as in "observe:2,dual:1"; "-" is none.
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

func (r *reader) leases(text string) map[Phase]int {
	leases := map[Phase]int{}
	if text == "-" {
		return leases
	}
	for _, part := range strings.Split(text, ",") {
		name, count, _ := strings.Cut(part, ":")
		leases[r.phase(name)] = int(r.number(count))
	}
	if leasesText(leases) != text {
		r.bad("leases", text)
	}
	return leases
}

// parseMember reads what String writes and nothing else.
func parseMember(text string) (MemberState, error) {
	f, err := words(text, memberWords...)
	if err != nil {
		return MemberState{}, err
	}
	var in reader
	s := MemberState{
		ID: in.word(f[0]), Name: in.word(f[1]), Dialect: in.word(f[2]), Epoch: in.number(f[3]), Phase: in.phase(f[4]),
		Every: in.millis(f[5]), TTL: in.millis(f[6]), Leases: in.leases(f[7]), Behind: in.bound(f[8]), Ahead: in.bound(f[9]),
		Probe: in.word(f[10]), Seen: in.instant(f[11]),
	}
	if in.err == nil && s.String() != text {
		in.bad("member", text)
	}
	return s, in.err
}

// vanished reports that heartbeats failed to come.
func (s MemberState) vanished(serverNow time.Time) bool {
	return serverNow.Sub(s.Seen) > beatsMissed*s.Every+time.Second
}

// ahead reports that a heartbeat lies in the future: the server's clock was set back.
func (s MemberState) ahead(serverNow time.Time) bool { return s.Seen.Sub(serverNow) > time.Second }

// outlived reports that no lease of a member that stopped at its last heartbeat can still run. A lease
// may have been taken right after that heartbeat, so one more of them is waited for.
func (s MemberState) outlived(serverNow time.Time) bool {
	return serverNow.Sub(s.Seen) > s.TTL+s.Every
}

// who names a member for people.
func (s MemberState) who() string {
	if s.Name == "" {
		return s.ID
	}
	return s.ID + " (" + s.Name + ")"
}

func sortMembers(all []MemberState) {
	sort.Slice(all, func(i, j int) bool { return all[i].ID < all[j].ID })
}

package audit

import (
	"time"

	"github.com/getsetlock/getsetlock/legacy/dialect"
)

// Conduct is what a client does with a value that stands on the key it wants.
type Conduct string

// The conducts.
const (
	ConductWaits    Conduct = "waits"    // it takes the value for a live lock
	ConductTakes    Conduct = "takes"    // it takes the value for an expired lock, and its GETSET wins
	ConductClobbers Conduct = "clobbers" // its GETSET overwrites the value, and does not win
	ConductThrows   Conduct = "throws"   // an exception leaves the acquire; the value stays
	ConductGivesUp  Conduct = "gives_up" // the acquire ends, not acquired
)

// Meeting is what clients of one dialect do with the locks of another's. It follows from the dialects'
// rules alone, with both clocks right.
type Meeting struct {
	Live Conduct // while the writer's lease runs
	Dead Conduct // after it has ended, with the writer crashed
	// Freed: the server deletes the key of a crashed writer, so that Dead does not matter for long.
	Freed bool
}

// meetLease stands for the lease of dialects whose callers give it. Any will do: only before and after
// its end are looked at.
const meetLease = 30 * time.Second

// meetIdentities are two different owners, for dialects that write one.
var meetIdentities = [2][16]byte{{1, 2, 3}, {4, 5, 6}}

// Meet works out a meeting: a client of reader comes to a lock that a client of writer took at now. It
// fails as Stamp and EncodeValue do for a dialect that cannot write at that instant.
func Meet(writer, reader dialect.Dialect, now time.Time) (Meeting, error) {
	lease := writer.Lease
	if lease <= 0 {
		lease = meetLease
	}
	text, err := writer.Stamp(now, lease, writer.NewID(meetIdentities[0]))
	if err != nil {
		return Meeting{}, err
	}
	value, err := writer.EncodeValue(text)
	if err != nil {
		return Meeting{}, err
	}
	// Two seconds beyond: more than the slack and the unit of any dialect.
	over := now.Add(lease + 2*time.Second + writer.Slack)
	return Meeting{
		Live:  conduct(reader, value, now),
		Dead:  conduct(reader, value, over),
		Freed: writer.ServerExpires(),
	}, nil
}

// conduct is what a client of a dialect does when it reads a value of somebody else's.
func conduct(reader dialect.Dialect, value string, now time.Time) Conduct {
	seen := dialect.Text(value)
	switch reader.LegacyNext(seen, reader.NewID(meetIdentities[1]), now) {
	case dialect.StepGetset:
		switch reader.LegacyWins(seen, seen, now) {
		case dialect.Won:
			return ConductTakes
		case dialect.Threw:
			return ConductThrows
		}
		return ConductClobbers
	case dialect.StepFail:
		return ConductThrows
	case dialect.StepGiveUp:
		return ConductGivesUp
	}
	return ConductWaits
}

// Harm says in words what a reader does to a writer that the same dialect's own clients would not;
// empty where they get along.
func (m Meeting) Harm() string {
	switch m.Live {
	case ConductTakes:
		return "takes the lock from its living holder"
	case ConductClobbers:
		return "overwrites a living holder's value without winning, again at every poll"
	case ConductThrows:
		return "throws out of its acquire while the other holds"
	}
	switch {
	case m.Freed || m.Dead == ConductTakes:
		return ""
	case m.Dead == ConductThrows:
		return "throws out of its acquire once the other's holder has crashed"
	case m.Dead == ConductClobbers:
		return "overwrites a crashed holder's value again and again and never wins"
	}
	return "waits for ever once the other's holder has crashed"
}

// breaks tells a harm that lets two hold, or that destroys a holder's mark, from one that only blocks.
func (m Meeting) breaks() bool {
	return m.Live == ConductTakes || m.Live == ConductClobbers
}

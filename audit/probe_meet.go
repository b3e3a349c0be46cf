package audit

import (
	"time"

	"github.com/getsetlock/getsetlock/legacy/dialect"
)

// conduct is what a client does with a value that stands on the key it wants.
type conduct string

// The conducts.
const (
	conductWaits    conduct = "waits"    // it takes the value for a live lock
	conductTakes    conduct = "takes"    // it takes the value for an expired lock, and its GETSET wins
	conductClobbers conduct = "clobbers" // its GETSET overwrites the value, and does not win
	conductThrows   conduct = "throws"   // an exception leaves the acquire; the value stays
	conductGivesUp  conduct = "gives_up" // the acquire ends, not acquired
)

// meeting is what clients of one dialect do with the locks of another's. It follows from the dialects'
// rules alone, with both clocks right.
type meeting struct {
	Live conduct // while the writer's lease runs
	Dead conduct // after it has ended, with the writer crashed
	// Freed: the server deletes the key of a crashed writer, so that Dead does not matter for long.
	Freed bool
}

// meetLease stands for the lease of dialects whose callers give it. Any will do: only before and after
// its end are looked at.
const meetLease = 30 * time.Second

// meetIdentities are two different owners, for dialects that write one.
var meetIdentities = [2][16]byte{{1, 2, 3}, {4, 5, 6}}

// meet works out a meeting: a client of reader comes to a lock that a client of writer took at now. It
// fails as Stamp and EncodeValue do for a dialect that cannot write at that instant.
func meet(writer, reader dialect.Dialect, now time.Time) (meeting, error) {
	lease := writer.Lease
	if lease <= 0 {
		lease = meetLease
	}
	text, err := writer.Stamp(now, lease, writer.NewID(meetIdentities[0]))
	if err != nil {
		return meeting{}, err
	}
	value, err := writer.EncodeValue(text)
	if err != nil {
		return meeting{}, err
	}
	// Two seconds beyond: more than the slack and the unit of any dialect.
	over := now.Add(lease + 2*time.Second + writer.Slack)
	return meeting{
		Live:  conductOf(reader, value, now),
		Dead:  conductOf(reader, value, over),
		Freed: writer.ServerExpires(),
	}, nil
}

// conductOf is what a client of a dialect does when it reads a value of somebody else's.
func conductOf(reader dialect.Dialect, value string, now time.Time) conduct {
	seen := dialect.Text(value)
	switch reader.LegacyNext(seen, reader.NewID(meetIdentities[1]), now) {
	case dialect.StepGetset:
		switch reader.LegacyWins(seen, seen, now) {
		case dialect.Won:
			return conductTakes
		case dialect.Threw:
			return conductThrows
		}
		return conductClobbers
	case dialect.StepFail:
		return conductThrows
	case dialect.StepGiveUp:
		return conductGivesUp
	}
	return conductWaits
}

// harm says in words what a reader does to a writer that the same dialect's own clients would not;
// empty where they get along.
func (m meeting) harm() string {
	switch m.Live {
	case conductTakes:
		return "takes the lock from its living holder"
	case conductClobbers:
		return "overwrites a living holder's value without winning, again at every poll"
	case conductThrows:
		return "throws out of its acquire while the other holds"
	}
	switch {
	case m.Freed || m.Dead == conductTakes:
		return ""
	case m.Dead == conductThrows:
		return "throws out of its acquire once the other's holder has crashed"
	case m.Dead == conductClobbers:
		return "overwrites a crashed holder's value again and again and never wins"
	}
	return "waits for ever once the other's holder has crashed"
}

// breaks tells a harm that lets two hold, or that destroys a holder's mark, from one that only blocks.
func (m meeting) breaks() bool {
	return m.Live == conductTakes || m.Live == conductClobbers
}

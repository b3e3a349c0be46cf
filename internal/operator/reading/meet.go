// SPDX-License-Identifier: Apache-2.0

package reading

import (
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
)

// Conduct is what a client does when the key that it wants holds a given value.
type Conduct string

// What a client may do.
const (
	Waits Conduct = "waits" // the client takes the value for a live lock
	// the client takes the value for an expired lock, and its GETSET wins
	Takes    Conduct = "takes"
	Clobbers Conduct = "clobbers" // its GETSET overwrites the value, and does not win
	Throws   Conduct = "throws"   // the acquire ends with an exception; the value stays
	GivesUp  Conduct = "gives_up" // the acquire ends without the lock
)

// Says is what the client does, in words.
func (c Conduct) Says() string {
	return map[Conduct]string{
		Takes: "takes it for expired", Clobbers: "overwrites it and never wins",
		Throws: "gets an exception from its acquire", Waits: "waits forever", GivesUp: "gives up",
	}[c]
}

// Meeting is what clients of one dialect do with another dialect's locks. It
// follows from the rules of the dialects alone, with both clocks right.
type Meeting struct {
	Live Conduct // while the writer's lease runs
	Dead Conduct // after the lease has ended, if the writer has crashed
	// Freed: the server deletes a crashed writer's key, so Dead does not last.
	Freed bool
}

// meetLease is used for dialects whose callers choose the lease. Any value will
// do: only the instants before and after its end matter.
const meetLease = 30 * time.Second

// meetIdentities are two different owners, for dialects whose values contain
// one.
var meetIdentities = [2][16]byte{{1, 2, 3}, {4, 5, 6}}

// Meet computes a Meeting: a client of reader finds a lock that a client of
// writer took at now. It returns the errors of Stamp and EncodeValue if writer
// cannot write at that instant.
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
	// Two seconds more are longer than the slack and the unit of any dialect.
	over := now.Add(lease + 2*time.Second + writer.Slack)
	return Meeting{
		Live:  ConductOf(reader, value, now),
		Dead:  ConductOf(reader, value, over),
		Freed: writer.ServerExpires(),
	}, nil
}

// ConductOf returns what a client of reader does when it reads another client's
// value.
func ConductOf(reader dialect.Dialect, value string, now time.Time) Conduct {
	seen := dialect.Text(value)
	switch reader.LegacyNext(seen, reader.NewID(meetIdentities[1]), now) {
	case dialect.StepGetset:
		switch reader.LegacyWins(seen, seen, now) {
		case dialect.Won:
			return Takes
		case dialect.Threw:
			return Throws
		}
		return Clobbers
	case dialect.StepFail:
		return Throws
	case dialect.StepGiveUp:
		return GivesUp
	}
	return Waits
}

// Harm says in words what a reader does to a writer that clients of the
// writer's own dialect would not do; it is empty if the two get along.
func (m Meeting) Harm() string {
	switch m.Live {
	case Takes:
		return "takes the lock from its living holder"
	case Clobbers:
		return "overwrites a living holder's value without winning, at every poll"
	case Throws:
		return "gets an exception from its acquire while the other holds"
	}
	switch {
	case m.Freed || m.Dead == Takes:
		return ""
	case m.Dead == Throws:
		return "gets an exception from its acquire once the other's holder has crashed"
	case m.Dead == Clobbers:
		return "overwrites a crashed holder's value again and again and never wins"
	}
	return "waits forever once the other's holder has crashed"
}

// Breaks reports whether the harm lets two clients hold, or destroys a holder's
// value; otherwise it only blocks.
func (m Meeting) Breaks() bool {
	return m.Live == Takes || m.Live == Clobbers
}

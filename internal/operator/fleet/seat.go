// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"errors"
	"time"

	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/migrate"
)

// seat is a member as it was read from the roster.
type seat struct {
	migrate.MemberState
	bytes string        // what a deletion is compared with
	err   error         // why bytes cannot be read
	still time.Duration // how long a heartbeat in the future has not moved
}

// vanished reports that heartbeats have not come for three periods.
func (s seat) vanished(serverNow time.Time) bool {
	if s.ahead(serverNow) {
		return s.still > record.BeatsMissed*s.Every
	}
	return serverNow.Sub(s.Seen) > record.BeatsMissed*s.Every+time.Second
}

// ahead reports that the heartbeat lies in the future, since the server's clock
// was set back.
func (s seat) ahead(serverNow time.Time) bool { return s.Seen.Sub(serverNow) > time.Second }

// outlived reports that no lease can still run of a member that stopped at its
// last heartbeat.
func (s seat) outlived(serverNow time.Time) bool { return s.left(serverNow) < 0 }

// acts reports that the member may take a lock, or that one of its leases may
// still run.
func (s seat) acts(serverNow time.Time) bool {
	return (s.Phase != migrate.NoPhase || len(s.Leases) > 0) && !s.outlived(serverNow)
}

// over is when the last such lease ends, by the server's clock.
func (s seat) over() time.Time { return record.Over(s.Seen, s.Leaving, s.Renews, s.TTL) }

// left is how long such a lease may still run.
func (s seat) left(serverNow time.Time) time.Duration {
	if s.ahead(serverNow) {
		return s.over().Sub(s.Seen) - s.still
	}
	return s.over().Sub(serverNow)
}

// who names a member for people.
func (s seat) who() string {
	if s.Name == "" {
		return s.ID
	}
	return s.ID + " (" + s.Name + ")"
}

// foreign reports that another version of getsetlock wrote the member's field.
func (s seat) foreign() bool {
	return errors.Is(s.err, record.ErrNewer) || errors.Is(s.err, record.ErrOlder)
}

package fleet

import (
	"time"

	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/migrate/internal/record"
)

// seat is a member as it was read: its bytes are what a deletion is compared
// with.
type seat struct {
	migrate.MemberState
	bytes string
	err   error // it cannot be read
}

// vanished reports that heartbeats failed to come.
func (s seat) vanished(serverNow time.Time) bool {
	return serverNow.Sub(s.Seen) > record.BeatsMissed*s.Every+time.Second
}

// ahead reports that a heartbeat lies in the future: the server's clock was set back.
func (s seat) ahead(serverNow time.Time) bool { return s.Seen.Sub(serverNow) > time.Second }

// outlived reports that no lease of a member that stopped at its last heartbeat can still run. A lease
// may have been taken right after that heartbeat, so one more of them is waited for.
func (s seat) outlived(serverNow time.Time) bool {
	return serverNow.Sub(s.Seen) > s.TTL+s.Every
}

// who names a member for people.
func (s seat) who() string {
	if s.Name == "" {
		return s.ID
	}
	return s.ID + " (" + s.Name + ")"
}

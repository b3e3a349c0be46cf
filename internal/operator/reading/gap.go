// SPDX-License-Identifier: Apache-2.0

package reading

import (
	"strconv"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/operator/offset"
)

// InDB begins the reason of a gap without length that says which database was
// watched. A record of any database but 0 begins with that event, so a replay
// needs no setting.
const InDB = "database"

// OfRun begins the reason of a gap without length that says which run id the
// server has.
const OfRun = "run"

// Words in a gap's reason that make no hole.
const (
	Missing = "missing" // the source is not used at all
	Noted   = "note"    // the source works in part
	// Unproved: the source works, but its markers do not come back.
	Unproved = "unproved"
	// Proved: for the time before At that For says, MONITOR showed every call
	// that the server counted.
	Proved = "proved"
)

// Called is the name of a command that no server has. An event with it says
// that a client which is no getsetlock client called a command on a watched
// key: the key, then the command's name.
const Called = "called"

// GapOf returns the event of a hole in a source.
func GapOf[S, R ~string](s S, at time.Time, length time.Duration, reason R, detail string) offset.Observed {
	return offset.Observed{
		At: at, Kind: offset.ObservedGap, For: max(0, length.Truncate(time.Microsecond)),
		Reason: strings.TrimSpace(string(s) + " " + string(reason) + " " + detail),
	}
}

// WatchedIn returns the database that was watched, if the event says so.
func WatchedIn(o offset.Observed) (database int, ok bool) {
	word, rest, _ := strings.Cut(o.Reason, " ")
	database, err := strconv.Atoi(rest)
	return database, o.Kind == offset.ObservedGap && word == InDB && err == nil
}

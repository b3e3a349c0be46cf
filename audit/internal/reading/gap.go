package reading

import (
	"strconv"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/skew/offset"
)

// InDB begins the reason of the gap, of no length, that says which database was watched. A record of another
// one than the first begins with it, so that a replay need not be told.
const InDB = "database"

// OfRun begins the reason of the gap, of no length, that names the server's run
// id.
const OfRun = "run"

// Words in a gap's reason that make no hole: a source that is not there at all, and one that has less
// to say.
const (
	Missing = "missing"
	Noted   = "note"
	// Unproved: the source works, and its markers do not come back.
	Unproved = "unproved"
)

// GapOf is the event of a source's hole: the other half of blind.
func GapOf[S, R ~string](s S, at time.Time, length time.Duration, reason R, detail string) offset.Observed {
	return offset.Observed{
		At: at, Kind: offset.ObservedGap, For: max(0, length.Truncate(time.Microsecond)),
		Reason: strings.TrimSpace(string(s) + " " + string(reason) + " " + detail),
	}
}

// WatchedIn returns the database that an event says was watched.
func WatchedIn(o offset.Observed) (database int, ok bool) {
	word, rest, _ := strings.Cut(o.Reason, " ")
	database, err := strconv.Atoi(rest)
	return database, o.Kind == offset.ObservedGap && word == InDB && err == nil
}

package quorum

import (
	"context"
	"time"

	"github.com/getsetlock/getsetlock/lock"
)

// Member is one server of a quorum. A modern.Backend is a Member. If a Member
// also implements [lock.BatchExtender], [lock.Waker], [lock.Tuned],
// [lock.Inspector] or io.Closer, the Backend uses that.
type Member interface {
	// String names the server in errors. No two members have the same name.
	String() string

	// Ready returns the id of the server's present run and its version. It asks
	// the server once for each connection. The error is not nil if the server
	// may not vote now:
	//
	//   - If it has not been up for age, the error has a method VotesIn()
	//     time.Duration: how long that will take.
	//   - If the error has a method Passing() bool that returns false, the
	//     server can be no member at all.
	Ready(ctx context.Context, age time.Duration) (server, version string, err error)

	// TryAs is [lock.Backend.Try] with a token of the caller's, which becomes
	// the key's whole value. It sends the command only over a connection on
	// which Ready got this server id. If a [lock.HeldError] names an
	// Owner, that is the key's value.
	TryAs(ctx context.Context, server, key, token string, ttl time.Duration) (lock.Grant, error)

	// Raise makes the member's next fencing number greater than number, if the
	// key still carries the token of g. If it does not, the error wraps
	// [lock.ErrLost].
	Raise(ctx context.Context, g lock.Grant, number int64) error
}

// Standing is what a member answered to [Backend.Check].
type Standing struct {
	Member  string // its name
	Server  string // id of the server's present run, empty if it did not answer
	Version string // the server's version

	// Err is why the member does not vote now, nil if it votes.
	Err error

	// Refused: the server can be no member at all; Err says why.
	Refused bool

	// VotesAt is when a server that restarted begins to vote, by the machine's
	// clock. Zero for all others.
	VotesAt time.Time
}

// Survey is the answer of [Backend.Check].
type Survey struct {
	Members []Standing // in the order given to New

	// Warnings are sentences about what disturbs no lock now: a member that is
	// away, servers of different versions.
	Warnings []string
}

// Err returns why no lock can be taken now, or why a server can be no member;
// else nil. It is a [*ShortError] if fewer than a majority vote.
func (s Survey) Err() error { return nil }

// ShortError says that fewer than a majority of the members vote.
type ShortError struct {
	Key     string // empty in a Survey
	Members []Standing

	// VotesAt is when a majority votes, by the machine's clock, if the only
	// trouble is servers that restarted. Zero otherwise.
	VotesAt time.Time
}

func (e *ShortError) Error() string { return "quorum: fewer than a majority vote" }

// Passing reports whether waiting may help: false if servers were refused.
func (e *ShortError) Passing() bool { return true }

// Info is the Detail of [Backend.Describe].
type Info struct {
	Key   string
	Votes []Vote // in the order of the members
}

// Vote is what one member has on a key.
type Vote struct {
	Member string
	Info   lock.Info // what the member says of the key, if it can be inspected
	Err    error     // why the member said nothing
}

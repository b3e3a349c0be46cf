package votes

import (
	"fmt"

	"github.com/getsetlock/getsetlock/skew"
)

// Law is the closed form of a quorum lock: given how many votes the holder has
// and how many of them end early, can a second client get a majority while the
// first one still holds?
//
// Each of the three counts is of members, and the worst is assumed: they strike
// different members, all of which had voted for the holder.
type Law struct {
	Members int // N
	// Votes is v, how many members confirmed the holder's last round: its
	// acquisition, or its last renewal. 0 means all members. Clients that stop
	// asking at a majority, as redsync does with WithFailFast, may have no
	// more.
	Votes int
	// Lost is the number of members that lost the key: by eviction, FLUSHALL, a
	// DEL from outside, or a fail-over to a replica without it.
	Lost int
	// Restarted is the number of members that restarted without the key.
	Restarted int
	// Jumped is the number of members whose clock went forwards by more than
	// the holder's margin. Smaller jumps end no vote early.
	Jumped int
	// Wait says that a member does not vote until the greatest TTL has passed
	// since its restart. Then its restart ends no vote early: every holder that
	// counted on the vote has stopped before the member votes again.
	Wait bool
}

// Verdict is the law's answer.
type Verdict struct {
	// TwoHold says that two clients can hold at once: Ended ≥ From.
	TwoHold bool
	// Majority is the number of votes that a client needs, N/2 + 1.
	Majority int
	// Ended is the number of votes that end early, at most the holder's.
	Ended int
	// From is the least number of early ends with which two can hold:
	// Majority − (N − v). It is at least 1.
	From int
	// Survives is the greatest number of early ends with which two cannot hold,
	// From − 1.
	Survives int
	// Away is how many members may be unreachable before no client can acquire,
	// N − Majority. It does not depend on the holder's votes.
	Away int
}

// most is the greatest number of members.
const most = 99

// Verdict computes the law's answer. Its error is a *skew.ParameterError.
func (l Law) Verdict() (Verdict, error) {
	if l.Members < 1 || l.Members > most {
		return Verdict{}, impossible("Members", l.Members, fmt.Sprintf("from 1 to %d", most))
	}
	majority := l.Members/2 + 1
	if l.Votes == 0 {
		l.Votes = l.Members
	}
	if l.Votes < majority || l.Votes > l.Members {
		return Verdict{}, impossible("Votes", l.Votes,
			fmt.Sprintf("from %d, the majority, to %d, all members", majority, l.Members))
	}
	ended := 0
	for _, f := range []struct {
		name    string
		members int
	}{{"Lost", l.Lost}, {"Restarted", l.Restarted}, {"Jumped", l.Jumped}} {
		if f.members < 0 || f.members > l.Members {
			return Verdict{}, impossible(f.name, f.members,
				fmt.Sprintf("from 0 to %d, all members", l.Members))
		}
		if f.name != "Restarted" || !l.Wait {
			ended += f.members
		}
	}
	v := Verdict{Majority: majority, Ended: min(ended, l.Votes), From: majority - (l.Members - l.Votes),
		Away: l.Members - majority}
	v.Survives = v.From - 1
	v.TwoHold = v.Ended >= v.From
	return v, nil
}

func impossible(field string, value any, bound string) error {
	return &skew.ParameterError{Field: field, Value: value, Bound: bound}
}

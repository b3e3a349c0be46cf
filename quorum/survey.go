package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/lock/backend"
)

// Standing is what a member answered to [Backend.Check].
type Standing struct {
	Member  string // its name
	Server  string // id of the server's present run, empty if it did not answer
	Version string // the server's version

	// Err is why the member does not vote now, nil if it votes.
	Err error

	// Refused: the server can be no member at all; Err says why.
	Refused bool

	// VotesAt is when a server that restarted begins to vote, by the clock of
	// this machine. Zero for all others.
	VotesAt time.Time
}

func standing(m *member, err error, now time.Time) Standing {
	m.mu.Lock()
	s := Standing{Member: m.String(), Server: m.server, Version: m.version, Err: err}
	m.mu.Unlock()
	var young interface{ VotesIn() time.Duration }
	var passing interface{ Passing() bool }
	switch {
	case errors.As(err, &young):
		s.VotesAt = now.Add(young.VotesIn())
	case errors.As(err, &passing):
		s.Refused = !passing.Passing()
	}
	return s
}

// Survey is the answer of [Backend.Check].
type Survey struct {
	Members []Standing // in the order given to New

	// Warnings are sentences about what disturbs no lock now: a member that is
	// away, servers of different versions.
	Warnings []string
}

// check asks every member whether it votes.
func (b *engine) check(ctx context.Context) Survey {
	errs := b.each(func(m *member) error {
		_, err := b.ready(ctx, m)
		m.answered(err)
		return err
	})
	for _, m := range b.members {
		// Another member may have led to the same server until it answered.
		if twin := (*twinError)(nil); errors.As(errs[m.index], &twin) {
			_, errs[m.index] = b.ready(ctx, m)
			m.answered(errs[m.index])
		}
	}
	now, s := backend.ReadClock(ctx).Wall, Survey{}
	versions := map[string]bool{}
	var said []string
	for i, m := range b.members {
		one := standing(m, errs[i], now)
		s.Members = append(s.Members, one)
		switch {
		case one.Refused:
		case !one.VotesAt.IsZero():
			s.Warnings = append(s.Warnings, fmt.Sprintf("%s: %v", m, one.Err))
		case one.Err != nil:
			s.Warnings = append(s.Warnings, fmt.Sprintf("%s is away: %v", m, one.Err))
		}
		if one.Version != "" {
			versions[one.Version] = true
			said = append(said, one.Member+": "+one.Version)
		}
	}
	if len(versions) > 1 {
		s.Warnings = append(s.Warnings, "the members run different versions: "+strings.Join(said, ", "))
	}
	return s
}

// Err returns why no lock can be taken now, or why a server can be no member;
// else nil. It is a [*ShortError] in both cases.
func (s Survey) Err() error {
	votes, refused := 0, false
	for _, m := range s.Members {
		refused = refused || m.Refused
		if m.Err == nil {
			votes++
		}
	}
	if votes >= majority(len(s.Members)) && !refused {
		return nil
	}
	return &ShortError{Members: s.Members, VotesAt: votesAt(s.Members)}
}

// ShortError says that fewer than a majority of the members vote, or, in a
// [Survey], that a server can be no member.
type ShortError struct {
	Key     string // empty in a Survey
	Members []Standing

	// VotesAt is when a majority votes, by the clock of this machine, if
	// servers that restarted are the only trouble. Zero otherwise.
	VotesAt time.Time
}

func (e *ShortError) Error() string {
	var s strings.Builder
	votes := 0
	for _, m := range e.Members {
		if m.Err == nil {
			votes++
		}
	}
	s.WriteString("quorum: ")
	if e.Key != "" {
		fmt.Fprintf(&s, "key %q: ", e.Key)
	}
	fmt.Fprintf(&s, "%d of %d members vote, and a lock needs %d", votes, len(e.Members),
		majority(len(e.Members)))
	if !e.VotesAt.IsZero() {
		fmt.Fprintf(&s, "; enough vote from %s on", e.VotesAt.UTC().Format("15:04:05Z"))
	}
	for _, m := range e.Members {
		if m.Err != nil {
			fmt.Fprintf(&s, "; %s: %v", m.Member, m.Err)
		}
	}
	return s.String()
}

// Unwrap returns why members do not vote.
func (e *ShortError) Unwrap() []error {
	var errs []error
	for _, m := range e.Members {
		if m.Err != nil {
			errs = append(errs, m.Err)
		}
	}
	return errs
}

// Passing reports whether waiting may help: false if so many servers were
// refused that the others are no majority.
func (e *ShortError) Passing() bool {
	left := 0
	for _, m := range e.Members {
		if !m.Refused {
			left++
		}
	}
	return left >= majority(len(e.Members))
}

// votesAt returns when a majority votes if only time is missing, else zero.
func votesAt(members []Standing) (at time.Time) {
	votes, need := 0, majority(len(members))
	var young []time.Time
	for _, m := range members {
		switch {
		case m.Err == nil:
			votes++
		case !m.VotesAt.IsZero():
			young = append(young, m.VotesAt)
		}
	}
	if votes >= need || votes+len(young) < need {
		return time.Time{}
	}
	slices.SortFunc(young, time.Time.Compare)
	return young[need-votes-1]
}

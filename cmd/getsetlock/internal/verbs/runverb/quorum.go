// SPDX-License-Identifier: Apache-2.0

package runverb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/modern"
	"github.com/getsetlock/getsetlock/quorum"
)

// greatestTTL returns for how long a server that restarted does not vote.
func (f *runFlags) greatestTTL() time.Duration {
	return cmp.Or(f.terms.Greatest, out.GreatestTTL)
}

// openQuorum opens several servers, of which a majority keeps the lock. Nothing
// is sent.
func (f *runFlags) openQuorum(e *out.Env, command []string) (*opening, error) {
	members, err := f.server.Members(e)
	if err != nil {
		return nil, err
	}
	b, err := out.Quorum(e, members, modern.Config{Fence: true, Namespace: f.namespace},
		quorum.Config{GreatestTTL: f.greatestTTL(), Epoch: f.server.Epoch, Fences: true,
			Note: noteOf(e, command), Clock: e.Clock})
	if err != nil {
		return nil, err
	}
	o := &opening{store: b, where: out.Servers(members), look: lookAtVotes(b)}
	o.short = func(ctx context.Context) error {
		if short := shortFor(quorum.Short("", b.Check(ctx))); short != nil {
			return short
		}
		return nil
	}
	// A server that can be no member does not end the job, since a majority
	// votes: but as long as it is named, the loss of fewer others stops all
	// jobs.
	o.warnings = func() (said []string) {
		for i, m := range b.Standings() {
			if m.Err != nil {
				said = append(said, out.CouldNot(m.Err, "%s does not vote", members[i].Address).Error())
			}
		}
		return said
	}
	return o, nil
}

// lookAtVotes returns a look that names the holder as the backend does: by the
// value that most members have.
func lookAtVotes(b *quorum.Backend) func(context.Context, string) (sight, error) {
	inspector := b.Contract().(backend.Inspector)
	return func(ctx context.Context, key string) (sight, error) {
		info, err := inspector.Describe(ctx, key)
		if err != nil || info.Held == nil {
			return sight{free: err == nil}, err
		}
		var who *lock.HeldError
		if !errors.As(info.Held, &who) {
			return sight{}, info.Held
		}
		said := *who
		if _, note, noted := strings.Cut(said.Owner, " "); noted {
			said.Owner = note
		}
		return sight{who: &said, token: majority(info)}, nil
	}
}

// majority returns the token that more than half of the members have.
func majority(info backend.Info) string {
	detail, _ := info.Detail.(quorum.Info)
	votes := map[string]int{}
	for _, v := range detail.Votes {
		if seen, ok := v.Info.Detail.(modern.Info); ok && v.Err == nil && seen.Exists {
			if votes[seen.Token]++; votes[seen.Token] > len(detail.Votes)/2 {
				return seen.Token
			}
		}
	}
	return ""
}

// untilVotes says until when too few servers vote, where that is why a verb
// waits; else nothing.
func untilVotes(why error, now time.Time) string {
	short := shortFor(why)
	if short == nil {
		return ""
	}
	return fmt.Sprintf("fewer than a majority of %d servers vote, since some restarted; a majority does from %s on, in %s",
		len(short.Members), short.VotesAt.UTC().Format("15:04:05Z"),
		out.Rounded(max(short.VotesAt.Sub(now), 0)))
}

// shortFor returns why too few servers vote, if time alone mends that, else
// nil. Its time is by the clock of this machine.
func shortFor(why error) *quorum.ShortError {
	var short *quorum.ShortError
	if !errors.As(why, &short) || short.VotesAt.IsZero() {
		return nil
	}
	return short
}

package runverb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
	"github.com/getsetlock/getsetlock/quorum"
)

// checkQuorum refuses flags that a quorum cannot follow. --greatest is known to
// it: there, the other clients are those of this and other libraries.
func (f *runFlags) checkQuorum(cmd *cobra.Command) error {
	if !f.server.Quorum {
		return nil
	}
	var old []string
	for _, name := range forLegacy {
		if name != "greatest" {
			old = append(old, name)
		}
	}
	if err := f.server.AloneInQuorum(cmd, old...); err != nil {
		return err
	}
	switch {
	case cmd.Flags().Changed("protocol") && f.protocol != out.ProtocolModern:
		return out.WrongUse("--quorum is for --protocol modern: old clients' locks are on one server")
	case cmd.Flags().Changed("replicas"):
		return out.WrongUse("--replicas is not for --quorum, whose servers have no replicas: the votes of a majority take their place")
	case max(f.ttl, f.keep, f.terms.Greatest) > quorum.LongestTTL:
		return out.WrongUse("--ttl, --keep or --greatest is above %v, the longest TTL in a quorum", quorum.LongestTTL)
	case max(f.ttl, f.keep) > f.greatestTTL():
		return out.WrongUse("--greatest %v is less than --ttl or --keep (%v): it is the longest TTL of any client on these servers, this one included, and all of them must give the same",
			f.greatestTTL(), max(f.ttl, f.keep))
	}
	return nil
}

// greatestTTL returns for how long a server that restarted does not vote.
func (f *runFlags) greatestTTL() time.Duration {
	return cmp.Or(f.terms.Greatest, out.GreatestTTL)
}

// quorumKeeper keeps the lock of run on a majority of several servers.
type quorumKeeper struct {
	*clientKeeper
	backend *quorum.Backend
	servers []out.Member
}

// openQuorum returns the keeper for a command line. Nothing is sent.
func openQuorum(e *out.Env, f *runFlags, command []string) (keeper, error) {
	members, err := f.server.Members(e)
	if err != nil {
		return nil, err
	}
	backend, err := out.Quorum(e, members, modern.Config{Fence: true, Namespace: f.namespace},
		quorum.Config{GreatestTTL: f.greatestTTL(), Epoch: f.server.Epoch, Fences: true,
			Note: noteOf(e, command), Clock: e.Clock})
	if err != nil {
		return nil, err
	}
	common, err := newKeeper(e, f, backend, out.Servers(members), func(err error) error { return err })
	if err != nil {
		return nil, err
	}
	return &quorumKeeper{common, backend, members}, nil
}

func (k *quorumKeeper) acquire(ctx context.Context, key string) (held, error) {
	lease, err := k.clientKeeper.acquire(ctx, key)
	if err != nil {
		return nil, err
	}
	return &tokenHeld{lease}, nil
}

// votes returns how many members have a value for which is is true, and how
// many there are.
func (k *quorumKeeper) votes(ctx context.Context, key string, is func(modern.Info) bool) (n, of int,
	err error) {
	info, err := k.client.Inspect(ctx, key)
	if err != nil {
		return 0, 0, err
	}
	detail, ok := info.Detail.(quorum.Info)
	if !ok {
		return 0, 0, fmt.Errorf("key %q: the servers' answer is a %T", key, info.Detail)
	}
	for _, v := range detail.Votes {
		if seen, ok := v.Info.Detail.(modern.Info); ok && v.Err == nil && is(seen) {
			n++
		}
	}
	return n, len(detail.Votes), nil
}

// holds asks the servers. It compares the token without the note, which an
// inner run does not know.
func (k *quorumKeeper) holds(ctx context.Context, key, token string) (bool, error) {
	n, of, err := k.votes(ctx, key, func(i modern.Info) bool {
		return i.Exists && i.Token == token
	})
	return err == nil && n > of/2, err
}

// look names the holder as the backend does: by the value that a majority has.
func (k *quorumKeeper) look(ctx context.Context, key string) (sight, error) {
	info, err := k.client.Inspect(ctx, key)
	if err != nil {
		return sight{}, err
	}
	seen := sight{free: info.Held == nil, short: k.short(ctx)}
	if seen.free {
		return seen, nil
	}
	var who *lock.HeldError
	if !errors.As(info.Held, &who) {
		return sight{}, info.Held
	}
	said := *who
	if _, note, noted := strings.Cut(said.Owner, " "); noted {
		said.Owner = note
	}
	seen.who = &said
	return seen, nil
}

// short returns why too few servers vote, if time alone mends that, else nil.
// Its time is by the clock of this machine.
func (k *quorumKeeper) short(ctx context.Context) error {
	var short *quorum.ShortError
	if !errors.As(quorum.Short("", k.backend.Check(ctx)), &short) || short.VotesAt.IsZero() {
		return nil
	}
	return short
}

func (k *quorumKeeper) stored(ctx context.Context, raw string) (bool, error) {
	n, _, err := k.votes(ctx, raw, func(i modern.Info) bool { return i.Exists })
	return n > 0, err
}

func (k *quorumKeeper) encoding() dialect.Encoding { return dialect.Plain }

// warnings names the servers without which the lock was taken. A server that
// can be no member does not end the job, since a majority votes: but as long as
// it is named, the loss of fewer others stops all jobs. It asks no server: the
// lock is held by now.
func (k *quorumKeeper) warnings(context.Context) (said []string) {
	for i, m := range k.backend.Standings() {
		if m.Err != nil {
			said = append(said, out.CouldNot(m.Err, "%s does not vote", k.servers[i].Address).Error())
		}
	}
	return said
}

// untilVotes says until when too few servers vote, where that is why a verb
// waits; else nothing.
func untilVotes(why error, now time.Time) string {
	var short *quorum.ShortError
	if !errors.As(why, &short) || short.VotesAt.IsZero() {
		return ""
	}
	return fmt.Sprintf("fewer than a majority of %d servers vote, since some restarted; a majority does from %s on, in %s",
		len(short.Members), short.VotesAt.UTC().Format("15:04:05Z"),
		out.Rounded(max(short.VotesAt.Sub(now), 0)))
}

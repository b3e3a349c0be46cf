package modern

import (
	"context"
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock"
)

// renewTogether is how many keys one script renews: some 0.2 ms of the server's time.
const renewTogether = 128

// ExtendAll renews grants with a few messages, on the connection that user traffic does not delay.
func (b *Backend) ExtendAll(ctx context.Context, grants []lock.Grant, ttl time.Duration) ([]lock.Term, []error) {
	terms, errs := make([]lock.Term, len(grants)), make([]error, len(grants))
	if ttl < time.Millisecond || ttl > longestTTL {
		for i := range errs {
			errs[i] = valid(grants[i].(*grant).key, ttl)
		}
		return terms, errs
	}
	term := lock.Term{Sent: lock.Mark(ctx), TTL: ttl}
	if len(grants) == 1 && b.native.mayIfeq() {
		if term, err, done := b.extendNatively(ctx, grants[0].(*grant), term); done {
			terms[0], errs[0] = term, err
			return terms, errs
		}
	}
	cmds := make([]wire.Command, 0, len(grants)/renewTogether+1)
	for from := 0; from < len(grants); from += renewTogether {
		cmds = append(cmds, renewal(grants[from:min(from+renewTogether, len(grants))], ttl).Tracked())
	}
	for i, r := range b.own.Batch(ctx, cmds) {
		from := i * renewTogether
		part := grants[from:min(from+renewTogether, len(grants))]
		found, err := replies(r, len(part))
		for j, granted := range part {
			g := granted.(*grant)
			if err != nil {
				errs[from+j] = trouble("renew", g.key, err)
				continue
			}
			terms[from+j], errs[from+j] = g.renewed(ctx, found[j], term)
		}
	}
	return terms, errs
}

func renewal(grants []lock.Grant, ttl time.Duration) wire.Command {
	args := make([]any, 0, 2*len(grants)+1)
	for _, g := range grants {
		args = append(args, g.(*grant).key)
	}
	args = append(args, millis(ttl))
	for _, g := range grants {
		args = append(args, g.(*grant).token)
	}
	return renewScript(len(grants)).Cmd(args...)
}

func replies(r wire.Reply, n int) ([]any, error) {
	if r.Err != nil {
		return nil, r.Err
	}
	found, ok := r.Value.([]any)
	if !ok || len(found) != n {
		return nil, errOddReply
	}
	return found, nil
}

// extendNatively renews one key by the server's own command; done is false where it has none. The
// PTTL before it shows whether somebody touched the key, the one after it keeps it watched.
func (b *Backend) extendNatively(ctx context.Context, g *grant, term lock.Term) (_ lock.Term, err error, done bool) {
	rs := b.own.Batch(ctx, []wire.Command{
		wire.Cmd("PTTL", g.key), ifeq(g.key, g.token, g.token, millis(term.TTL)), wire.Cmd("PTTL", g.key).Tracked(),
	})
	switch err := rs[1].Err; {
	case b.native.triedIfeq(err):
		return lock.Term{}, nil, false
	case wire.IsWrongType(err):
		return lock.Term{}, g.gone(ctx), true
	case err != nil:
		return lock.Term{}, trouble("renew", g.key, err), true
	}
	var found any = int64(-3)
	if rs[1].Value != nil {
		found = rs[0].Value
	}
	term, err = g.renewed(ctx, found, term)
	return term, err, true
}

// renewed judges what the server said of one key: the PTTL before the renewal, or that it is not
// ours.
func (g *grant) renewed(ctx context.Context, found any, term lock.Term) (lock.Term, error) {
	left, _ := found.(int64)
	if left == -3 {
		return lock.Term{}, g.gone(ctx)
	}
	g.mu.Lock()
	before := g.term
	if !g.sentAt.Wall.IsZero() {
		before = lock.Term{Sent: g.sentAt, TTL: g.seen}
	}
	g.sentAt, g.seen = term.Sent, term.TTL
	g.mu.Unlock()
	// The server's count began after we sent and ended before the reply: less than what is left
	// by ours cannot be the clocks' doing beyond a slack, so somebody shortened it.
	should := before.TTL - (term.Sent.Elapsed - before.Sent.Elapsed)
	if touched := time.Duration(left) * time.Millisecond; touched < should-touchSlack || left == -1 || touched > should+before.TTL {
		g.b.habits.touched(g.key, fmt.Sprintf("its TTL was changed by another: %d ms were left where %d ms should be", left, should.Milliseconds()))
	}
	return term, nil
}

// touchSlack is how much a PTTL may differ from our own count without a word: a slow reply, and two
// clocks that run a little differently.
const touchSlack = time.Second

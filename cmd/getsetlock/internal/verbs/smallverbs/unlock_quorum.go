package smallverbs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/dialect"
)

// unpolling deletes locks on all servers of a quorum.
type unpolling struct {
	*polling
	e    *out.Env
	yes  bool
	each []*redisLocks // of each server
}

// quorum executes the verb on a quorum.
func (f *unlockFlags) quorum(e *out.Env, ctx context.Context, arg string, d dialect.Dialect) error {
	p, err := openPolling(e, &f.server, d)
	if err != nil {
		return err
	}
	defer p.close()
	u := &unpolling{polling: p, e: e, yes: f.yes}
	for i, m := range p.members {
		u.each = append(u.each, &redisLocks{e: e, pool: m.Pool, source: p.sources[i], address: m.Address,
			prefer: d.Name})
	}
	if f.given {
		return u.delete(ctx, out.Unescaped(arg), out.Unescaped(f.value))
	}
	locks, err := u.ask(ctx, arg)
	if err != nil {
		return err
	}
	var failed []error
	for _, l := range locks {
		failed = append(failed, u.delete(ctx, l.lock, l.held))
	}
	return worst(failed)
}

// ask shows the locks that a key or pattern names, and asks. It returns the
// locks to delete.
func (u *unpolling) ask(ctx context.Context, arg string) ([]lockLine, error) {
	what, isPattern := keyOrPattern(arg)
	found, away, err := u.look(ctx, nil, func(s *source) looker {
		return func(ctx context.Context, _ *out.Progress) ([]lockLine, error) {
			l := &lister{mux: s.mux, backend: s.backend, prefer: u.each[0].prefer, seen: map[string]bool{}}
			return l.locks(ctx, what, isPattern)
		}
	})
	if err != nil {
		return nil, out.CouldNot(err, "looking at %q", arg)
	}
	if len(away) > 0 {
		u.e.Say(false, "warning: %s", strings.Join(away, "; "))
	}
	locks, others, _ := deletable(found)
	if others > 0 {
		u.e.Say(false, "%s left alone", count(others, "matching key is no held lock and is",
			"matching keys are no held locks and are"))
	}
	switch {
	case len(locks) == 0 && isPattern:
		fmt.Fprintf(u.e.Stdout, "no lock matches %s\n", arg)
		return nil, nil
	case len(locks) == 0:
		fmt.Fprintf(u.e.Stdout, "%s is free\n", out.Escaped(what))
		return nil, nil
	}
	width, _, _ := u.e.Screen(u.e.Stderr)
	lines := lockGrid(locks).Fit(max(0, width-1), u.e.Colours(u.e.Stderr))
	fmt.Fprintf(u.e.Stderr, "%s\nIf a holder is alive, it goes on working without a lock until it learns of the loss, by a message from the servers or at its next renewal. ",
		strings.Join(lines, "\n"))
	return locks, (&unlocking{e: u.e, yes: u.yes}).confirm(ctx, fmt.Sprintf("Delete %s on all servers?",
		count(len(locks), "lock", "locks")))
}

// delete deletes a value on every server that still has it. The lock is free
// when so few servers may have kept the value that the others are a majority.
func (u *unpolling) delete(ctx context.Context, key, value string) error {
	deleted := make([]bool, len(u.sources))
	errs := u.polling.each(func(i int, _ *source) error {
		d, err := u.each[i].force(ctx, key, value)
		deleted[i] = d.Any()
		return err
	})
	var failures []error
	done := 0
	for i, err := range errs {
		if deleted[i] {
			done++
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", u.members[i].Address, err))
		}
	}
	failed := together(failures)
	switch {
	case len(failures) > len(u.members)-u.majority():
		return out.CouldNot(failed, "unlocking %q, which was deleted on %d of %d servers", out.Escaped(key),
			done, len(u.members))
	case len(failed) > 0:
		u.e.Say(false, "warning: %v; what it has ends with its TTL, and without it the other servers are a majority",
			out.OneLine(reason(failed)))
	}
	if done == 0 {
		return &out.ExitError{Code: out.CodeBad, Err: fmt.Errorf(
			"nothing was deleted: %q has that value on no server", out.Escaped(key))}
	}
	fmt.Fprintf(u.e.Stdout, "deleted %s on %d of %d servers\n", out.Escaped(key), done, len(u.members))
	return nil
}

// worst returns the error that decides the exit code: a server that is away
// comes before a lock that changed.
func worst(errs []error) error {
	var said *out.ExitError
	for _, err := range errs {
		var e *out.ExitError
		if errors.As(err, &e) && (said == nil || e.Code > said.Code) {
			said = e
		}
	}
	if said == nil {
		return nil
	}
	return said
}

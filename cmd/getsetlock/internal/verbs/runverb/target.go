// SPDX-License-Identifier: Apache-2.0

package runverb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/backing"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/lock"
)

// openTarget connects to the store of --target. While that is away, it tries
// again until --wait is over.
func (f *runFlags) openTarget(e *out.Env, ctx context.Context, command []string) (*opening, error) {
	f.target.Options.Note = noteOf(e, command)
	began := e.Clock.Now()
	conn, longest, err := f.connect(e, ctx)
	if err != nil {
		return nil, err
	}
	o := &opening{
		store: conn.Backend(), where: f.target.Where(), session: true, late: e.Clock.Now().Sub(began),
		look:   lookInto(conn),
		refuse: func(ctx context.Context, key string) error { return unfit(ctx, conn, key) },
		explain: func(err error) error {
			if errors.Is(err, lock.ErrHeld) {
				return err
			}
			return out.ToldBy(conn, err)
		},
		leave: func(time.Duration, time.Duration) { _ = conn.Close() },
	}
	// The holder's name, as ls shows it.
	o.name = func(ctx context.Context, who *lock.HeldError) *lock.HeldError {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), briefly)
		defer cancel()
		seen, err := o.look(ctx, who.Key)
		if err != nil || seen.who == nil {
			return nil
		}
		seen.who.Protocol = who.Protocol
		return seen.who
	}
	if ttl := f.advisedTTL(conn.Backend()); longest < ttl {
		o.granted = longest
		if command[0] != awaiting { // wait takes no lock
			o.warnings = func() []string {
				return []string{fmt.Sprintf("%s keeps a session for at most %s, so the lock lasts that long after its last renewal, and not %s: lower --ttl, or raise the servers' limit",
					f.target.Name, out.Short(longest), out.Short(ttl))}
			}
		}
	}
	return o, nil
}

// reach connects to the store and asks for the longest TTL that it grants.
func (f *runFlags) reach(ctx context.Context) (backing.Conn, time.Duration, error) {
	conn, err := f.target.Connect(ctx)
	if err != nil {
		return nil, 0, err
	}
	longest, err := conn.Longest(ctx, f.advisedTTL(conn.Backend()))
	if err != nil {
		err = out.CouldNot(out.ToldBy(conn, err), "connecting to %s", f.target.Where())
		return nil, 0, errors.Join(err, conn.Close())
	}
	return conn, longest, nil
}

// connect waits for the store as long as --wait allows. After a while it says
// why it waits.
func (f *runFlags) connect(e *out.Env, ctx context.Context) (backing.Conn, time.Duration, error) {
	began, said := e.Clock.Now(), false
	for {
		conn, longest, err := f.reach(ctx)
		gone := e.Clock.Now().Sub(began)
		limit := f.wait.d
		if f.wait.forever {
			limit = firstAnswer
		}
		switch {
		case err == nil:
			return conn, longest, nil
		case gone >= limit || !out.Passing(err):
			return nil, 0, err
		case gone >= firstWord && !said:
			e.Say(f.server.Quiet, "waiting: %v", err)
			said = true
		}
		select {
		case <-e.Clock.After(min(lookEvery, limit-gone)):
		case <-ctx.Done():
			return nil, 0, out.CouldNot(context.Cause(ctx), "connecting to %s", f.target.Where())
		}
	}
}

// briefly bounds a question that is a courtesy.
const briefly = time.Second

// unfit returns why the name must not be taken: it gets in the way of another
// name. It returns nil where the store cannot be asked: the attempt then says
// what is wrong, or waits until it is over.
func unfit(ctx context.Context, conn backing.Conn, key string) error {
	ctx, cancel := context.WithTimeout(ctx, briefly)
	defer cancel()
	if why, _ := conn.Unfit(ctx, key); why != "" {
		return errors.New(why)
	}
	return nil
}

func lookInto(conn backing.Conn) func(context.Context, string) (sight, error) {
	return func(ctx context.Context, key string) (sight, error) {
		found, err := conn.Look(ctx, key)
		if found == nil || err != nil {
			return sight{free: err == nil}, out.ToldBy(conn, err)
		}
		who := &lock.HeldError{Key: key, Owner: cmp.Or(found.Note, found.Owner), Left: max(found.Left, 0)}
		return sight{who: who, token: found.Owner}, nil
	}
}

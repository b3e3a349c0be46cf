package smallverbs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/backing"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/scope"
)

// runTarget shows the locks of a store other than Redis.
func (f *lsFlags) runTarget(e *out.Env, cmd *cobra.Command, t *out.Target, pattern string) error {
	if err := t.Refuse(cmd, "dialect", "dialect-file", "namespace", "lease"); err != nil {
		return err
	}
	conn, err := t.Connect(cmd.Context())
	if err != nil {
		return err
	}
	defer conn.Close()
	s := &stored{e, t, conn}
	warned := false
	return f.show(e, cmd.Context(), t.Where(),
		func(ctx context.Context, p *out.Progress) ([]lockLine, error) {
			lines, err := s.matching(ctx, pattern)
			if p != nil && err == nil {
				p.Set(int64(len(lines)))
			}
			err = out.ToldBy(conn, err)
			if f.watch && err != nil && len(lines) > 0 {
				if !warned { // once
					e.Say(f.server.Quiet, "warning: %v", err)
				}
				warned, err = true, nil
			}
			return lines, err
		})
}

// stored are the locks of a store other than Redis.
type stored struct {
	e    *out.Env
	t    *out.Target
	conn backing.Conn
}

// matching returns the locks that a KEY or PATTERN of a command line means, and
// all where that is empty. They are sorted by name. With an error it returns
// those that the store could see.
func (s *stored) matching(ctx context.Context, arg string) ([]lockLine, error) {
	what, isPattern := keyOrPattern(arg)
	var found []backing.Lock
	var err error
	if what != "" && !isPattern {
		var one *backing.Lock
		if one, err = s.conn.Look(ctx, what); one != nil {
			found = []backing.Lock{*one}
		}
	} else {
		found, err = s.conn.List(ctx, literal(what))
	}
	if isPattern {
		meant := scope.Matching(what)
		found = slices.DeleteFunc(found, func(l backing.Lock) bool {
			return !meant.Covers(meant.Database(), l.Name)
		})
	}
	slices.SortFunc(found, func(a, b backing.Lock) int { return cmp.Compare(a.Name, b.Name) })
	var lines []lockLine
	for _, l := range found {
		lines = append(lines, s.line(l))
	}
	return lines, err
}

// literal is the part of a pattern in front of the first character with a
// meaning.
func literal(pattern string) string {
	if at := strings.IndexAny(pattern, `*?[\`); at >= 0 {
		return pattern[:at]
	}
	return pattern
}

// line describes a lock as ls shows it.
func (s *stored) line(l backing.Lock) lockLine {
	now := s.e.Clock.Now()
	line := lockLine{
		Key: out.Escaped(l.Name), Type: l.Type, State: StateHeld, Protocol: &s.t.Address.Scheme,
		Encoding: string(dialect.Plain), Also: []string{}, Value: new(out.Escaped(l.Value)),
		Waiters: &l.Waiters, raw: l.Name, lock: l.Name, held: l.Value, session: true, now: now,
	}
	if l.Owner != "" {
		line.Owner = new(out.Escaped(l.Owner))
	}
	if l.Note != "" {
		line.Note = new(out.Escaped(l.Note))
	}
	if l.Fence != 0 {
		line.Fence = &l.Fence
	}
	if l.Left >= 0 {
		line.setTTL(l.Left)
		line.setUntil(now.Add(l.Left), now)
	}
	return line
}

// runTarget frees locks of a store other than Redis.
func (f *unlockFlags) runTarget(e *out.Env, cmd *cobra.Command, t *out.Target, arg string) error {
	if err := t.Refuse(cmd, "dialect", "dialect-file"); err != nil {
		return err
	}
	conn, err := t.Connect(cmd.Context())
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx := cmd.Context()
	u := &storedUnlocking{stored{e, t, conn}, &unlocking{e: e, yes: f.yes}}
	if f.given {
		return u.valued(ctx, out.Unescaped(arg), out.Unescaped(f.value))
	}
	lines, err := u.matching(ctx, arg)
	if err != nil {
		return out.CouldNot(out.ToldBy(conn, err), "looking for locks on %s", t.Where())
	}
	what, isPattern := keyOrPattern(arg)
	switch {
	case len(lines) == 0 && isPattern:
		fmt.Fprintf(e.Stdout, "no lock matches %s\n", arg)
		return nil
	case len(lines) == 0:
		fmt.Fprintf(e.Stdout, "%s is free\n", out.Escaped(what))
		return nil
	case isPattern:
		return u.all(ctx, lines)
	}
	return u.asked(ctx, lines[0])
}

// storedUnlocking deletes locks of a store other than Redis.
type storedUnlocking struct {
	stored
	ask *unlocking
}

// valued deletes a lock that value holds: the value as ls shows it, or the
// owner's token.
func (u *storedUnlocking) valued(ctx context.Context, name, value string) error {
	found, err := u.conn.Look(ctx, name)
	if err != nil {
		return u.failed(err, name)
	}
	if found == nil || value != found.Value && value != found.Owner {
		return u.changed(found, name)
	}
	return u.free(ctx, name, found.Value)
}

// asked shows the holder, asks, and deletes the lock if the holder is still the
// same.
func (u *storedUnlocking) asked(ctx context.Context, line lockLine) error {
	fmt.Fprintf(u.e.Stderr, "%s is %s by %s, value %s%s\nIf its holder is alive, it goes on working without a lock until it learns of the loss, by a message from the store or at its next renewal. ",
		line.Key, line.State, line.holder(), *line.Value, line.end())
	if err := u.ask.confirm(ctx, "Delete it?"); err != nil {
		return err
	}
	return u.free(ctx, line.raw, line.held)
}

func (u *storedUnlocking) free(ctx context.Context, name, value string) error {
	deleted, err := u.conn.Free(ctx, name, value)
	if err != nil {
		return u.failed(err, name)
	}
	if !deleted {
		now, _ := u.conn.Look(ctx, name)
		return u.changed(now, name)
	}
	fmt.Fprintf(u.e.Stdout, "deleted %s\n", out.Escaped(name))
	return nil
}

func (u *storedUnlocking) failed(err error, name string) error {
	return out.CouldNot(out.ToldBy(u.conn, err), "unlocking %q on %s", out.Escaped(name), u.t.Where())
}

// changed returns an error that says which lock is there instead.
func (u *storedUnlocking) changed(now *backing.Lock, name string) error {
	return &out.ExitError{Code: out.CodeBad, Err: fmt.Errorf(
		"nothing was deleted: %q does not hold that value; it %s", out.Escaped(name), nowIs(now))}
}

func nowIs(l *backing.Lock) string {
	if l == nil {
		return "is free"
	}
	return "holds " + out.Shortened(out.Escaped(l.Value), 80)
}

// all shows the locks, asks once, and deletes each whose holder is still the
// same.
func (u *storedUnlocking) all(ctx context.Context, lines []lockLine) error {
	width, _, _ := u.e.Screen(u.e.Stderr)
	fmt.Fprintf(u.e.Stderr, "%s\nIf a holder is alive, it goes on working without a lock. ",
		strings.Join(lockGrid(lines).Fit(max(0, width-1), u.e.Colours(u.e.Stderr)), "\n"))
	if err := u.ask.confirm(ctx, fmt.Sprintf("Delete %s?", count(len(lines), "lock", "locks"))); err != nil {
		return err
	}
	kept := 0
	for _, line := range lines {
		err := u.free(ctx, line.raw, line.held)
		var known *out.ExitError
		switch {
		case errors.As(err, &known) && known.Code == out.CodeBad:
			kept++
			u.e.Say(false, "%q is kept, because it changed", line.Key)
		case err != nil:
			return err
		}
	}
	if kept > 0 {
		return &out.ExitError{Code: out.CodeBad, Err: errors.New(count(kept, "lock was", "locks were") +
			" not deleted: what they hold is not what was shown")}
	}
	return nil
}

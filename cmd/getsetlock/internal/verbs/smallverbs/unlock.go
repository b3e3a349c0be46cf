package smallverbs

import (
	"context"
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"
	"github.com/spf13/cobra"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/modern"
)

const unlockLong = `Frees a lock by force, for when its holder is known to be dead.

With --value V the key is deleted if V is still what stands there, compared and
deleted in one step. V is what "getsetlock ls" shows: the value, or the token of one of
ours. Without it the holder is shown and you are asked, on a terminal.

A token of ours beside the key goes with it. If the holder is not dead, it works on:
one of ours is told, by a message from the server or at its next renewal, an old client
never. Another may have taken the lock by then.

Exit codes: 0 deleted, or it was free when you were to be asked; 1 V is not what stands
there (nothing may), or you said no; 2 wrong use; 3 it could not be done.`

type unlockFlags struct {
	server  out.ServerFlags
	dialect out.DialectFlags
	value   string
	given   bool
}

// NewUnlock returns the verb unlock.
func NewUnlock(e *out.Env) *cobra.Command {
	f := &unlockFlags{}
	cmd := &cobra.Command{
		Use:   "unlock [flags] KEY",
		Short: "Free a lock whose holder is dead",
		Long:  unlockLong,
		Example: out.Examples(
			"getsetlock unlock nightly",
			"getsetlock unlock nightly --value 1795198084101",
			`getsetlock unlock '\xac\xed\x00\x05t\x00\x07nightly' --value 1795198084101`,
		),
		ValidArgsFunction: cobra.NoFileCompletions,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return out.WrongUse("give one KEY")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			f.given = cmd.Flags().Changed("value")
			return f.run(e, cmd.Context(), out.Unescaped(args[0]))
		},
	}
	f.server.Register(cmd)
	f.dialect.Register(cmd, "whose form the value is believed to be, when it is shown (default jedis)")
	cmd.Flags().StringVar(&f.value, "value", "", "delete the lock if this still stands there, as ls shows it")
	out.Complete(cmd, "value", cobra.NoFileCompletions)
	return cmd
}

func (f *unlockFlags) run(e *out.Env, ctx context.Context, key string) error {
	d, err := f.dialect.Pick()
	if err != nil {
		return err
	}
	if !f.given && !e.Interactive() {
		return out.WrongUse("standard input is no terminal, so you cannot be asked: say what may be deleted by --value, as ls shows it")
	}
	pool, address, err := f.server.Open(e)
	if err != nil {
		return err
	}
	backend, err := legacy.New(pool, legacy.Config{Mode: legacy.Verbatim, Dialect: d, Timeout: e.Timeout})
	if err != nil {
		return out.WrongUse("%w", out.InFlags(err))
	}
	defer backend.Close()
	value := out.Unescaped(f.value)
	if !f.given {
		value, err = askFor(e, ctx, backend, key, d.Name)
		if err != nil || value == "" {
			return err
		}
	}
	deleted, err := force(e, ctx, pool, backend, key, value)
	if err != nil {
		return out.CouldNot(err, "unlocking %q on %s", out.Escaped(key), address)
	}
	if !deleted.Any() {
		return changed(e, ctx, backend, key)
	}
	what := "deleted " + out.Escaped(key)
	if deleted.Mark {
		what += " with the token of ours that held it"
	}
	fmt.Fprintln(e.Stdout, what)
	return nil
}

// force deletes the lock if value still is what holds it, by the rules of its protocol. A token may be
// given without its note.
func force(e *out.Env, ctx context.Context, pool *redis.Pool, backend legacy.Backend, key, value string) (legacy.Deleted, error) {
	o, err := backend.Observe(ctx, key)
	if err != nil {
		return legacy.Deleted{}, err
	}
	token, note, ours := out.TokenLock(o)
	if note == out.ReservedNote {
		token = o.Value // of a waiter, which may hold the key by the time that somebody unlocks it
	}
	if !ours || value != token && value != o.Value {
		return backend.CompareAndDelete(ctx, key, value)
	}
	tokens, err := modern.New(pool, modern.Config{Timeout: e.Timeout})
	if err != nil {
		return legacy.Deleted{}, err
	}
	defer tokens.Close()
	deleted, err := tokens.ForceRelease(ctx, o.Key, o.Value)
	return legacy.Deleted{Lock: deleted}, err
}

// changed says what stands there instead of the value to be deleted.
func changed(e *out.Env, ctx context.Context, backend legacy.Backend, key string) error {
	now := "cannot be looked at"
	if o, err := backend.Observe(ctx, key); err == nil {
		switch {
		case !o.Exists:
			now = "is free"
		case o.Type != "string":
			now = "holds a " + o.Type
		default:
			now = "holds " + out.Shortened(out.Escaped(o.Value), 80)
		}
	}
	return &out.ExitError{Code: out.CodeBad, Err: fmt.Errorf("nothing was deleted: %q does not hold that value; it %s", out.Escaped(key), now)}
}

// askFor shows the holder and returns what may be deleted; empty if nothing is to be done.
func askFor(e *out.Env, ctx context.Context, backend legacy.Backend, key, prefer string) (value string, err error) {
	o, err := backend.Observe(ctx, key)
	if err != nil {
		return "", out.CouldNot(err, "looking at %q", out.Escaped(key))
	}
	line, _ := readLock(o, prefer)
	token, _, ours := o.Token()
	switch {
	case line.Type == "":
		fmt.Fprintf(e.Stdout, "%s is free\n", out.Escaped(key))
		return "", nil
	case line.State == StateLeft:
		fmt.Fprintf(e.Stdout, "%s: %s\n", out.Escaped(key), *line.Note)
		return "", nil
	case o.Exists && o.Type != "string":
		return "", &out.ExitError{Code: out.CodeBad, Err: fmt.Errorf("%q holds a %s, which is no lock of ours or of old clients: nothing was deleted; whoever knows whose it is deletes it by DEL", out.Escaped(key), o.Type)}
	case o.Exists && o.Size > len(o.Value):
		return "", &out.ExitError{Code: out.CodeBad, Err: fmt.Errorf("the value of %q is %d bytes long, which is no lock's: nothing was deleted; whoever knows whose it is deletes it by DEL", out.Escaped(key), o.Size)}
	case o.Exists:
		value = o.Value
	case ours:
		value = token
	}
	fmt.Fprintf(e.Stderr, "%s is %s", line.Key, line.State)
	for _, part := range []struct{ name, text string }{
		{"by", orNothing(line.Owner)}, {"that is", orNothing(line.Note)}, {"in dialect", orNothing(line.Dialect)}, {"value", orNothing(line.Value)},
	} {
		if part.text != "" {
			fmt.Fprintf(e.Stderr, ", %s %s", part.name, part.text)
		}
	}
	fmt.Fprint(e.Stderr, line.end(), "\nIf its holder is alive, "+whatItWillDo(line)+". Delete it? [y/N] ")
	yes, err := e.Confirm(ctx)
	if err != nil {
		return "", err
	}
	if !yes {
		return "", &out.ExitError{Code: out.CodeBad, Err: errors.New("nothing was deleted")}
	}
	return value, nil
}

// end says until when the lock is held as it stands, and by whose clock.
func (l lockLine) end() string {
	switch {
	case l.Until == nil:
		return ""
	case l.mark: // alone, so its holder has lost the lock and renews no more
		return ", its lease ends at " + *l.Until + " and is not renewed"
	case !l.stamp:
		return ", its lease runs until " + *l.Until + " and may be renewed"
	case l.State == StateExpired:
		return ", its stamp ended at " + *l.Until + " by its writer's clock"
	}
	return ", its stamp ends at " + *l.Until + " by its writer's clock"
}

// whatItWillDo warns of a holder that is not dead.
func whatItWillDo(line lockLine) string {
	if line.Protocol != nil && (*line.Protocol == out.ProtocolModern || *line.Protocol == out.ProtocolDual) {
		return "it works on without a lock until it is told, by a message from the server or at its next renewal"
	}
	return "it works on without a lock"
}

func orNothing(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

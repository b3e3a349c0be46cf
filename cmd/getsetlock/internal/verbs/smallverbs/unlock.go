// SPDX-License-Identifier: Apache-2.0

package smallverbs

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/modern"
)

// unlockLong is what --help says.
//
//go:embed unlock.txt
var unlockLong string

type unlockFlags struct {
	server  out.ServerFlags
	dialect out.DialectFlags
	value   string
	given   bool
	yes     bool
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
			`# a key that Spring's JDK serializer wrote`,
			`getsetlock unlock '\xac\xed\x00\x05t\x00\x07nightly'`,
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
			on, err := openLocks(e, cmd, &f.server, &f.dialect)
			if err != nil {
				return err
			}
			defer on.close()
			return f.free(cmd.Context(), &unlocking{e: e, on: on, yes: f.yes}, args[0])
		},
	}
	f.server.Register(cmd)
	f.server.TargetFlag(cmd)
	f.dialect.Register(cmd, "the dialect to show where several write the same form (default jedis)")
	cmd.Flags().StringVar(&f.value, "value", "",
		"delete the lock if it still holds this value, as ls shows it")
	out.Complete(cmd, "value", cobra.NoFileCompletions)
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "delete what is shown, without asking")
	return cmd
}

// free deletes what a KEY of the command line means.
func (f *unlockFlags) free(ctx context.Context, u *unlocking, arg string) error {
	key, value := out.Unescaped(arg), out.Unescaped(f.value)
	if !f.given {
		line, err := u.askFor(ctx, key)
		if err != nil || line.held == "" {
			return err
		}
		value = line.held
	}
	return u.one(ctx, key, value)
}

// unlocking deletes locks.
type unlocking struct {
	e   *out.Env
	on  locks
	yes bool // nobody is asked
}

// one deletes a lock that still holds value.
func (u *unlocking) one(ctx context.Context, key, value string) error {
	deleted, err := u.on.force(ctx, key, value)
	if err != nil {
		return u.couldNot(err, key)
	}
	if !deleted.Any() {
		return &out.ExitError{Code: out.CodeBad, Err: fmt.Errorf(
			"nothing was deleted: %q does not hold that value; it %s", out.Escaped(key), u.now(ctx, key))}
	}
	u.sayDeleted(key, deleted)
	return nil
}

func (u *unlocking) couldNot(err error, key string) error {
	return out.CouldNot(u.on.told(err), "unlocking %q on %s", out.Escaped(key), u.on.where())
}

func (u *unlocking) sayDeleted(key string, deleted legacy.Deleted) {
	what := "deleted " + out.Escaped(key)
	if deleted.Mark {
		what += " and the getsetlock client's token that held it"
	}
	fmt.Fprintln(u.e.Stdout, what)
}

// now says what a key holds.
func (u *unlocking) now(ctx context.Context, key string) string {
	line, err := u.on.find(ctx, key)
	switch {
	case err != nil:
		return "cannot be read"
	case line.Type == "", line.mark:
		return "is free"
	case line.Value == nil:
		return "holds a " + line.Type
	}
	return "holds " + out.Shortened(*line.Value, 80)
}

// askFor shows the holder, asks, and returns the lock to delete. It has no
// value if nothing is to be done.
func (u *unlocking) askFor(ctx context.Context, key string) (lockLine, error) {
	e := u.e
	line, err := u.on.find(ctx, key)
	if err != nil {
		return lockLine{}, out.CouldNot(u.on.told(err), "looking at %q on %s", out.Escaped(key), u.on.where())
	}
	odd := ""
	switch {
	case line.Type == "":
		fmt.Fprintf(e.Stdout, "%s is free\n", out.Escaped(key))
		if strings.ContainsAny(key, "*?") {
			e.Say(false, "unlock takes one key and no pattern: \"getsetlock ls PATTERN\" lists the locks that match one")
		}
		return lockLine{}, nil
	case line.State == StateLeft:
		fmt.Fprintf(e.Stdout, "%s: %s\n", out.Escaped(key), line.Note)
		return lockLine{}, nil
	case line.Value == nil:
		odd = fmt.Sprintf("%q holds a %s", out.Escaped(key), line.Type)
	case line.long > 0:
		odd = fmt.Sprintf("the value of %q is %d bytes long", out.Escaped(key), line.long)
	}
	if odd != "" {
		return lockLine{}, &out.ExitError{Code: out.CodeBad, Err: errors.New(odd + ", which is not a lock: nothing was deleted; if you know which program wrote it, delete it by DEL")}
	}
	fmt.Fprintf(e.Stderr, "%s is %s", line.Key, line.State)
	for _, part := range []struct{ name, text string }{
		{"by", line.Owner}, {"note", line.Note}, {"in dialect", line.Dialect}, {"value", *line.Value},
	} {
		if part.text != "" {
			fmt.Fprintf(e.Stderr, ", %s %s", part.name, part.text)
		}
	}
	fmt.Fprint(e.Stderr, line.end(), "\nIf its holder is alive, "+whatItWillDo(line)+". ")
	return line, u.confirm(ctx)
}

func (r *onRedis) where() string { return r.address }

func (r *onRedis) told(err error) error { return err }

func (r *onRedis) find(ctx context.Context, key string) (lockLine, error) {
	o, err := r.backend.Observe(ctx, key)
	if err != nil {
		return lockLine{}, err
	}
	line, _ := readLock(o, r.prefer)
	return line, nil
}

// force deletes the lock by the rules of its protocol. value may be a token
// without its note.
func (r *onRedis) force(ctx context.Context, key, value string) (legacy.Deleted, error) {
	o, err := r.backend.Observe(ctx, key)
	if err != nil {
		return legacy.Deleted{}, err
	}
	token, _, ours := out.TokenLock(o)
	if !ours || value != token && value != o.Value {
		return r.backend.CompareAndDelete(ctx, key, value)
	}
	tokens, err := modern.New(r.pool, modern.Config{Timeout: r.timeout})
	if err != nil {
		return legacy.Deleted{}, err
	}
	defer tokens.Close()
	deleted, err := tokens.ForceRelease(ctx, o.Key, o.Value)
	return legacy.Deleted{Lock: deleted}, err
}

// confirm asks, unless --yes has answered.
func (u *unlocking) confirm(ctx context.Context) error {
	if u.yes {
		fmt.Fprintln(u.e.Stderr)
		return nil
	}
	if !u.e.Interactive() {
		fmt.Fprintln(u.e.Stderr)
		return out.WrongUse("standard input is no terminal, so unlock cannot ask: give the value to delete by --value, as ls shows it, or --yes to delete what is there")
	}
	fmt.Fprint(u.e.Stderr, "Delete it? [y/N] ")
	yes, err := u.e.Confirm(ctx)
	if err != nil {
		return err
	}
	if !yes {
		return &out.ExitError{Code: out.CodeBad, Err: errors.New("nothing was deleted")}
	}
	return nil
}

// end says until when the lock is held, unless it is renewed, and by which
// clock.
func (l lockLine) end() string {
	until := out.Instant(l.Until)
	switch {
	case until == nil:
		return ""
	case l.mark: // key M alone: the holder has lost the lock and no longer renews it
		return ", its lease ends at " + *until + " and is not renewed"
	case !l.stamp:
		return ", its lease runs until " + *until + " and may be renewed"
	case l.State == StateExpired:
		return ", its stamp ended at " + *until + " by its writer's clock"
	}
	return ", its stamp ends at " + *until + " by its writer's clock"
}

// whatItWillDo says what a holder that is alive will do.
func whatItWillDo(line lockLine) string {
	switch {
	case line.session:
		return "it goes on working without a lock until it learns of the loss, by a message from the store or at its next renewal"
	case line.Protocol == out.ProtocolModern || line.Protocol == out.ProtocolDual:
		return "it goes on working without a lock until it learns of the loss, by a message from the server or at its next renewal"
	}
	return "it goes on working without a lock"
}

// Package smallverbs are the verbs that are small enough to share a package: ls, unlock,
// version and completion.
package smallverbs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/spf13/cobra"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/legacy/dialect"
)

const lsLong = `Shows the locks on a server: who holds them, until when their leases run, and how they
are written. A holder that renews has its lock for longer than LEFT says. LEFT of an old
client's stamp is counted as if its writer's clock were the server's.

PATTERN is one of Redis (* ? [a-z]) and is also tried in the spellings in which
Spring's serializers write a key; such a key is named beside the plain one, with
which it shares nothing. Without PATTERN only those keys are shown that a dialect
reads with a plausible time, or that carry a token of ours. Of such a token the owner
is what stands beside it: for getsetlock run the names of the host and of the command.
Where a getsetlock client writes an old clients' time, that lies a day ahead: the lock
ends with its token, or its TTL, and that end is shown.

Values are read by the server's clock. Several dialects write the same form: the
one that --dialect names is believed, and the others are told by --json.

Keys are listed in slices (SCAN), so that other clients are not held up; without
PATTERN every key that holds a string is looked at. Bytes that are not UTF-8 are
printed as \xNN, and a backslash as two.`

type lsFlags struct {
	server  out.ServerFlags
	dialect out.DialectFlags
	asJSON  bool
}

// NewLs returns the verb ls.
func NewLs(e *out.Env) *cobra.Command {
	f := &lsFlags{}
	cmd := &cobra.Command{
		Use:   "ls [flags] [PATTERN]",
		Short: "Show the locks on a server",
		Long:  lsLong,
		Example: out.Examples(
			"getsetlock ls",
			"getsetlock ls 'stock:*' --dialect redis-py",
			"getsetlock ls nightly --json | jq -r '.locks[].owner'",
		),
		ValidArgsFunction: cobra.NoFileCompletions,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return out.WrongUse("give one PATTERN at most, quoted so that the shell leaves it alone")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(e, cmd.Context(), strings.Join(args, ""))
		},
	}
	f.server.Register(cmd)
	f.server.QuietFlag(cmd)
	f.dialect.Register(cmd, "whose form a value is believed to be where several write the same (default jedis)")
	out.JSONFlag(cmd, &f.asJSON)
	return cmd
}

// Locks is the document of ls --json.
type Locks struct {
	Schema string     `json:"schema"`
	Locks  []lockLine `json:"locks"`
}

// lockLine is a lock as --json shows it. Null is what is not known or does not exist.
type lockLine struct {
	Key      string       `json:"key"`
	Name     *string      `json:"name"` // the key without a serializer's wrapping
	Type     string       `json:"type"`
	State    string       `json:"state"`
	Protocol *string      `json:"protocol"`
	Dialect  *string      `json:"dialect"`
	Encoding string       `json:"encoding"`
	Also     []string     `json:"also"`
	Owner    *string      `json:"owner"`
	Note     *string      `json:"note"` // what a token lock says of its holder, for people
	Until    *string      `json:"until"`
	Left     *json.Number `json:"left_ms"`
	TTL      *json.Number `json:"ttl_ms"`
	Value    *string      `json:"value"`

	raw    string        // the key's bytes
	mark   bool          // it is a key of ours
	marked bool          // a key of ours stands beside it
	vacant bool          // beside it stands that a release left it to old clients
	stamp  bool          // Until is the time in the value, by its writer's clock
	left   time.Duration // of Left
	ttl    time.Duration // of TTL
}

func (f *lsFlags) run(e *out.Env, ctx context.Context, pattern string) error {
	d, err := f.dialect.Pick()
	if err != nil {
		return err
	}
	pool, address, err := f.server.Open(e)
	if err != nil {
		return err
	}
	// Verbatim looks no differently, and wants to be told nothing about a fleet.
	backend, err := legacy.New(pool, legacy.Config{Mode: legacy.Verbatim, Dialect: d, Timeout: e.Timeout})
	if err != nil {
		return out.WrongUse("%w", out.InFlags(err))
	}
	defer backend.Close()
	mux, err := wire.New(pool, wire.Options{Timeout: e.Timeout})
	if err != nil {
		return out.CouldNot(err, "connecting to %s", address)
	}
	defer mux.Close()

	l := &lister{mux: mux, backend: backend, all: pattern == "", prefer: d.Name, seen: map[string]bool{}}
	l.progress = e.Progress(f.server.Quiet, "keys looked at", -1)
	err = l.list(ctx, out.Unescaped(pattern))
	l.progress.End()
	if err != nil {
		return out.CouldNot(err, "listing the keys of %s", address)
	}
	lines := withoutMarks(l.lines)
	slices.SortFunc(lines, func(a, b lockLine) int {
		return cmp.Or(cmp.Compare(nameOf(a), nameOf(b)), wrapped(a)-wrapped(b), cmp.Compare(a.raw, b.raw))
	})
	if f.asJSON {
		return e.PrintJSON(Locks{"getsetlock.ls/1", append([]lockLine{}, lines...)})
	}
	if len(lines) == 0 {
		e.Say(f.server.Quiet, "no locks found")
		return nil
	}
	e.Print(lockGrid(lines))
	return nil
}

// nameOf brings a key that a serializer wrapped beside the plain one.
func nameOf(l lockLine) string {
	if l.Name != nil {
		return *l.Name
	}
	return l.Key
}

func wrapped(l lockLine) int {
	if l.Name != nil {
		return 1
	}
	return 0
}

func lockGrid(lines []lockLine) *out.Grid {
	g := out.NewGrid(out.Left("key"), out.Left("state"), out.Left("protocol"), out.Left("dialect"), out.Left("owner"),
		out.Right("left"), out.Right("ttl"), out.Left("value"))
	for _, l := range lines {
		key := l.Key
		if l.Name != nil {
			key = fmt.Sprintf("%s (%s: %s)", *l.Name, l.Encoding, l.Key)
		}
		who := orDash(l.Dialect)
		if n := len(l.Also); n > 0 {
			who = fmt.Sprintf("%s +%d", who, n)
		}
		remaining, ttl := "-", "none"
		if l.Left != nil {
			remaining = out.Rounded(l.left)
		}
		if l.TTL != nil {
			ttl = out.Rounded(l.ttl)
		}
		value := "(" + l.Type + ")"
		if l.Value != nil {
			value = out.Shortened(*l.Value, 40)
		}
		owner := orDash(l.Owner)
		if l.Note != nil {
			owner = *l.Note
		}
		g.Add(key, l.State, orDash(l.Protocol), who, owner, remaining, ttl, value)
	}
	return g
}

func orDash(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

// lister goes through a server's keys.
type lister struct {
	mux      *wire.Mux
	backend  legacy.Backend
	all      bool // no pattern: only what looks like a lock
	progress *out.Progress

	prefer string // the name of a dialect

	seen   map[string]bool // SCAN may return a key twice
	looked int64
	lines  []lockLine
}

func (l *lister) list(ctx context.Context, pattern string) error {
	if l.all || strings.ContainsAny(pattern, `*?[\`) {
		return l.scan(ctx, scope.Matching(pattern))
	}
	return l.look(ctx, forms(pattern))
}

// forms are the spellings of a key: as it is, as Spring's serializers write it, and with each our own key
// beside it, which stands alone when the old clients' key is gone.
func forms(key string) []string {
	var all []string
	for _, e := range []dialect.Encoding{dialect.Plain, dialect.JDK, dialect.JSON} {
		if l, err := (dialect.Dialect{KeyEncoding: e}).EncodeKey(key); err == nil {
			all = append(all, l, legacy.MarkKey(l))
		}
	}
	return all
}

// scanSlice is how many keys the server goes through in one SCAN, during which it serves nobody
// else: some hundred microseconds.
const scanSlice = 500

// scan looks at every key that is meant. All of them are of the database that our connections select.
func (l *lister) scan(ctx context.Context, meant scope.Scope) error {
	cursor, typed := "0", l.all
	for {
		args := []any{cursor, "COUNT", scanSlice}
		if pattern := meant.Pattern(); pattern != "*" {
			args = append(args, "MATCH", pattern)
		}
		if typed {
			args = append(args, "TYPE", "string")
		}
		reply, err := redis.Values(l.mux.Do(ctx, "SCAN", args...))
		var refused redis.Error
		if typed && errors.As(err, &refused) && strings.Contains(string(refused), "syntax") {
			typed = false // before Redis 6 SCAN knows no TYPE; each key is asked for it anyway
			continue
		}
		if err != nil {
			return err
		}
		var keys []string
		if _, err := redis.Scan(reply, &cursor, &keys); err != nil {
			return err
		}
		keys = slices.DeleteFunc(keys, func(k string) bool { return !meant.Covers(meant.Database(), k) })
		if err := l.look(ctx, keys); err != nil {
			return err
		}
		if cursor == "0" {
			return nil
		}
	}
}

// look reads locks by the keys they stand on. A key of ours stands for the one that it guards.
func (l *lister) look(ctx context.Context, keys []string) error {
	var fresh []string
	for _, key := range keys {
		for _, key := range append(scope.OldKeys(key), key) {
			if !l.seen[key] {
				l.seen[key] = true
				fresh = append(fresh, key)
			}
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	seen, errs := l.backend.ObserveRaw(ctx, fresh)
	for i, o := range seen {
		if wire.IsWrongType(errs[i]) {
			// Something else has the name of our key beside it: no lock that we could read.
			o = legacy.Observation{Observation: dialect.Observation{Key: fresh[i], Exists: true, Type: "unknown"}}
		} else if errs[i] != nil {
			return errs[i]
		}
		line, likely := readLock(o, l.prefer)
		if line.Type != "" && (likely || !l.all) {
			l.lines = append(l.lines, line)
		}
	}
	l.looked += int64(len(fresh))
	l.progress.Set(l.looked)
	return nil
}

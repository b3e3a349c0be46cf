// Package smallverbs has the small verbs: ls, unlock, version and completion.
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

const lsLong = `Shows the locks on a server: which client holds each lock, until when its lease
runs, and in which form it is written.

PATTERN is a Redis pattern (* ? [a-z]). ls also tries the spellings in which
Spring's serializers write a key, and lists such a key next to the plain one;
they are two different locks. Without PATTERN, ls shows only keys that hold a
plausible time of some dialect, or a token of a getsetlock client.

Columns:
  OWNER  the name that the holder wrote: an old client's id, or for getsetlock
         run its host and command
  LEFT   the time until the lease ends. A holder that renews keeps its lock for
         longer. An old client's time is read as if that client's clock were the
         server's. A getsetlock client that shares a lock with old clients
         writes a time that lies a day ahead; its lock ends with its token or
         its TTL, and LEFT shows that end
  TTL    the time after which the server deletes the key

Several dialects write the same form. DIALECT shows the one that --dialect
names, if it fits; --json lists the others.

ls lists keys in slices (SCAN), so that other clients are not held up. Without
PATTERN it reads every key that holds a string. Bytes that are not UTF-8 are
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
				return out.WrongUse("give one PATTERN at most, quoted so that the shell does not expand it")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(e, cmd.Context(), strings.Join(args, ""))
		},
	}
	f.server.Register(cmd)
	f.server.QuietFlag(cmd)
	f.dialect.Register(cmd, "the dialect to show where several write the same form (default jedis)")
	out.JSONFlag(cmd, &f.asJSON)
	return cmd
}

// Locks is the document of ls --json.
type Locks struct {
	Schema string     `json:"schema"`
	Locks  []lockLine `json:"locks"`
}

// lockLine is a lock as --json shows it. A field is null where its value is
// unknown or does not exist.
type lockLine struct {
	Key      string       `json:"key"`
	Name     *string      `json:"name"` // the key's plain name, where a serializer wrote the key
	Type     string       `json:"type"`
	State    string       `json:"state"`
	Protocol *string      `json:"protocol"`
	Dialect  *string      `json:"dialect"`
	Encoding string       `json:"encoding"`
	Also     []string     `json:"also"`
	Owner    *string      `json:"owner"`
	Note     *string      `json:"note"` // what a token lock's value says about its holder, for people
	Until    *string      `json:"until"`
	Left     *json.Number `json:"left_ms"`
	TTL      *json.Number `json:"ttl_ms"`
	Value    *string      `json:"value"`

	raw    string        // the key's bytes
	mark   bool          // the key is key M of a getsetlock client
	marked bool          // key M of this lock has a token
	vacant bool          // key M of this lock says that a release left the lock to old clients
	stamp  bool          // Until is the time in the value, by its writer's clock
	left   time.Duration // Left as a duration
	ttl    time.Duration // TTL as a duration
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
	// Verbatim reads keys like Hardened, and needs no times of the fleet.
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

// nameOf returns the name to sort by: it places a key that a serializer wrote
// next to the plain key.
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
	g := out.NewGrid(out.Left("key"), out.Left("state"), out.Left("protocol"), out.Left("dialect"),
		out.Left("owner"),
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

// lister reads a server's keys.
type lister struct {
	mux      *wire.Mux
	backend  legacy.Backend
	all      bool // no pattern: show only what looks like a lock
	progress *out.Progress

	prefer string // name of the preferred dialect

	seen   map[string]bool // keys seen; SCAN may return a key twice
	looked int64
	lines  []lockLine
}

func (l *lister) list(ctx context.Context, pattern string) error {
	if l.all || strings.ContainsAny(pattern, `*?[\`) {
		return l.scan(ctx, scope.Matching(pattern))
	}
	return l.look(ctx, forms(pattern))
}

// forms returns the spellings of a key: plain, and as Spring's serializers
// write it. Each is followed by its key M, which remains where the old clients'
// key is gone.
func forms(key string) []string {
	var all []string
	for _, e := range []dialect.Encoding{dialect.Plain, dialect.JDK, dialect.JSON} {
		if l, err := (dialect.Dialect{KeyEncoding: e}).EncodeKey(key); err == nil {
			all = append(all, l, legacy.MarkKey(l))
		}
	}
	return all
}

// scanSlice is the number of keys that the server goes through in one SCAN. It
// serves no other client meanwhile: some hundred microseconds.
const scanSlice = 500

// scan looks at every key in the scope. All of them are in the database that
// the connections select.
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
			typed = false // before Redis 6, SCAN has no TYPE; look reads each key's type anyway
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

// look reads the locks of the given keys. For a key M it reads the lock that
// the key M belongs to.
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
			// The key M has another type, so another program wrote it: no lock
			// that could be read here.
			o = legacy.Observation{Observation: dialect.Observation{
				Key: fresh[i], Exists: true, Type: "unknown"}}
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

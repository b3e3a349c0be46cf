// SPDX-License-Identifier: Apache-2.0

// Package smallverbs has the small verbs: ls, unlock, version and completion.
package smallverbs

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/spf13/cobra"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/keys"
	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/legacy"
)

// lsLong is what --help says.
//
//go:embed ls.txt
var lsLong string

type lsFlags struct {
	server    out.ServerFlags
	dialect   out.DialectFlags
	asJSON    bool
	wide      bool
	namespace string
	lease     time.Duration
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
			"getsetlock ls 'stock:*'",
			"getsetlock ls 'stock:*' --dialect redis-py --lease 30s",
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
			on, err := openLocks(e, cmd, &f.server, &f.dialect, "namespace", "lease")
			if err != nil {
				return err
			}
			defer on.close()
			return f.show(e, cmd.Context(), on, strings.Join(args, ""))
		},
	}
	f.server.Register(cmd)
	f.server.TargetFlag(cmd)
	f.server.QuietFlag(cmd)
	f.dialect.Register(cmd, "the dialect to show where several write the same form (default jedis)")
	flags := cmd.Flags()
	flags.BoolVar(&f.wide, "wide", false, "show all columns, however narrow the terminal is")
	flags.StringVar(&f.namespace, "namespace", "", "the namespace whose queue and fencing numbers to show")
	out.Complete(cmd, "namespace", cobra.NoFileCompletions)
	out.PositiveVar(flags, &f.lease, "lease", 0, "leave the flag out where it is unknown",
		"the old clients' lease, from which AGE follows if they do not renew")
	out.JSONFlag(cmd, &f.asJSON)
	return cmd
}

// Locks is the document of ls --json.
type Locks struct {
	Schema string     `json:"schema"`
	Locks  []lockLine `json:"locks"` // sorted by key
}

// lockLine is a lock as ls shows it, and what else unlock knows.
type lockLine struct {
	shown
	compared
	kind

	now time.Time // the server's clock at the look
}

// shown are the fields of --json, with names and values as [out.Escaped] writes
// them. An empty text and a nil are unknown, or do not exist.
type shown struct {
	Key string `json:"key"` // the name on the server
	// the plain name of a key that a serializer wrote; else null
	Name string `json:"name" answer:"null"`
	// as the server's TYPE says; key in etcd, node in ZooKeeper
	Type string `json:"type"`
	// held, expired, unreadable, or left: no client holds it, and for a moment
	// it is left to old clients
	State string `json:"state"`
	// legacy: what old clients write. modern: a token of getsetlock. dual: such
	// a token, and the old clients' key too. tombstone: kept from old clients
	// for good. etcd, zookeeper: a lock of that store. null if unreadable
	Protocol string `json:"protocol" answer:"null"`
	// dialect whose form it is assumed to be; null for tokens of getsetlock
	Dialect  string   `json:"dialect" answer:"null"`
	Encoding string   `json:"encoding"` // plain, or the serializer's: jdk, json
	Also     []string `json:"also"`     // other dialects that write the same
	// the token, or the identity that old clients put into the value; without a
	// token in etcd the id of the holder's lease, in ZooKeeper the holder's
	// node
	Owner string `json:"owner" answer:"null"`
	// the text after a token: of run, the host and the command
	Note string `json:"note" answer:"null"`
	// end of the lease, which its holder may move by renewing. Of an old
	// client's stamp: the time in the value, by its writer's clock. Of a
	// getsetlock client's stamp, which lies a day ahead: the end of its token,
	// else of its TTL. Of other values: the end of the TTL, by the server's
	// clock. In etcd: the end of the holder's lease, in whole seconds. null if
	// never, not known (as in ZooKeeper), or beyond the year 9999
	Until time.Time `json:"until"`
	// time until then by the server's clock, also where Until is by another;
	// negative if it is over
	Left  *time.Duration `json:"left_ms"`
	TTL   *time.Duration `json:"ttl_ms"` // rest of the key's TTL; null if it has none
	Value *string        `json:"value"`  // what unlock --value compares: at most the first kilobyte
	// time for which the holder has held the lock. No key says that: it is
	// known only for an old client's stamp, with --lease, if its dialect does
	// not renew
	Age *time.Duration `json:"age_ms"`
	// number of clients in the queue of --namespace for this lock; null if
	// modern does not hold it, or the user may not read the queue. In etcd and
	// ZooKeeper: all clients that wait
	Waiters *int64 `json:"waiters"`
	// last fencing number of the key's counter, which other keys of --namespace
	// may share; that of the holder is not greater. null if no getsetlock
	// client holds the lock, none was drawn, or the user may not read it. In
	// etcd and ZooKeeper: that of the holder
	Fence *int64 `json:"fence"`
}

// compared are the bytes by which unlock knows a lock again.
type compared struct {
	raw  string // the key
	held string // what unlock compares: the bytes of key L, or the token on key M alone
	long int    // length of a value that is longer than held; else 0
}

// kind says what sort of lock it is.
type kind struct {
	token   bool // a token lock of modern
	mark    bool // the key is key M of a getsetlock client
	marked  bool // key M of this lock has a token
	vacant  bool // key M of this lock says that a release left the lock to old clients
	stamp   bool // Until is the time in the value, by its writer's clock
	session bool // the lock ends with its holder's session in a store other than Redis
}

// look returns what ls shows.
func (r *onRedis) look(ctx context.Context, f *lsFlags, pattern string, p *out.Progress) ([]lockLine, error) {
	what, isPattern := keyOrPattern(pattern)
	l := r.lister()
	l.all, l.likely = pattern == "", pattern == ""
	l.namespace, l.lease, l.progress = f.namespace, f.lease, p
	return l.locks(ctx, what, isPattern)
}

// locks are those of one Redis server, of a cluster, or of another store.
type locks interface {
	where() string // the address, without its password

	// look returns what a KEY or PATTERN of ls means. With an error it returns
	// what could be seen.
	look(ctx context.Context, f *lsFlags, pattern string, p *out.Progress) ([]lockLine, error)

	// find returns the lock called key. Its Type is empty where there is none.
	find(ctx context.Context, key string) (lockLine, error)

	// force deletes the lock if value still holds it.
	force(ctx context.Context, key, value string) (legacy.Deleted, error)

	// told adds what to do about an error.
	told(err error) error
	close()
}

// openLocks opens the store of a command line. The further flags mean nothing
// outside of Redis.
func openLocks(e *out.Env, cmd *cobra.Command, server *out.ServerFlags, named *out.DialectFlags,
	ofRedis ...string) (locks, error) {
	t, err := server.PickTarget(e)
	switch {
	case err != nil:
		return nil, err
	case t == nil:
		return openServer(e, server, named)
	}
	if err := t.Refuse(cmd, append(ofRedis, "dialect", "dialect-file")...); err != nil {
		return nil, err
	}
	conn, err := t.Connect(cmd.Context())
	if err != nil {
		return nil, err
	}
	return &stored{e, t, conn}, nil
}

// show prints what a look finds. Of a look that could see a part only, it
// prints that part and returns the error.
func (f *lsFlags) show(e *out.Env, ctx context.Context, on locks, pattern string) error {
	p := e.Progress(f.server.Quiet, "keys looked at", -1)
	lines, err := on.look(ctx, f, pattern, p)
	p.End()
	if err != nil {
		err = out.CouldNot(on.told(err), "listing the keys of %s", on.where())
		if len(lines) == 0 {
			return err
		}
	}
	switch {
	case f.asJSON:
		return errors.Join(e.PrintJSON(Locks{"getsetlock.ls/1", append([]lockLine{}, lines...)}), err)
	case len(lines) == 0:
		e.Say(f.server.Quiet, "no locks found")
		return nil
	}
	columns := 0 // all
	if width, _, ok := e.Screen(e.Stdout); ok && !f.wide {
		columns = width - 1 // some terminals wrap after their last column
	}
	for _, line := range lockGrid(lines).Fit(columns, e.Colours(e.Stdout)) {
		fmt.Fprintln(e.Stdout, line)
	}
	return err
}

// onRedis are the locks of one Redis server.
type onRedis struct {
	pool    *redis.Pool
	mux     *wire.Mux
	backend *legacy.Backend
	address string // without its password
	prefer  string // name of the preferred dialect
	timeout time.Duration
	node    bool // the server is a node of a cluster
}

func openServer(e *out.Env, server *out.ServerFlags, named *out.DialectFlags) (locks, error) {
	d, err := named.Pick()
	if err != nil {
		return nil, err
	}
	nodes, address, err := server.Nodes(e)
	if err != nil {
		return nil, err
	}
	if len(nodes.Seeds) > 0 {
		return openCluster(nodes, address, func(pool *redis.Pool, node string) (*onRedis, error) {
			return openPool(e, pool, node, d)
		}), nil
	}
	pool, address, err := server.Open(e)
	if err != nil {
		return nil, err
	}
	return openPool(e, pool, address, d)
}

func openPool(e *out.Env, pool *redis.Pool, address string, d dialect.Dialect) (*onRedis, error) {
	// Verbatim reads keys like Hardened, and needs no times of the fleet.
	backend, err := legacy.New(pool, legacy.Config{Mode: legacy.Verbatim, Dialect: d, Timeout: e.Timeout})
	if err != nil {
		return nil, out.WrongUse("%w", out.InFlags(err))
	}
	mux, err := wire.New(pool, wire.Options{Timeout: e.Timeout})
	if err != nil {
		backend.Close()
		return nil, out.CouldNot(err, "connecting to %s", address)
	}
	return &onRedis{pool, mux, backend, address, d.Name, e.Timeout, false}, nil
}

func (r *onRedis) close() {
	r.mux.Close()
	r.backend.Close()
}

func (r *onRedis) lister() *lister {
	return &lister{mux: r.mux, backend: r.backend, prefer: r.prefer, node: r.node, seen: map[string]bool{}}
}

// locks returns the locks that a key or pattern names, sorted by their names.
func (l *lister) locks(ctx context.Context, what string, isPattern bool) ([]lockLine, error) {
	if err := l.list(ctx, what, isPattern); err != nil {
		return nil, err
	}
	lines := withoutMarks(l.lines)
	slices.SortFunc(lines, byName)
	if err := l.addQueues(ctx, lines); err != nil {
		return nil, err
	}
	return lines, nil
}

func byName(a, b lockLine) int {
	return cmp.Or(cmp.Compare(nameOf(a), nameOf(b)), wrapped(a)-wrapped(b), cmp.Compare(a.raw, b.raw))
}

// nameOf returns the name to sort by: it places a key that a serializer wrote
// next to the plain key.
func nameOf(l lockLine) string {
	return cmp.Or(l.Name, l.Key)
}

func wrapped(l lockLine) int {
	return min(len(l.Name), 1)
}

func lockGrid(lines []lockLine) *out.Grid {
	columns := []out.Column{out.Left("key").Shortened(out.CutMiddle), out.Left("state"),
		out.Left("protocol").Rank(3),
		out.Left("dialect").Rank(5), out.Left("owner").Shortened(out.Cut), out.Right("age").Rank(1),
		out.Right("left"),
		out.Right("waiters").Rank(2), out.Right("ttl").Rank(4), out.Right("fence").Rank(6),
		out.Left("value").Shortened(out.Cut).Rank(7)}
	g := out.NewGrid(columns...)
	for _, l := range lines {
		who := out.Dashed(l.Dialect)
		if n := len(l.Also); n > 0 {
			who = fmt.Sprintf("%s +%d", who, n)
		}
		remaining, ttl := "-", "none"
		if l.Left != nil {
			remaining = out.Rounded(*l.Left)
		}
		switch {
		case l.TTL != nil:
			ttl = out.Rounded(*l.TTL)
		case l.session:
			ttl = "-"
		}
		value := "(" + l.Type + ")"
		if l.Value != nil {
			value = out.Shortened(*l.Value, 40)
		}
		cells := []any{l.names(), out.Painted{Text: l.State, Colour: l.colour()}, out.Dashed(l.Protocol), who,
			l.holder(), l.ageWords(),
			remaining, numberOrDash(l.Waiters), ttl, numberOrDash(l.Fence), value}
		g.Add(cells...)
	}
	return g
}

// holder returns what the lock says about its holder, for people.
func (l lockLine) holder() string {
	return out.Dashed(cmp.Or(l.Note, l.Owner))
}

// names returns the key, and the plain name in front where a serializer wrote
// the key.
func (l lockLine) names() string {
	if l.Name == "" {
		return l.Key
	}
	return fmt.Sprintf("%s (%s: %s)", l.Name, l.Encoding, l.Key)
}

// colour returns the colour of a lock's state. The holder of a token on key M
// alone has lost its lock.
func (l lockLine) colour() out.Colour {
	switch {
	case l.mark && l.State == StateHeld:
		return out.Bad
	case l.State == StateExpired:
		return out.Doubtful
	case l.State == StateHeld:
		return out.NoColour
	}
	return out.Faint
}

func (l lockLine) ageWords() string {
	if l.Age == nil {
		return "-"
	}
	return out.Rounded(*l.Age)
}

func numberOrDash(n *int64) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}

// lister reads a server's keys.
type lister struct {
	mux      *wire.Mux
	backend  *legacy.Backend
	all      bool // no pattern: only strings can be locks that are shown
	likely   bool // show only what looks like a lock
	node     bool // of a cluster: a key may be on another node
	progress *out.Progress

	prefer    string        // name of the preferred dialect
	namespace string        // of the queues and fencing numbers
	lease     time.Duration // of old clients; zero: unknown

	seen   map[string]bool // keys seen; SCAN may return a key twice
	looked int64
	lines  []lockLine
}

func (l *lister) list(ctx context.Context, what string, isPattern bool) error {
	if l.all || isPattern {
		return l.scan(ctx, scope.Matching(what))
	}
	return l.look(ctx, forms(what))
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

// scan looks at every key in the scope. All of them are in the database that
// the connections select.
func (l *lister) scan(ctx context.Context, meant scope.Scope) error {
	kind := ""
	if l.all {
		kind = "string"
	}
	return keys.Names(ctx, l.mux, meant.Pattern(), kind, func(names []string, _ bool) error {
		return l.look(ctx, slices.DeleteFunc(names,
			func(name string) bool { return !meant.Covers(meant.Database(), name) }))
	})
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
		switch err := errs[i]; {
		case err == nil:
		case l.node && wire.IsRedirect(err):
			continue // it is read where it is
		case wire.IsWrongType(err), l.node && wire.IsCluster(err):
			o = unknown(fresh[i])
		default:
			return err
		}
		line, likely := readLock(o, l.prefer)
		if line.Type != "" && (likely || !l.likely) {
			line.ageBy(l.lease)
			l.lines = append(l.lines, line)
		}
	}
	l.sawMore(len(fresh))
	return nil
}

// unknown describes a key whose key M has another type, so another program
// wrote it: no lock that could be read here. Or M falls into another slot.
func unknown(key string) legacy.Observation {
	return legacy.Observation{Observation: dialect.Observation{Key: key, Exists: true, Type: "unknown"}}
}

// sawMore counts keys for the progress.
func (l *lister) sawMore(n int) {
	l.looked += int64(n)
	if l.progress != nil { // unlock shows none
		l.progress.Set(l.looked)
	}
}

// SPDX-License-Identifier: Apache-2.0

package out

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/spf13/cobra"

	"github.com/getsetlock/getsetlock/internal/cluster"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/modern"
	"github.com/getsetlock/getsetlock/redisconn"
)

// ServerFlags are the flags that choose the server, and --quiet. Redis is the
// last address that was given; a verb with --quorum takes all of them.
type ServerFlags struct {
	Redis, CACert, Cert, Key, PasswordFile string
	Target                                 string // of another store, see TargetFlag
	Quiet                                  bool
	Quorum                                 bool // --quorum: several servers keep each lock
	Epoch                                  int  // --epoch: changes of those servers so far

	// Dial connects to a server; nil: as usual.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	given []string // every --redis, in their order
}

// Register defines the flags on a verb.
func (f *ServerFlags) Register(cmd *cobra.Command) {
	f.RegisterAddress(cmd, "the server's address: redis://[user:password@]host:port/db, rediss:// (TLS), unix:///path, redis+sentinel://host,host/master, rediss+sentinel:// (TLS), redis+cluster://host,host, rediss+cluster:// (TLS) (default $"+redisconn.Env+", else "+redisconn.Default+")")
	f.RegisterFiles(cmd)
	Complete(cmd, "redis", cobra.NoFileCompletions)
}

// RegisterFiles defines the flags for what an address does not say.
func (f *ServerFlags) RegisterFiles(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.PasswordFile, "password-file", "",
		"file with the password, if the address has none; read at each connection (default $"+
			redisconn.EnvPasswordFile+")")
	flags.StringVar(&f.CACert, "cacert", "",
		"file of PEM certificates that rediss:// trusts instead of the system's (default $"+
			redisconn.EnvCACert+")")
	flags.StringVar(&f.Cert, "cert", "",
		"file with the PEM certificate of this client, for servers that demand one (default $"+
			redisconn.EnvCert+")")
	flags.StringVar(&f.Key, "key", "", "file with the key of --cert (default $"+redisconn.EnvKeyFile+")")
}

// QuietFlag defines --quiet, for verbs that print progress or warnings.
func (f *ServerFlags) QuietFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&f.Quiet, "quiet", "q", false, "print no progress and no warnings")
}

// Open returns a pool for the server, and the server's address without its
// password. Nothing has been sent yet.
func (f *ServerFlags) Open(e *Env) (pool *redis.Pool, address string, err error) {
	if err := f.one(e); err != nil {
		return nil, "", err
	}
	return f.pool(e, redisconn.Pick(f.Redis, e.Getenv))
}

// OpenWhole is Open for verbs that look at all keys of a server: it refuses a
// node of a Redis Cluster, which has a part of them only.
func (f *ServerFlags) OpenWhole(e *Env, ctx context.Context) (pool *redis.Pool, address string, err error) {
	pool, address, err = f.Open(e)
	if err != nil {
		return nil, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(e.Timeout, 5*time.Second))
	defer cancel()
	if err := RefuseNode(ctx, pool, address); err != nil {
		_ = pool.Close()
		return nil, "", err
	}
	return pool, address, nil
}

// RefuseNode returns an error if the server is a node of a Redis Cluster of
// several. If the server does not say what it is, that is nil, and what the
// verb does next says why.
func RefuseNode(ctx context.Context, pool *redis.Pool, address string) error {
	c, err := pool.DialContext(ctx)
	if err != nil {
		return nil
	}
	defer c.Close()
	if err := cluster.Refuse(ctx, c); errors.Is(err, cluster.ErrNode) {
		return WrongUse("%s cannot be used for this: %w", address, err)
	}
	return nil
}

// Nodes returns the nodes of a Redis Cluster, and its address without its
// password. There are no Seeds where the address is that of one server. Nothing
// has been sent yet.
func (f *ServerFlags) Nodes(e *Env) (nodes redisconn.Nodes, address string, err error) {
	if err := f.one(e); err != nil {
		return nodes, "", err
	}
	raw := redisconn.Pick(f.Redis, e.Getenv)
	a, err := redisconn.Parse(raw)
	if err == nil {
		nodes, err = a.Nodes(f.options(e, raw))
	}
	if err != nil {
		return nodes, "", WrongUse("%w", unprefixed{err})
	}
	if pool := nodes.Pool; pool != nil {
		nodes.Pool = func(node string) *redis.Pool { return f.advised(e, pool(node)) }
	}
	return nodes, a.Redacted(), nil
}

// Tokens returns a backend of token locks on the server or the cluster, and its
// address without its password. Nothing has been sent yet.
func (f *ServerFlags) Tokens(e *Env, cfg modern.Config) (b *modern.Backend, address string, err error) {
	nodes, address, err := f.Nodes(e)
	if err != nil {
		return nil, "", err
	}
	if len(nodes.Seeds) > 0 {
		b, err = modern.NewCluster(nodes, cfg)
	} else {
		var pool *redis.Pool
		if pool, address, err = f.Open(e); err != nil {
			return nil, "", err
		}
		b, err = modern.New(pool, cfg)
	}
	if err != nil {
		return nil, "", WrongUse("%w", InFlags(err))
	}
	return b, address, nil
}

// pool returns a pool for one server.
func (f *ServerFlags) pool(e *Env, raw string) (pool *redis.Pool, address string, err error) {
	a, err := redisconn.Parse(raw)
	if err != nil {
		return nil, "", WrongUse("%w", unprefixed{err})
	}
	pool, err = a.Pool(f.options(e, raw))
	if err != nil {
		return nil, "", WrongUse("%w", unprefixed{err})
	}
	return f.advised(e, pool), a.Redacted(), nil
}

// advised makes the pool's errors name the variables that are not used.
func (f *ServerFlags) advised(e *Env, pool *redis.Pool) *redis.Pool {
	if unused := f.unused(e); unused != "" {
		dial := pool.DialContext
		pool.DialContext = func(ctx context.Context) (redis.Conn, error) {
			c, err := dial(ctx)
			var advised interface{ Advised() bool } // see package redisconn
			if errors.As(err, &advised) {
				err = fmt.Errorf("%w; %s", err, unused)
			}
			return c, err
		}
	}
	return pool
}

// unused says which variables are set and not used, since they belong to
// another server, see options. Without it, an error asks for a
// password that its reader has given.
func (f *ServerFlags) unused(e *Env) string {
	if f.ofEnvironment(e) {
		return ""
	}
	return unusedVariables(e, redisconn.Pick(f.Redis, e.Getenv), "--redis")
}

// unusedVariables is unused for the address that flag names.
func unusedVariables(e *Env, address, flag string) string {
	owner := redisconn.Env
	if e.Getenv(owner) == "" {
		owner = EnvTarget
	}
	if set := e.Getenv(owner); set == "" || set == address {
		return ""
	}
	var names []string
	for _, name := range ServerVariables {
		if name != redisconn.Env && name != EnvTarget && e.Getenv(name) != "" {
			names = append(names, "$"+name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("not used: %s, set for the server of $%s, while %s names another",
		strings.Join(names, ", "), owner, flag)
}

// options returns the options for one of the addresses: from the flags, else
// from the environment.
//
// The other variables belong to the address in [redisconn.Env], and to the
// address of --redis only where that variable is not set or says the same. A
// run sets them for its command. That command may name another server by
// --redis, which must not get this server's password. Where [EnvTarget] alone
// is set, they belong to that store.
func (f *ServerFlags) options(e *Env, raw string) (o redisconn.Options) {
	if f.ofEnvironment(e) {
		o = redisconn.OptionsFromEnv(raw, e.Getenv)
	}
	if f.PasswordFile != "" {
		o.Password, o.PasswordFile = "", f.PasswordFile
	}
	if f.CACert != "" {
		o.CACert, o.CACertFrom = f.CACert, ""
	}
	if f.Cert != "" || f.Key != "" {
		o.Cert, o.Key = f.Cert, f.Key
	}
	o.DialContext = f.Dial
	return o
}

// ServerVariables are the variables that name the server for a started program,
// see [ServerFlags.Environment].
var ServerVariables = []string{redisconn.Env, EnvTarget, redisconn.EnvPassword, redisconn.EnvPasswordFile,
	redisconn.EnvSentinelUser, redisconn.EnvSentinelPassword, redisconn.EnvSentinelPasswordFile,
	redisconn.EnvCACert, redisconn.EnvCert, redisconn.EnvKeyFile}

// Environment returns the ServerVariables that lead a started program to the
// same server, with the same user and password. File paths are absolute, since
// the program may change its directory first.
func (f *ServerFlags) Environment(e *Env) []string {
	addresses := f.Addresses(e)
	env := []string{redisconn.Env + "=" + strings.Join(addresses, " ")}
	var o redisconn.Options
	for _, raw := range addresses {
		o = fuller(o, f.options(e, raw))
	}
	if t, err := f.PickTarget(e); err == nil && t != nil {
		env[0] = EnvTarget + "=" + t.Raw
		o = redisconn.Options{Password: t.Options.Password, PasswordFile: t.Options.PasswordFile,
			CACert: t.Options.CACert, Cert: t.Options.Cert, Key: t.Options.Key}
	}
	for _, v := range []struct {
		name, value string
		file        bool
	}{
		{redisconn.EnvPassword, o.Password, false},
		{redisconn.EnvPasswordFile, o.PasswordFile, true},
		{redisconn.EnvSentinelUser, o.SentinelUser, false},
		{redisconn.EnvSentinelPassword, o.SentinelPassword, false},
		{redisconn.EnvSentinelPasswordFile, o.SentinelPasswordFile, true},
		{redisconn.EnvCACert, o.CACert, true},
		{redisconn.EnvCert, o.Cert, true},
		{redisconn.EnvKeyFile, o.Key, true},
	} {
		if v.value == "" {
			continue
		}
		if absolute, err := filepath.Abs(v.value); v.file && err == nil {
			v.value = absolute
		}
		env = append(env, v.name+"="+v.value)
	}
	return env
}

// DialectFlags are the flags that say what the old clients write.
type DialectFlags struct{ Name, File string }

// Register defines the flags on a verb. use is the help text of --dialect.
func (f *DialectFlags) Register(cmd *cobra.Command, use string) {
	cmd.Flags().StringVar(&f.Name, "dialect", "", use)
	cmd.Flags().StringVar(&f.File, "dialect-file", "", "JSON file that describes another dialect")
	Complete(cmd, "dialect", completeDialect)
}

// Given reports whether the flags name a dialect.
func (f *DialectFlags) Given() bool { return f.Name != "" || f.File != "" }

// Named returns the dialect that the flags name, in a list, else nothing.
func (f *DialectFlags) Named() ([]dialect.Dialect, error) {
	if !f.Given() {
		return nil, nil
	}
	d, err := f.Pick()
	return []dialect.Dialect{d}, err
}

// BehindNeedsDialect says why --behind is refused where no dialect is named.
const BehindNeedsDialect = "--behind needs --dialect: only a named dialect says that the time in a value is the end of a lease, not its start; for clients of jedis-lock add --dialect jedis"

// Pick returns the dialect that the flags name, else jedis.
func (f *DialectFlags) Pick() (dialect.Dialect, error) {
	switch {
	case f.Name != "" && f.File != "":
		return dialect.Dialect{}, WrongUse("--dialect and --dialect-file contradict each other: give one")
	case f.File != "":
		file, err := os.Open(f.File)
		if err != nil {
			return dialect.Dialect{}, WrongUse("--dialect-file: %w", err)
		}
		defer file.Close()
		d, err := dialect.ParseFrom(file)
		if err != nil {
			return dialect.Dialect{}, WrongUse("--dialect-file %s: %w", f.File, err)
		}
		return d, nil
	case f.Name != "":
		d, err := dialect.Lookup(f.Name)
		if err != nil {
			return dialect.Dialect{}, WrongUse("--dialect: %w", err)
		}
		return d, nil
	}
	return dialect.Jedis(), nil
}

func completeDialect(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	var found []string
	for _, d := range dialect.Presets() {
		if strings.HasPrefix(dialect.Fold(d.Name), dialect.Fold(begun)) {
			found = append(found, d.Name+"\t"+d.Library)
		}
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

// Choices completes a flag that takes one of a few words.
func Choices(words ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
}

// Complete sets what a shell offers for a flag. It panics if the flag does not
// exist.
func Complete(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err) // the flag is not defined: a bug here, which shows at the first start
	}
}

// Database returns the database number in the server's address.
func (f *ServerFlags) Database(e *Env) int {
	a, err := redisconn.Parse(redisconn.Pick(f.Redis, e.Getenv))
	if err != nil {
		return 0 // Open reports the error
	}
	return a.Database()
}

// Rule refuses flags where they mean nothing.
type Rule struct {
	If    bool
	Flags []string
	Says  string // why; %s is the flag that was given
}

// Refuse returns an error for the first flag that a rule refuses.
func Refuse(cmd *cobra.Command, rules ...Rule) error {
	for _, r := range rules {
		if at := slices.IndexFunc(r.Flags, cmd.Flags().Changed); r.If && at >= 0 {
			return WrongUse("%s", strings.ReplaceAll(r.Says, "%s", r.Flags[at]))
		}
	}
	return nil
}

// NoArgs refuses arguments with a clear message. Without it cobra reports them
// as unknown commands.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasParent() {
		return WrongUse("it takes no arguments, but got %q", args[0])
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	near := Nearest(args[0], names)
	if begun := cmd.SuggestionsFor(args[0]); len(begun) > 0 { // a synonym, or the beginning of a name
		near = begun[0]
	}
	if near != "" {
		return WrongUse("there is no command %q; did you mean %s? See getsetlock --help", args[0], near)
	}
	return WrongUse("there is no command %q; see getsetlock --help", args[0])
}

// Nearest returns the name that a mistyped word may have meant: one that begins
// with the word, else the one that differs least. It returns "" where all names
// differ in more than half of the word's letters, or in more than two. Letters
// of the other case do not differ, and two letters swapped are one difference.
func Nearest(word string, names []string) string {
	if word == "" {
		return ""
	}
	word = strings.ToLower(word)
	near, least := "", min(2, len(word)/2)+1
	for _, name := range names {
		d := dialect.TypingErrors(word, strings.ToLower(name))
		if strings.HasPrefix(strings.ToLower(name), word) {
			d = 0
		}
		if d < least {
			near, least = name, d
		}
	}
	return near
}

// Examples joins the lines of a verb's examples, indented by two blanks.
func Examples(lines ...string) string { return "  " + strings.Join(lines, "\n  ") }

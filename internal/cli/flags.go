package cli

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/gomodule/redigo/redis"
	"github.com/spf13/cobra"

	"github.com/getsetlock/getsetlock/internal/redisurl"
	"github.com/getsetlock/getsetlock/legacy/dialect"
)

// serverFlags say which server, and what is known of it.
type serverFlags struct {
	redis, caCert string
	quiet         bool
}

func (f *serverFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.redis, "redis", "", "the server: redis://[user:password@]host:port/db, rediss:// (TLS), unix:///path, redis+sentinel://host,host/master (default $"+redisurl.Env+", else "+redisurl.Default+")")
	cmd.Flags().StringVar(&f.caCert, "cacert", "", "file of PEM certificates by which rediss:// is checked instead of the system's (default $"+redisurl.EnvCACert+" where the server is $"+redisurl.Env+")")
	complete(cmd, "redis", cobra.NoFileCompletions)
}

// quietFlag is for verbs that say more than their answer.
func (f *serverFlags) quietFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "print no progress and no warnings")
}

// open returns a pool onto the server, which has not been asked anything yet, and its address for
// people.
func (f *serverFlags) open(e *Env) (pool *redis.Pool, address string, err error) {
	raw, options := f.picked(e)
	a, err := redisurl.Parse(raw)
	if err != nil {
		return nil, "", wrongUse("%w", err)
	}
	pool, err = a.Pool(options)
	if err != nil {
		return nil, "", wrongUse("%w", err)
	}
	return pool, a.Redacted(), nil
}

// picked returns the address of the server, with its password, and what goes with it:
// from the flags, else from the environment, else the default.
//
// The file in the environment is read only together with the address there, and only if
// that asks for TLS. A run sets both for its command, which may name another server
// by --redis or replace the address alone.
func (f *serverFlags) picked(e *Env) (raw string, options redisurl.Options) {
	raw = redisurl.Pick(f.redis, e.Getenv)
	if f.caCert != "" || f.redis != "" || e.Getenv(redisurl.Env) == "" {
		return raw, redisurl.Options{CACert: f.caCert}
	}
	if a, err := redisurl.Parse(raw); err != nil || !a.TLS() {
		return raw, redisurl.Options{}
	}
	return raw, redisurl.Options{CACert: e.Getenv(redisurl.EnvCACert), CACertFrom: "$" + redisurl.EnvCACert}
}

// serverVariables name the server for further programs, see [serverFlags.environment].
var serverVariables = []string{redisurl.Env, redisurl.EnvCACert}

// environment are the serverVariables that lead a program started by this one to the
// same server, with the same user and password. The path of a file is absolute: the
// program may change its folder first.
func (f *serverFlags) environment(e *Env) []string {
	raw, options := f.picked(e)
	env := []string{redisurl.Env + "=" + raw}
	if file := options.CACert; file != "" {
		if absolute, err := filepath.Abs(file); err == nil {
			file = absolute
		}
		env = append(env, redisurl.EnvCACert+"="+file)
	}
	return env
}

// dialectFlags say what the old clients write.
type dialectFlags struct{ name, file string }

func (f *dialectFlags) register(cmd *cobra.Command, use string) {
	cmd.Flags().StringVar(&f.name, "dialect", "", use)
	cmd.Flags().StringVar(&f.file, "dialect-file", "", "a JSON file with a dialect of your own")
	complete(cmd, "dialect", completeDialect)
}

// pick returns the dialect asked for, else jedis.
func (f *dialectFlags) pick() (dialect.Dialect, error) {
	switch {
	case f.name != "" && f.file != "":
		return dialect.Dialect{}, wrongUse("--dialect and --dialect-file both name a dialect: give one")
	case f.file != "":
		file, err := os.Open(f.file)
		if err != nil {
			return dialect.Dialect{}, wrongUse("--dialect-file: %w", err)
		}
		defer file.Close()
		d, err := dialect.ParseFrom(file)
		if err != nil {
			return dialect.Dialect{}, wrongUse("--dialect-file %s: %w", f.file, err)
		}
		return d, nil
	case f.name != "":
		d, err := dialect.Lookup(f.name)
		if err != nil {
			return dialect.Dialect{}, wrongUse("--dialect: %w", err)
		}
		return d, nil
	}
	return dialect.Jedis(), nil
}

func completeDialect(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	var found []string
	for _, d := range dialect.Presets() {
		if strings.HasPrefix(plainName(d.Name), plainName(begun)) {
			found = append(found, d.Name+"\t"+d.Library)
		}
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

// plainName is how names of dialects are compared.
func plainName(s string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(s))
}

// choices completes a flag that takes one of a few words.
func choices(words ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
}

func complete(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err) // a flag that was not defined: a fault of ours, at the first start
	}
}

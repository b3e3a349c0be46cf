// SPDX-License-Identifier: Apache-2.0

package out

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/spf13/cobra"

	"github.com/getsetlock/getsetlock/modern"
	"github.com/getsetlock/getsetlock/quorum"
	"github.com/getsetlock/getsetlock/redisconn"
)

// addressFlag is the value of --redis. Each use of the flag adds an address.
type addressFlag struct{ *ServerFlags }

func (addressFlag) Type() string { return "string" }

func (a addressFlag) String() string {
	if a.ServerFlags == nil {
		return "" // pflag asks a zero value
	}
	return a.Redis
}

func (a addressFlag) Set(text string) error {
	a.Redis, a.given = text, append(a.given, text)
	return nil
}

// RegisterAddress defines --redis alone.
func (f *ServerFlags) RegisterAddress(cmd *cobra.Command, use string) {
	cmd.Flags().Var(addressFlag{f}, "redis", use)
}

// QuorumFlag defines --quorum, for verbs that can use several servers.
func (f *ServerFlags) QuorumFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.Quorum, "quorum", false,
		"each lock is kept by a majority of several servers, which --redis names one by one (or $"+
			redisconn.Env+", separated by blanks); see docs/guide/quorum.md")
	cmd.Flags().IntVar(&f.Epoch, "epoch", 0,
		"with --quorum the number of changes of its servers so far; see docs/guide/quorum.md")
}

// Addresses returns every address to use: those of --redis, else those in the
// environment, else the default. There is at least one.
func (f *ServerFlags) Addresses(e *Env) []string {
	given := f.given
	if len(given) == 0 {
		given = []string{redisconn.Pick(f.Redis, e.Getenv)}
	}
	var all []string
	for _, text := range given {
		all = append(all, splitAddresses(text)...)
	}
	return all
}

// splitAddresses splits a list of addresses at its blanks. A blank inside an
// address, such as in the path of a socket, splits nothing, since no address
// begins after it.
func splitAddresses(text string) []string {
	words := strings.Fields(text)
	isNone := func(word string) bool { return !strings.Contains(word, "://") }
	if len(words) < 2 || slices.ContainsFunc(words, isNone) {
		return []string{text}
	}
	return words
}

// ofEnvironment reports whether the other variables belong to the addresses to
// use; see options.
func (f *ServerFlags) ofEnvironment(e *Env) bool {
	set := e.Getenv(redisconn.Env)
	if set == "" {
		return e.Getenv(EnvTarget) == ""
	}
	return slices.Equal(splitAddresses(set), f.Addresses(e))
}

// notElsewhere refuses the default server where a variable names another store.
// A verb that knows other stores never comes here with that.
func (f *ServerFlags) notElsewhere(e *Env) error {
	if f.Redis != "" || e.Getenv(redisconn.Env) != "" || e.Getenv(EnvTarget) == "" {
		return nil
	}
	return WrongUse("$%s names another store, and this is for Redis: name a server by --redis; %s", EnvTarget,
		OtherStores)
}

// one refuses several addresses where one server keeps the locks.
func (f *ServerFlags) one(e *Env) error {
	if err := f.notElsewhere(e); err != nil {
		return err
	}
	n := len(f.Addresses(e))
	switch {
	case n == 1:
		return nil
	case len(f.given) > 0:
		return WrongUse("--redis names %d servers, and without --quorum a lock is on one: name one, or give --quorum where the verb has it", n)
	}
	return WrongUse("$%s names %d servers, and without --quorum a lock is on one: give --quorum where the verb has it, or name one server by --redis", redisconn.Env, n)
}

// Member is one of the servers of a quorum.
type Member struct {
	Pool    *redis.Pool
	Address string // without its password
}

// Members returns a pool for each server of a quorum. Nothing has been sent
// yet. It refuses numbers of servers and addresses that make no quorum.
func (f *ServerFlags) Members(e *Env) ([]Member, error) {
	if err := f.notElsewhere(e); err != nil {
		return nil, err
	}
	raws := f.Addresses(e)
	if err := quorumOf(len(raws)); err != nil {
		return nil, err
	}
	var all []Member
	seen := map[string]string{}
	for _, raw := range raws {
		pool, address, err := f.pool(e, raw)
		if err != nil {
			return nil, err
		}
		if scheme, _, _ := strings.Cut(address, "://"); strings.HasSuffix(scheme, "+sentinel") {
			return nil, WrongUse("%s is no member of a quorum: sentinels may lead to another server, which knows nothing of the votes of the first; name a server itself, without replicas", address)
		}
		switch other := seen[place(address)]; other {
		case "":
		case address:
			return nil, WrongUse("%s is named twice, and each server has one vote: name different ones", address)
		default:
			return nil, WrongUse("%s and %s are the same server, and each server has one vote: name different ones", other, address)
		}
		seen[place(address)] = address
		all = append(all, Member{pool, address})
	}
	return all, nil
}

// quorumOf refuses a number of servers that is worse than a smaller one.
func quorumOf(n int) error {
	switch {
	case n == 1:
		return WrongUse("--quorum keeps each lock on a majority of several servers, and one is named: give --redis three or five times, or leave out --quorum")
	case n == 2:
		return WrongUse("--quorum with 2 servers: a majority of 2 is both, so the loss of either stops every lock; give --redis three or five times")
	case n%2 == 0:
		return WrongUse("--quorum with %d servers: a majority of %d is %d, so locks survive the loss of %d, as with %d servers; give --redis %d or %d times",
			n, n, n/2+1, n/2-1, n-1, n-1, n+1)
	}
	return nil
}

// place returns where a server listens, by which two addresses are compared.
func place(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return cmp.Or(u.Host, u.Path)
}

// Servers returns the addresses of a quorum, for messages.
func Servers(all []Member) string {
	var names []string
	for _, m := range all {
		names = append(names, m.Address)
	}
	return fmt.Sprintf("a quorum of %s", strings.Join(names, ", "))
}

// fuller returns a with what only b has.
func fuller(a, b redisconn.Options) redisconn.Options {
	a.Password = cmp.Or(a.Password, b.Password)
	a.PasswordFile = cmp.Or(a.PasswordFile, b.PasswordFile)
	a.SentinelUser = cmp.Or(a.SentinelUser, b.SentinelUser)
	a.SentinelPassword = cmp.Or(a.SentinelPassword, b.SentinelPassword)
	a.SentinelPasswordFile = cmp.Or(a.SentinelPasswordFile, b.SentinelPasswordFile)
	a.CACert, a.Cert, a.Key = cmp.Or(a.CACert, b.CACert), cmp.Or(a.Cert, b.Cert), cmp.Or(a.Key, b.Key)
	return a
}

// GreatestTTL is the greatest TTL that the clients of a quorum ask for, unless
// --greatest says otherwise.
const GreatestTTL = 30 * time.Second

// Quorum returns the backend on the servers of a quorum. Nothing is sent.
func Quorum(e *Env, members []Member, each modern.Config, all quorum.Config) (*quorum.Backend, error) {
	each.Timeout = e.Timeout
	var opened []quorum.Member
	var closers []func() error
	fail := func(err error) (*quorum.Backend, error) {
		for _, end := range closers {
			_ = end()
		}
		return nil, WrongUse("%w", InFlags(err))
	}
	for _, m := range members {
		each.Name = place(m.Address)
		b, err := modern.New(m.Pool, each)
		if err != nil {
			return fail(err)
		}
		closers = append(closers, b.Close)
		opened = append(opened, b)
	}
	b, err := quorum.New(opened, all)
	if err != nil {
		return fail(err)
	}
	return b, nil
}

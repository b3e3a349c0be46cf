// SPDX-License-Identifier: Apache-2.0

package out

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/backing"
	"github.com/getsetlock/getsetlock/redisconn"
)

// EnvTarget is the variable for the address of a store other than Redis, where
// neither --target nor --redis is given.
const EnvTarget = "GETSETLOCK_TARGET"

// OtherStores says which verbs have --target.
const OtherStores = "run, hold, wait, ls and unlock know other stores"

// targetTimeout bounds one answer of a store where Env says nothing. A write to
// a majority of disks may take longer than an answer of Redis.
const targetTimeout = 5 * time.Second

// TargetFlag defines --target, for verbs that also work on other stores.
func (f *ServerFlags) TargetFlag(cmd *cobra.Command) {
	cmd.Flags().Var((*targetFlag)(&f.Target), "target", "another store than Redis: etcd://host:port,host:port or zookeeper://host:port,host:port/chroot; etcds:// and zookeepers:// with TLS (default $"+EnvTarget+")")
	Complete(cmd, "target", cobra.NoFileCompletions)
}

// targetFlag is the value of --target. A script whose variable is not set must
// not take its lock on a Redis server instead.
type targetFlag string

func (t *targetFlag) Set(text string) error {
	if text == "" {
		return errors.New("it is empty: name a store, or leave the flag out")
	}
	*t = targetFlag(text)
	return nil
}

func (t *targetFlag) String() string { return string(*t) }
func (t *targetFlag) Type() string   { return "string" }

// Target is the store of --target.
type Target struct {
	backing.Store
	Raw     string // address, with its password
	Address backing.Address
	Options backing.Options
}

// PickTarget returns the store of --target, else of $GETSETLOCK_TARGET. It is
// nil where the command line means a Redis server. Nothing is sent.
func (f *ServerFlags) PickTarget(e *Env) (*Target, error) {
	raw, err := f.targetAddress(e)
	if raw == "" || err != nil {
		return nil, err
	}
	from := "--target"
	if f.Target == "" {
		from = "$" + EnvTarget
	}
	if f.Quorum {
		return nil, WrongUse("--quorum takes the addresses of several Redis servers, and %s names another store",
			from)
	}
	a, store, err := backing.Parse(raw, e.Stores)
	if err != nil {
		return nil, WrongUse("%s: %w", from, err)
	}
	t := &Target{Store: store, Raw: raw, Address: a, Options: f.targetOptions(e, raw, a)}
	t.Options.Timeout = cmp.Or(e.Timeout, targetTimeout)
	t.Options.Clock, t.Options.Logger = e.Clock, e.Logger(f.Quiet)
	if err := t.Options.Check(a); err != nil {
		if unused := unusedVariables(e, raw, "--target"); unused != "" {
			err = fmt.Errorf("%w; %s", err, unused)
		}
		return nil, WrongUse("%s: %w", from, err)
	}
	return t, nil
}

// targetAddress returns the address of the store, with its password, and ""
// for a Redis server.
func (f *ServerFlags) targetAddress(e *Env) (string, error) {
	set := e.Getenv(EnvTarget)
	switch {
	case f.Redis != "" && f.Target != "":
		return "", WrongUse("--redis and --target name two servers: give one of them")
	case f.Redis != "":
		return "", nil
	case f.Target == "" && set != "" && e.Getenv(redisconn.Env) != "":
		return "", WrongUse("$%s and $%s name two servers: unset one of them, or give --redis or --target",
			redisconn.Env, EnvTarget)
	}
	return cmp.Or(f.Target, set), nil
}

// targetOptions returns what flags and environment say besides the address. As
// with Redis, the variables belong to the server that a variable names.
func (f *ServerFlags) targetOptions(e *Env, raw string, a backing.Address) backing.Options {
	var o backing.Options
	set := e.Getenv(EnvTarget)
	if e.Getenv(redisconn.Env) == "" && (set == "" || set == raw) {
		if !a.HasPassword() {
			o.Password, o.PasswordFile = e.Getenv(redisconn.EnvPassword), e.Getenv(redisconn.EnvPasswordFile)
		}
		if a.TLS {
			o.CACert, o.Cert, o.Key = e.Getenv(redisconn.EnvCACert), e.Getenv(redisconn.EnvCert),
				e.Getenv(redisconn.EnvKeyFile)
		}
	}
	if f.PasswordFile != "" {
		o.Password, o.PasswordFile = "", f.PasswordFile
	}
	o.CACert = cmp.Or(f.CACert, o.CACert)
	if f.Cert != "" || f.Key != "" {
		o.Cert, o.Key = f.Cert, f.Key
	}
	return o
}

// Refuse refuses flags that mean nothing in a store other than Redis.
func (t *Target) Refuse(cmd *cobra.Command, names ...string) error {
	return Refuse(cmd, Rule{If: true, Flags: names,
		Says: "--%s is for locks on Redis: " + t.Name + " has nothing like it; leave it out"})
}

// Where is the address for messages, without its password.
func (t *Target) Where() string { return t.Address.String() }

// Connect opens a connection. The store's own error says what to do.
func (t *Target) Connect(ctx context.Context) (backing.Conn, error) {
	conn, err := t.Open(ctx, t.Address, t.Options)
	if err != nil {
		return nil, CouldNot(&advisedError{err, ""}, "connecting to %s", t.Where())
	}
	return conn, nil
}

// ToldBy adds to an error of a connection, or of its backend, what to do about
// it, and names flags instead of fields. The advice for Redis servers is then
// left out. It returns nil for nil.
func ToldBy(conn backing.Conn, err error) error {
	if err == nil {
		return nil
	}
	return &advisedError{err, conn.Advice(err)}
}

// advisedError is an error that says what to do about it.
type advisedError struct {
	error
	advice string
}

// inFlags replaces the names of fields in the errors of stores.
var inFlags = strings.NewReplacer("Config.TTL", "--ttl", "Config.User and Config.Password",
	"user and password", "Config.Chroot", "the chroot", "Config.Margin",
	"its margin of safety", " within Config.Timeout", " in time", " (set Config.TLS.Certificates)", "")

func (e *advisedError) Error() string {
	text := inFlags.Replace(e.error.Error())
	if e.advice != "" {
		text += "; " + e.advice
	}
	return text
}

func (e *advisedError) Unwrap() error { return e.error }

// Advised reports that the error says what to do, see Explain of package wire.
func (e *advisedError) Advised() bool { return true }

// Passing reports whether trouble may pass, so that another try may succeed.
func Passing(err error) bool {
	var judged interface{ Passing() bool }
	return errors.As(err, &judged) && judged.Passing()
}

// SPDX-License-Identifier: Apache-2.0

package out

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/getsetlock/getsetlock/internal/dialect"
)

// Environment variables that give --behind, --ahead and --idle their defaults.
const (
	EnvBehind = "GETSETLOCK_BEHIND"
	EnvAhead  = "GETSETLOCK_AHEAD"
	EnvIdle   = "GETSETLOCK_IDLE"
)

// ClaimVar defines a flag that claims a property of the old clients. Its target
// follows [dialect.Terms]: 0 while the flag is absent, dialect.Zero after "0s".
func ClaimVar(flags *pflag.FlagSet, at *time.Duration, name, usage string) {
	flags.Var((*ClaimFlag)(at), name, usage)
}

// ClaimFlag is a duration whose zero is a claim.
type ClaimFlag time.Duration

// Type implements [pflag.Value].
func (f *ClaimFlag) Type() string { return "duration" }

func (f *ClaimFlag) String() string {
	d, claimed := dialect.Claimed(time.Duration(*f))
	if !claimed {
		return ""
	}
	return d.String()
}

// Set implements [pflag.Value].
func (f *ClaimFlag) Set(text string) error {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return err
	case d < 0:
		return errors.New("it can't be negative")
	}
	*f = ClaimFlag(dialect.Claim(d))
	return nil
}

// PositiveVar defines a flag that refuses 0s instead of treating it as an
// absent flag. The help text shows no default where initial is zero. Absent is
// what the error advises in place of zero: "leave the flag out for the
// default".
func PositiveVar(flags *pflag.FlagSet, at *time.Duration, name string, initial time.Duration, absent,
	usage string) {
	*at = initial
	flags.Var(&positiveFlag{at, absent}, name, usage)
}

// positiveFlag is a duration greater than zero.
type positiveFlag struct {
	at     *time.Duration
	absent string // what is right in place of zero
}

func (f *positiveFlag) Type() string { return "duration" }

func (f *positiveFlag) String() string {
	if f.at == nil || *f.at == 0 {
		return ""
	}
	return f.at.String()
}

func (f *positiveFlag) Set(text string) error {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return err
	case d <= 0:
		return errors.New("it must be more than zero; " + f.absent)
	}
	*f.at = d
	return nil
}

// IdleOfEnvironment sets idle from the environment where no flag claimed it.
func IdleOfEnvironment(e *Env, idle *time.Duration) error {
	text := e.Getenv(EnvIdle)
	if text == "" || *idle != 0 {
		return nil
	}
	if err := (&positiveFlag{idle, "unset the variable where the pause is unknown"}).Set(text); err != nil {
		return WrongUse("%s=%s: %w", EnvIdle, text, fmt.Errorf("not a duration such as 24h: %w", err))
	}
	return nil
}

// ClaimsOfEnvironment sets behind and ahead from the environment where no flag
// claimed them.
func ClaimsOfEnvironment(e *Env, behind, ahead *time.Duration) error {
	for _, c := range []struct {
		name string
		at   *time.Duration
	}{{EnvBehind, behind}, {EnvAhead, ahead}} {
		text := e.Getenv(c.name)
		if text == "" || *c.at != 0 {
			continue
		}
		if err := (*ClaimFlag)(c.at).Set(text); err != nil {
			return WrongUse("%s=%s: %w", c.name, text, fmt.Errorf("not a duration such as 1s: %w", err))
		}
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

package out

import (
	"cmp"
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
	flags.Var(&TimeFlag{at: at}, name, usage)
}

// PositiveVar defines a flag that refuses 0s instead of treating it as an
// absent flag. The help text shows no default where initial is zero. Absent is
// what the error advises in place of zero: "leave the flag out for the
// default".
func PositiveVar(flags *pflag.FlagSet, at *time.Duration, name string, initial time.Duration, absent,
	usage string) {
	*at = initial
	flags.Var(&TimeFlag{at, absent}, name, usage)
}

// TimeFlag is a duration that 0s does not leave as it was.
type TimeFlag struct {
	at     *time.Duration
	Absent string // what is right in place of zero, which is refused; empty: zero is a claim
}

// Type implements [pflag.Value].
func (f *TimeFlag) Type() string { return "duration" }

func (f *TimeFlag) String() string {
	if f.at == nil {
		return "" // pflag asks a zero value
	}
	d, set := dialect.Claimed(*f.at)
	if !set {
		return ""
	}
	return d.String()
}

// Set implements [pflag.Value].
func (f *TimeFlag) Set(text string) error {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return err
	case f.Absent != "" && d <= 0:
		return errors.New("it must be more than zero; " + f.Absent)
	case d < 0:
		return errors.New("it can't be negative")
	}
	*f.at = dialect.Claim(d)
	return nil
}

// IdleOfEnvironment sets idle from the environment where no flag claimed it.
func IdleOfEnvironment(e *Env, idle *time.Duration) error {
	return ofEnvironment(e, EnvIdle, "24h", TimeFlag{idle, "unset the variable where the pause is unknown"})
}

// ClaimsOfEnvironment sets behind and ahead from the environment where no flag
// claimed them.
func ClaimsOfEnvironment(e *Env, behind, ahead *time.Duration) error {
	return cmp.Or(ofEnvironment(e, EnvBehind, "1s", TimeFlag{at: behind}),
		ofEnvironment(e, EnvAhead, "1s", TimeFlag{at: ahead}))
}

func ofEnvironment(e *Env, name, such string, f TimeFlag) error {
	text := e.Getenv(name)
	if text == "" || *f.at != 0 {
		return nil
	}
	if err := f.Set(text); err != nil {
		return WrongUse("%s=%s: %w", name, text, fmt.Errorf("not a duration such as %s: %w", such, err))
	}
	return nil
}

// SPDX-License-Identifier: Apache-2.0

// Package look remembers on the server since when an old client's key has had
// the same bytes. So short-lived processes, such as cron jobs, can take over a
// crashed client's lock.
//
// A look is a hash at [Key]: the bytes, the server's TIME and run id, and the
// looking machine's boot id and uptime. It is written once, when a stamp is
// found to have passed, and not refreshed while the key has the same bytes.
// Package dialect has the rule that uses its age (Terms.LookAge).
package look

import (
	"context"
	_ "embed"
	"errors"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/internal/wire"
)

//go:embed look.lua
var lookLua string

var script = wire.NewScript(2, lookLua)

// clockAt is the position of TIME among the script's arguments, counted from
// the first key.
const clockAt = 2 + 4

// Key returns the name of the hash that remembers a look at the lock whose
// second key is m. It is in m's slot.
func Key(m string) string { return m + scope.LookSuffix }

// Reading is a moment by the clocks of the server and of the machine that
// looked.
type Reading struct {
	Server time.Duration // TIME, since 1970
	Run    string        // the server's run id; empty if the server has none
	Boot   string        // the machine's boot id and time namespace; empty if it has none
	Up     time.Duration // the machine's uptime, suspension included
}

// Between two looks, clocks of one machine and one server may differ by this
// much. If they differ by more, they do not agree on how much time has passed.
const (
	disagree      = time.Second
	disagreeShare = 1000 // … and a thousandth of that time
)

// Age returns how much time has certainly passed from a remembered reading to a
// later one. comparable is false where the two cannot be compared, so that the
// look has to begin anew. That is so if the server has another run id, or if
// its clock disagrees with the uptime of the machine that looked both times.
//
// For one machine, the clock that ran less counts. Two machines share only
// TIME, which may run fast. Nine tenths of it count, less slack, and only where
// the server has a run id.
func (before Reading) Age(now Reading, slack time.Duration) (age time.Duration, comparable bool) {
	served := now.Server - before.Server
	switch {
	case before.Run != now.Run || served < 0:
		return 0, false
	case before.Boot != "" && before.Boot == now.Boot:
		up := now.Up - before.Up
		if up < 0 || (served-up).Abs() > disagree+max(served, up)/disagreeShare {
			return 0, false
		}
		return min(served, up), true
	case before.Run == "":
		return 0, true // as Looker.Age says
	}
	return max(0, served-served/10-slack), true
}

// Machine reads the boot id and the uptime of this machine. The id is empty if
// the machine has none.
type Machine func() (boot string, up time.Duration)

// Looker looks at keys of one server.
type Looker struct {
	Server  *wire.Mux
	Machine Machine
}

// ErrNoRun says that a look of another machine proves nothing, since the server
// does not show its run id: another server may have remembered the look.
var ErrNoRun = errors.New(
	"the server names no run id (INFO server), so the look that another machine remembered does not count")

var errOddReply = errors.New("the server's reply to a look does not have the form that the script returns")

// Age returns for how long the key l is known to have had bytes. It goes by the
// look that is remembered in memory under the name that [Key] returns. The
// caller has seen the bytes in a reply before it calls. The results are:
//
//   - age, stands true: a look that long ago showed the same bytes.
//   - age 0, stands true: this look is the first. No other is remembered, or
//     only one at other bytes or one that cannot be compared with this one.
//   - stands false: l has other bytes by now, or err says why that is unknown.
//   - ErrNoRun: a look of another machine is remembered, and the server names
//     no run id.
//
// The readings of this look are taken after the reply that showed the bytes,
// the machine's before its script is sent. So they can end one age and begin
// the next.
func (k *Looker) Age(ctx context.Context, l, memory any, bytes string,
	slack time.Duration) (age time.Duration, stands bool, err error) {
	for _, anew := range []string{"", "1"} {
		var now Reading
		now.Boot, now.Up = k.Machine()
		f, err := k.ask(ctx, l, memory, bytes, now, anew)
		if err != nil || len(f) == 0 {
			return 0, false, err
		}
		now.Server, now.Run = since1970(f[0], f[1]), text(f[2])
		if len(f) == firstLook {
			return 0, true, nil
		}
		before := Reading{since1970(f[3], f[4]), text(f[5]), text(f[6]),
			time.Duration(number(f[7])) * time.Microsecond}
		if before.Run == "" && now.Run == "" && (before.Boot == "" || before.Boot != now.Boot) {
			return 0, true, ErrNoRun
		}
		if age, comparable := before.Age(now, slack); comparable {
			return age, true, nil
		}
	}
	return 0, true, nil // another process began anew at the same time
}

// Lengths of the script's replies.
const (
	firstLook = 3
	laterLook = 8
)

func (k *Looker) ask(ctx context.Context, l, memory any, bytes string, now Reading, anew string) ([]any,
	error) {
	args := []any{l, memory, bytes, now.Boot, now.Up.Microseconds(), anew, "", ""}
	reply, err := k.Server.Eval(ctx, script, args...)
	if wire.RefusesTime(err) {
		// TIME is asked after the reply that showed the bytes, so the look is
		// not older than it says.
		var sec, usec int64
		if sec, usec, err = wire.Clock(k.Server.Do(ctx, "TIME")); err == nil {
			args[clockAt], args[clockAt+1] = sec, usec
			reply, err = k.Server.Eval(ctx, script, args...)
		}
	}
	if err != nil {
		return nil, err
	}
	f, ok := reply.([]any)
	if !ok || len(f) != 0 && len(f) != firstLook && len(f) != laterLook {
		return nil, errOddReply
	}
	return f, nil
}

func since1970(sec, usec any) time.Duration {
	return time.Duration(number(sec))*time.Second + time.Duration(number(usec))*time.Microsecond
}

func text(v any) string {
	s, _ := redis.String(v, nil)
	return s
}

func number(v any) int64 {
	n, _ := strconv.ParseInt(text(v), 10, 64)
	return n
}

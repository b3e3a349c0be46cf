// SPDX-License-Identifier: Apache-2.0

package smallverbs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/names"
	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/legacy"
)

// patience is how long a place in a queue counts after its last try; see
// modern/line.lua. A place that claims more was written before the server's
// clock was set back.
const patience = 15 * time.Second

// addQueues adds to token locks how many clients wait for them, and the last
// fencing number. Both stay unknown where the user may not read these keys.
func (l *lister) addQueues(ctx context.Context, lines []lockLine) error {
	name := scope.InName(l.namespace)
	if !slices.ContainsFunc(lines, lockLine.ours) {
		return nil
	}
	var cmds []wire.Command
	for _, line := range lines {
		if !line.ours() {
			continue
		}
		key := line.raw
		if !line.token {
			key = legacy.MarkKey(key)
		}
		cmds = append(cmds, wire.Cmd("GET", names.OfSlot("gsl:fence:"+name+":", key)))
		if line.token {
			now := line.now.UnixMicro()
			recent := fmt.Sprintf("(%d", now-patience.Microseconds())
			cmds = append(cmds,
				wire.Cmd("ZRANGEBYSCORE", names.InSlot("gsl:queue:"+name+":", key), recent, "+inf"),
				wire.Cmd("ZRANGEBYSCORE", names.InSlot("gsl:alive:"+name+":", key), now,
					now+patience.Microseconds()))
		}
	}
	replies := l.mux.Batch(ctx, cmds)
	for i := range lines {
		if !lines[i].ours() {
			continue
		}
		last, err := redis.String(replies[0].Value, replies[0].Err)
		if err := unlessRefused(err); err != nil {
			return err
		}
		if number, err := strconv.ParseInt(last, 10, 64); err == nil {
			lines[i].Fence = &number
		}
		replies = replies[1:]
		if lines[i].token {
			if lines[i].Waiters, err = places(replies[0], replies[1]); err != nil {
				return err
			}
			replies = replies[2:]
		}
	}
	return nil
}

// ours reports whether a getsetlock client holds the lock.
func (l lockLine) ours() bool { return l.token || l.marked || l.mark && l.State == StateHeld }

// places counts the waiters of a queue: those that have come lately, and those
// that have tried again lately. The others were killed. It returns nil where
// the queue cannot be read.
func places(come, again wire.Reply) (*int64, error) {
	living := map[string]bool{}
	for _, r := range []wire.Reply{come, again} {
		members, err := redis.Strings(r.Value, r.Err)
		if err != nil {
			return nil, unlessRefused(err)
		}
		for _, m := range members {
			if process, _, ok := strings.Cut(m, " "); ok && process != "" { // else another program's
				living[m] = true
			}
		}
	}
	return new(int64(len(living))), nil
}

// unlessRefused returns nil where the server answered, and refused or has no
// such value: then something is unknown, and all the rest can be shown.
func unlessRefused(err error) error {
	var refused redis.Error
	if errors.Is(err, redis.ErrNil) || errors.As(err, &refused) {
		return nil
	}
	return err
}

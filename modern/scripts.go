// SPDX-License-Identifier: Apache-2.0

package modern

import (
	"context"
	_ "embed" // the scripts
	"strings"
	"sync"

	"github.com/getsetlock/getsetlock/internal/fencing"
	"github.com/getsetlock/getsetlock/internal/wire"
)

var (
	//go:embed acquire.lua
	acquireSource string
	//go:embed release.lua
	releaseSource string
	//go:embed renew.lua
	renewSource string
	//go:embed watch.lua
	watchSource string
	//go:embed restore.lua
	restoreSource string
	//go:embed look.lua
	lookSource string
	//go:embed raise.lua
	raiseSource string
	//go:embed line.lua
	lineSource string
	//go:embed queue.lua
	queueSource string
	//go:embed gift.lua
	giftSource string
	//go:embed take.lua
	takeSource string
	//go:embed give.lua
	giveSource string
	//go:embed leave.lua
	leaveSource string
)

var (
	acquireScript = wire.NewScript(2, with(acquireSource, fencing.Draw()))
	takeScript    = wire.NewScript(4, with(takeSource, fencing.Draw(), queueSource, lineSource))
	giveScript    = wire.NewScript(3, with(giveSource, fencing.Draw(), queueSource, giftSource))
	leaveScript   = wire.NewScript(4, with(leaveSource, fencing.Draw(), queueSource, giftSource))
	releaseScript = wire.NewScript(1, releaseSource)
	restoreScript = wire.NewScript(1, restoreSource)
	lookScript    = wire.NewScript(1, lookSource)

	giveNumberedScript = wire.NewScript(4, with(giveSource, fencing.Draw(), queueSource, giftSource))

	raiseScript    = wire.NewScript(2, raiseSource)
	lookBothScript = wire.NewScript(2, lookSource)
)

// with inserts functions that several scripts share where source asks for them,
// else after its first line. A script asks as late as it can: a function costs
// the server time even where it is not called.
func with(source string, shared ...string) string {
	const mark = "\n-- insert\n"
	if before, after, ok := strings.Cut(source, mark); ok {
		return before + "\n" + strings.Join(shared, "") + after
	}
	head, body, _ := strings.Cut(source, "\n")
	return head + "\n" + strings.Join(shared, "") + body
}

// sized is a script for any number of keys. It keeps one Script for each number
// that was needed.
type sized struct {
	source string
	made   sync.Map
}

var (
	renewScripts = sized{source: renewSource}
	watchScripts = sized{source: watchSource}
)

func (z *sized) of(keys int) *wire.Script {
	if s, ok := z.made.Load(keys); ok {
		return s.(*wire.Script)
	}
	s, _ := z.made.LoadOrStore(keys, wire.NewScript(keys, z.source))
	return s.(*wire.Script)
}

// drawn runs a script that reads the clock and writes. Redis before 3.2 forbids
// a script to write after it has called TIME; for such servers drawn reads the
// clock by a command of its own.
func (b *engine) drawn(ctx context.Context, s *wire.Script, args ...any) (any, error) {
	return b.drawnOn(ctx, b.user, s, args...)
}

// sender sends commands: a Mux over any connection, a Pin over one.
type sender interface {
	Do(ctx context.Context, name string, args ...any) (any, error)
	Eval(ctx context.Context, s *wire.Script, keysAndArgs ...any) (any, error)
}

// drawnOn is drawn over the given connection.
func (b *engine) drawnOn(ctx context.Context, on sender, s *wire.Script, args ...any) (any, error) {
	if !b.native.oldTime.Load() {
		reply, err := on.Eval(ctx, s, append(args, "", "")...)
		if err == nil || !wire.RefusesTime(err) {
			return reply, err
		}
		b.native.oldTime.Store(true)
	}
	sec, usec, err := wire.Clock(on.Do(ctx, "TIME"))
	if err != nil {
		return nil, notTaken(err)
	}
	return on.Eval(ctx, s, append(args, sec, usec)...)
}

// notTaken marks an error of a command that takes nothing, so that nothing is
// undone.
func notTaken(err error) error { return &wire.NotSentError{Err: err} }

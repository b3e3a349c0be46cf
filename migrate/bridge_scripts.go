package migrate

import (
	"context"
	_ "embed" // the scripts
	"strings"

	"github.com/getsetlock/getsetlock/internal/fencing"
	"github.com/getsetlock/getsetlock/internal/wire"
)

var (
	//go:embed bridge_shared.lua
	bridgeShared string
	//go:embed bridge_mine.lua
	bridgeMine string
	//go:embed bridge_own.lua
	bridgeOwn string
	//go:embed bridge_keep.lua
	bridgeKeep string
	//go:embed bridge_acquire.lua
	bridgeAcquireLua string
	//go:embed bridge_renew.lua
	bridgeRenewLua string
	//go:embed bridge_check.lua
	bridgeCheckLua string
	//go:embed bridge_release.lua
	bridgeReleaseLua string
	//go:embed bridge_left.lua
	bridgeLeft string
	//go:embed bridge_leave.lua
	bridgeLeaveLua string
	//go:embed bridge_done.lua
	bridgeDoneLua string
	//go:embed bridge_look.lua
	bridgeLookLua string
	//go:embed bridge_number.lua
	bridgeNumberLua string
)

// Scripts that may draw a number exist twice: only the second one has the
// counter among its keys.
var (
	acquireScript       = wire.NewScript(3, whole(bridgeAcquireLua))
	acquireNumberScript = wire.NewScript(4, whole(bridgeAcquireLua))
	renewScript         = wire.NewScript(2, whole(bridgeRenewLua))
	checkScript         = wire.NewScript(2, whole(bridgeCheckLua))
	releaseScript       = wire.NewScript(2, whole(bridgeReleaseLua))
	leaveScript         = wire.NewScript(2, whole(bridgeLeaveLua))
	doneScript          = wire.NewScript(2, whole(bridgeDoneLua))
	lookScript          = wire.NewScript(2, whole(bridgeLookLua))
	numberScript        = wire.NewScript(1, whole(bridgeNumberLua))
)

// whole inserts the parts that scripts share, where they ask for them. Scripts
// ask as late as they can, since a function costs the server time even where it
// is not called.
func whole(source string) string {
	source = strings.ReplaceAll(source, "-- insert own\n", bridgeOwn) // asks for other parts
	return strings.NewReplacer(
		"-- insert look\n", bridgeShared, "-- insert mine\n", bridgeMine, "-- insert keep\n", bridgeKeep,
		"-- insert left\n", bridgeLeft, "-- insert draw\n", fencing.Draw(),
	).Replace(source)
}

// numbered runs a script that may draw a number. Servers before 3.2 let no
// script write after it has called TIME. For them the clock is read before, and
// passed as two arguments after the first n.
func (b *bridgeEngine) numbered(ctx context.Context, s *wire.Script, n int, args ...any) (any, error) {
	if !b.cfg.Fence {
		return b.mux.Eval(ctx, s, args...)
	}
	if !b.oldServer.Load() {
		reply, err := b.mux.Eval(ctx, s, args...)
		if err == nil || !wire.RefusesTime(err) {
			return reply, err
		}
		b.oldServer.Store(true)
	}
	sec, usec, err := wire.Clock(b.mux.Do(ctx, "TIME"))
	if err != nil {
		// TIME takes no lock, so the attempt itself was not sent.
		return nil, &wire.NotSentError{Err: err}
	}
	for len(args) < n {
		args = append(args, argNone)
	}
	return b.mux.Eval(ctx, s, append(args, sec, usec)...)
}

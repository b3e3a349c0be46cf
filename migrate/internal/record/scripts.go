package record

import (
	_ "embed" // the scripts

	"github.com/getsetlock/getsetlock/internal/wire"
)

// The sources of the scripts that Java sends too.
var (
	//go:embed beat.lua
	BeatLua string
	//go:embed sweep.lua
	SweepLua string
)

var (
	//go:embed step.lua
	stepLua string
	//go:embed forget.lua
	forgetLua string
)

// The scripts of the registry.
var (
	Beat   = wire.NewScript(1, BeatLua)   // a member's heartbeat
	Step   = wire.NewScript(1, stepLua)   // a change of the record
	Forget = wire.NewScript(1, forgetLua) // the deletion of a key whose value was judged
	Sweep  = wire.NewScript(2, SweepLua)  // the deletion of a tombstone
)

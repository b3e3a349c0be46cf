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
	//go:embed step.lua
	StepLua string
)

var (
	//go:embed forget.lua
	forgetLua string
	//go:embed fold.lua
	foldLua string
	//go:embed drop.lua
	dropLua string
)

// The scripts of the registry.
var (
	Beat   = wire.NewScript(1, BeatLua)   // a member's heartbeat
	Step   = wire.NewScript(1, StepLua)   // a change of the record
	Forget = wire.NewScript(1, forgetLua) // the deletion of a roster's field whose value was judged
	Fold   = wire.NewScript(1, foldLua)   // the same of one that is counted among the gone instead
	Drop   = wire.NewScript(1, dropLua)   // the deletion of a key whose value was judged
	Sweep  = wire.NewScript(2, SweepLua)  // the deletion of a tombstone
)

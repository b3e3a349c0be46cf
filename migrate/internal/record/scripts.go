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
	//go:embed beside.lua
	besideLua string
	//go:embed drop_beside.lua
	dropBesideLua string
	//go:embed end.lua
	endLua string
)

// The scripts of the registry.
var (
	Beat   = wire.NewScript(1, BeatLua)   // a member's heartbeat
	Step   = wire.NewScript(1, StepLua)   // a change of the record
	Forget = wire.NewScript(1, forgetLua) // the deletion of a roster's field whose value was judged
	Fold   = wire.NewScript(1, foldLua)   // the same of one that is counted among the gone instead
	Drop   = wire.NewScript(1, dropLua)   // the deletion of a key whose value was judged
	Beside = wire.NewScript(2, besideLua) // a change of the record while another one stays as it was judged
	Sweep  = wire.NewScript(2, SweepLua)  // the deletion of a tombstone

	DropBeside = wire.NewScript(2, dropBesideLua) // the deletion of a record while another one stays as it was judged
	End        = wire.NewScript(1, endLua)        // the deletion of a roster whose record is gone
)

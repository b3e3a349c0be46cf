// SPDX-License-Identifier: Apache-2.0

package record

import (
	_ "embed" // the scripts

	"github.com/getsetlock/getsetlock/internal/wire"
)

// Sources of the scripts that Java sends too.
var (
	//go:embed beat.lua
	BeatLua string
	//go:embed sweep.lua
	SweepLua string
	//go:embed step.lua
	StepLua string
)

var (
	//go:embed step_target.lua
	stepTargetLua string
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
	Step   = wire.NewScript(1, StepLua)   // changes the record
	Forget = wire.NewScript(1, forgetLua) // deletes a field of the roster while it is as it was judged
	Fold   = wire.NewScript(1, foldLua)   // moves such a field into the count of members gone for long
	Drop   = wire.NewScript(1, dropLua)   // deletes a key while it is as it was judged
	Sweep  = wire.NewScript(2, SweepLua)  // deletes a tombstone

	StepTarget = wire.NewScript(1, stepTargetLua) // changes the record while every member has a target
)

// SPDX-License-Identifier: Apache-2.0

package model

import "slices"

// Phase is a phase of a migration, by name.
type Phase string

// The phases.
const (
	PhaseObserve Phase = "observe"
	PhaseDual    Phase = "dual"
	PhaseSealed  Phase = "sealed"
	PhaseModern  Phase = "modern"
	PhaseClean   Phase = "clean"
)

const knownPhases = "one of observe, dual, sealed, modern, clean"

func (p Phase) known() bool {
	_, ok := levelOf(p)
	return ok
}

// level is a phase as a number. A later phase is a greater one.
type level int8

// noPhase is the level of a client that has not read the record.
const (
	noPhase level = iota
	inObserve
	inDual
	inSealed
	inModern
	inClean
)

var phases = []Phase{"", PhaseObserve, PhaseDual, PhaseSealed, PhaseModern, PhaseClean}

// levelOf returns the level of a phase; the empty name is observe. The result
// is false if no phase has that name.
func levelOf(p Phase) (level, bool) {
	if p == "" {
		return inObserve, true
	}
	i := slices.Index(phases, p)
	return level(max(i, 0)), i > 0
}

// phase returns the level's name; it is empty for noPhase.
func (p level) phase() Phase { return phases[p] }

// onL is what is on key L that a getsetlock client's lease depends on.
type onL int8

// What a lease may depend on.
const (
	onNothing onL = iota // only on M
	onOwn                // on the stamp or guard that the client wrote
	onTomb               // on the tombstone that was there
)

// Package model is what the explorer (package skew) and the simulator (package
// skew/simulate) share: the phases of a migration, in their order, and what the
// lease of a getsetlock client depends on.
package model

import (
	"slices"
	"time"

	"github.com/getsetlock/getsetlock/legacy/dialect"
)

// Phase is a phase of a migration. A later phase is a greater number.
type Phase int8

// The phases. NoPhase is that of a client that has not read the record.
const (
	NoPhase Phase = iota
	Observe
	Dual
	Sealed
	Modern
	Clean
)

var phaseNames = []string{"", "observe", "dual", "sealed", "modern", "clean"}

// PhaseOf returns the phase with a name; the empty name is observe. The result
// is false if no phase has that name.
func PhaseOf(name string) (Phase, bool) {
	if name == "" {
		return Observe, true
	}
	i := slices.Index(phaseNames, name)
	return Phase(max(i, 0)), i > 0
}

// String returns the phase's name; it is empty for NoPhase.
func (p Phase) String() string { return phaseNames[p] }

// OnL is what is on key L that a getsetlock client's lease depends on.
type OnL int8

// What a lease may depend on.
const (
	OnNothing OnL = iota // only on M
	OnOwn                // on the stamp or guard that the client wrote
	OnTomb               // on the tombstone that was there
)

// Said returns what a field of dialect.Terms claims, 0 where it claims nothing.
func Said(field time.Duration) time.Duration {
	d, _ := dialect.Claimed(field)
	return d
}

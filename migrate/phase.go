// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/getsetlock/getsetlock/internal/record"
)

// Phase is how far a fleet is on its way. A new phase holds from the next
// attempt on, and a lease keeps the phase under which it was taken. The numbers
// are in the order of the way.
type Phase int

const (
	// NoPhase is the phase of a member that has never read a record. It takes
	// no lock.
	NoPhase Phase = iota

	// Observe takes turns with the old clients: a stamp on L,
	// as they write it, and a token on M.
	Observe

	// Dual writes a guard on L in place of the stamp, which no old client's
	// clock can expire.
	Dual

	// Sealed shuts old clients out by a tombstone on L. Where L holds no
	// tombstone it does what Dual does, and its release leaves the tombstone.
	Sealed

	// Modern is Sealed with leases of any length. Only a renewal that finds the
	// tombstone still there makes a lease longer than the old clients' rule
	// allows.
	Modern

	// Clean uses M alone.
	Clean
)

var phaseNames = [...]string{NoPhase: "none", Observe: "observe", Dual: "dual", Sealed: "sealed",
	Modern: "modern", Clean: "clean"}

// Phases are all phases in which locks are taken, in the order of the way.
func Phases() []Phase { return []Phase{Observe, Dual, Sealed, Modern, Clean} }

// String is the phase's name, as on the wire.
func (p Phase) String() string {
	if p < NoPhase || int(p) >= len(phaseNames) {
		return fmt.Sprintf("phase %d", int(p))
	}
	return phaseNames[p]
}

// ParsePhase reads a name as [Phase.String] writes it, except "none".
func ParsePhase(name string) (Phase, error) {
	for _, p := range Phases() {
		if p.String() == name {
			return p, nil
		}
	}
	names := make([]string, 0, len(Phases()))
	for _, p := range Phases() {
		names = append(names, p.String())
	}
	return NoPhase, fmt.Errorf("migrate: %q is no phase; there are %s", name, strings.Join(names, ", "))
}

func readPhase(r *record.Reader, text string) Phase {
	if text == NoPhase.String() {
		return NoPhase
	}
	p, err := ParsePhase(text)
	if err != nil {
		r.Bad("phase", text)
	}
	return p
}

// PhaseSource says a [Bridge] by which phase to act. The bridge asks once for
// each attempt, and the answer holds for the life of the grant. Where no phase
// is known it returns an error that wraps [ErrNoPhase] and says what to do; no
// lock is taken then.
type PhaseSource interface {
	Phase(ctx context.Context) (Phase, error)
}

// ErrNoPhase says that no phase is known, so that no lock is taken.
var ErrNoPhase = errors.New("migrate: no phase is known, so no lock is taken")

// Fixed is a source that always says p. Its program is no member of a registry,
// so gates report its guards as those of an unregistered program.
func Fixed(p Phase) PhaseSource { return fixed(p) }

type fixed Phase

func (f fixed) Phase(context.Context) (Phase, error) {
	if p := Phase(f); p < Observe || p > Clean {
		return NoPhase, fmt.Errorf("%w: Fixed(%v) is none of observe, dual, sealed, modern, clean",
			ErrNoPhase, p)
	}
	return Phase(f), nil
}

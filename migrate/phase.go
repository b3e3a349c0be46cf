package migrate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/getsetlock/getsetlock/migrate/internal/record"
)

// Phase is how far a fleet is on the way. It is taken up at the next attempt, and a lease keeps the
// phase under which it was taken. The order of the numbers is the order of the way.
type Phase int

const (
	// NoPhase is that of a member that never read a record: it takes no lock.
	NoPhase Phase = iota

	// Observe takes turns with the old clients in their own bytes, a stamp on the old key, and a token
	// beside it.
	Observe

	// Dual replaces the stamp by a guard, which no old client's clock can expire.
	Dual

	// Sealed keeps the old clients out for good, by a tombstone on the old key. Where the tombstone is
	// missing or another value stands there it does what Dual does, and leaves the tombstone behind.
	Sealed

	// Modern is Sealed with leases of any length: one that outlives the old clients' own is only
	// written by a renewal that finds the tombstone still standing.
	Modern

	// Clean knows the token alone.
	Clean
)

var phaseNames = [...]string{NoPhase: "none", Observe: "observe", Dual: "dual", Sealed: "sealed", Modern: "modern", Clean: "clean"}

// Phases are all phases in which locks are taken, in the order of the way.
func Phases() []Phase { return []Phase{Observe, Dual, Sealed, Modern, Clean} }

// String is the phase's name as it stands on the wire.
func (p Phase) String() string {
	if p < NoPhase || int(p) >= len(phaseNames) {
		return fmt.Sprintf("phase %d", int(p))
	}
	return phaseNames[p]
}

// ParsePhase reads a name as [Phase.String] writes it, "none" excepted.
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

// PhaseSource tells a [Bridge] by which phase to act. It is asked once for each attempt, and what it
// said then holds for the life of the grant. Without a phase there is no lock: it then returns an
// error that wraps [ErrNoPhase] and says what to do.
type PhaseSource interface {
	Phase(ctx context.Context) (Phase, error)
}

// ErrNoPhase says that no phase is known, so that no lock is taken.
var ErrNoPhase = errors.New("migrate: no phase is known, so no lock is taken")

// Fixed is a source that always says p. Who uses it is no member of a registry: the gates count its
// guards as those of a stranger.
func Fixed(p Phase) PhaseSource { return fixed(p) }

type fixed Phase

func (f fixed) Phase(context.Context) (Phase, error) {
	if p := Phase(f); p < Observe || p > Clean {
		return NoPhase, fmt.Errorf("%w: Fixed(%v) is none of observe, dual, sealed, modern, clean", ErrNoPhase, p)
	}
	return Phase(f), nil
}

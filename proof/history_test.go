package proof

import (
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/getsetlock/getsetlock/internal/testing/fleet"
	"github.com/getsetlock/getsetlock/internal/testing/seeds"
)

// Histories of real clients under random schedules, judged in three ways.
// First, an order exists in which a lock explains every acquisition, every
// check and every end, including expiry. Second, no two spans overlap in which
// clients believe that they hold. Third, a counter protected by the lock loses
// no update, either plainly or by fencing numbers.

// deed is one entry of a history, between two readings of an order that all
// clients share.
type deed struct {
	client   int
	kind     string // acquired, trusted, ended
	from, to int64
	old      bool // by an old client
}

// span is a time for which a client believed that it held, in true time.
type span struct {
	from, to time.Time
	old      bool
}

// book is the record of a history.
type book struct {
	mu    sync.Mutex
	order int64
	deeds []deed
	spans []span

	plain, plainWrites        int   // a counter that accepts every write
	fenced, accepted, refused int   // a counter that refuses numbers below the greatest it has seen …
	highest                   int64 // … which is this
}

func (b *book) now() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.order++
	return b.order
}

func (b *book) note(d deed) {
	d.to = b.now()
	b.mu.Lock()
	b.deeds = append(b.deeds, d)
	b.mu.Unlock()
}

// read and write are a job's: what it read at its beginning goes back, plus
// one, at its end.
func (b *book) read(fence int64) (plain, fenced int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.highest = max(b.highest, fence)
	return b.plain, b.fenced
}

func (b *book) write(plain, fenced int, fence int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.plain, b.plainWrites = plain+1, b.plainWrites+1
	switch {
	case fence == 0:
	case fence < b.highest:
		b.refused++
	default:
		b.fenced, b.accepted = fenced+1, b.accepted+1
	}
}

// oneHolder is the lock that must explain a history. Its state is the holder.
// That time ended the lock is an operation too, which may have happened at any
// moment since the holder last checked.
var oneHolder = porcupine.Model{
	Init: func() any { return -1 },
	Step: func(state, input, _ any) (bool, any) {
		holder, d := state.(int), input.(deed)
		switch d.kind {
		case "acquired":
			return holder == -1, d.client
		case "trusted":
			return holder == d.client, holder
		}
		return holder == d.client, -1
	},
}

// explained reports whether a lock explains the deeds of all clients or,
// without old, of the getsetlock clients.
func (b *book) explained(t *testing.T, old bool) bool {
	t.Helper()
	var ops []porcupine.Operation
	for _, d := range b.deeds {
		if old || !d.old {
			ops = append(ops, porcupine.Operation{ClientId: d.client, Input: d, Call: d.from, Return: d.to})
		}
	}
	result := porcupine.CheckOperationsTimeout(oneHolder, ops, 5*time.Minute)
	if result == porcupine.Unknown {
		t.Errorf("%d operations in a minute: no answer", len(ops))
	}
	return result == porcupine.Ok
}

// together returns the longest time for which two clients believed that they
// held, and the greatest number at once.
func (b *book) together(old bool) (longest time.Duration, most int) {
	type edge struct {
		at time.Time
		by int
	}
	var edges []edge
	for _, s := range b.spans {
		if old || !s.old {
			edges = append(edges, edge{s.from, 1}, edge{s.to, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return a.by - b.by
	})
	holding, since := 0, time.Time{}
	for _, e := range edges {
		if holding > 1 {
			longest = max(longest, e.at.Sub(since))
		}
		if holding += e.by; holding == 2 && e.by > 0 {
			since = e.at
		}
		most = max(most, holding)
	}
	return longest, most
}

func (b *book) span(s span) {
	b.mu.Lock()
	b.spans = append(b.spans, s)
	b.mu.Unlock()
}

func (b *book) String() string {
	longest, most := b.together(true)
	return fmt.Sprintf(
		"%d deeds, %d spans, at most %d at once, for %v; counter %d of %d; fenced %d of %d, %d refused",
		len(b.deeds), len(b.spans), most, longest, b.plain, b.plainWrites, b.fenced, b.accepted, b.refused)
}

var histories = flag.Uint64("histories", 1, "how many histories of each kind")

// eachSeed runs histories with the fixed seeds, and one with the commit's seed.
func eachSeed(t *testing.T, each func(t *testing.T, seed uint64)) {
	t.Helper()
	all := seeds.With(t, *seed)
	for n := uint64(1); n < *histories; n++ {
		all = append(all, *seed+n)
	}
	for _, seed := range all {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { each(t, seed) })
	}
}

// clean checks that all three judges find nothing, about all clients or about
// the getsetlock clients.
func (b *book) clean(t *testing.T, old bool) {
	t.Helper()
	t.Log(b)
	if !b.explained(t, old) {
		t.Error("no lock explains this history")
	}
	if longest, most := b.together(old); most > 1 && longest > 0 {
		t.Errorf("%d believed that they held, for %v", most, longest)
	}
	if old && b.plain != b.plainWrites {
		t.Errorf("the counter lost %d of %d updates", b.plainWrites-b.plain, b.plainWrites)
	}
	if b.fenced != b.accepted {
		t.Errorf("the fenced counter lost %d of %d updates", b.accepted-b.fenced, b.accepted)
	}
	if len(b.spans) < 12 && !raced {
		t.Errorf("only %d leases", len(b.spans))
	}
}

// Within the law's bounds the old clients are a lock. The spread of their
// clocks is 2 s and their lease 20 s. A job takes, from win to release, at most
// 10 s and two late messages; an attempt takes three of those.
func TestOldClientsWithinTheLawAreALock(t *testing.T) {
	eachSeed(t, func(t *testing.T, seed uint64) {
		contest{protocol: fleet.Verbatim, old: 5, lease: 20 * time.Second, spread: 2 * time.Second,
			job: 10 * time.Second, faults: true, late: time.Second}.
			held(t, seed).clean(t, true)
	})
}

// Beyond the law's bounds they are not a lock, and all three judges see it.
func TestOldClientsBeyondTheLawAreNoLock(t *testing.T) {
	for name, c := range map[string]contest{
		"overrun": {protocol: fleet.Verbatim, old: 5, lease: 5 * time.Second, spread: time.Second,
			job: 12 * time.Second},
		"skew": {protocol: fleet.Verbatim, old: 5, lease: 20 * time.Second, spread: 40 * time.Second,
			ends: true, job: 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			eachSeed(t, func(t *testing.T, seed uint64) {
				b := c.held(t, seed)
				t.Log(b)
				if b.explained(t, true) {
					t.Error("a lock explains it")
				}
				if longest, most := b.together(true); most < 2 || longest == 0 {
					t.Errorf("at most %d at once, for %v", most, longest)
				}
				if b.plain == b.plainWrites {
					t.Error("the counter lost nothing")
				}
			})
		})
	}
}

// Getsetlock clients exclude each other and honest old clients. The faults
// include all that leave open whether a command ran.
func TestGetsetlockAndHonestOldClientsAreALock(t *testing.T) {
	for _, p := range []fleet.Protocol{fleet.Hardened, fleet.Bridged} {
		t.Run(string(p), func(t *testing.T) {
			eachSeed(t, func(t *testing.T, seed uint64) {
				contest{protocol: p, ours: 3, old: 2, lease: 30 * time.Second, spread: 2 * time.Second,
					gap: 2 * time.Second, job: 12 * time.Second, faults: true, late: 600 * time.Millisecond}.
					held(t, seed).clean(t, true)
			})
		})
	}
}

// Old clients whose jobs outlast their leases let each other in, and getsetlock
// clients find their marks deleted. Getsetlock clients still never hold
// together, and the fenced counter loses nothing.
func TestGetsetlockClientsAreALockDespiteOverruns(t *testing.T) {
	for _, p := range []fleet.Protocol{fleet.Hardened, fleet.Bridged} {
		t.Run(string(p), func(t *testing.T) {
			eachSeed(t, func(t *testing.T, seed uint64) {
				contest{protocol: p, ours: 3, old: 2, lease: 12 * time.Second, spread: 400 * time.Millisecond,
					gap: time.Second, job: 30 * time.Second, faults: true, late: 600 * time.Millisecond}.
					held(t, seed).clean(t, false)
			})
		})
	}
}

// Jobs that never check whether their lease was lost write while another job
// works. The plain counter accepts their writes; fencing numbers refuse them.
func TestFencingNumbersRefuseJobsThatDoNotLook(t *testing.T) {
	refused, lost := 0, 0
	// The test runs two histories, and more if none of them has a late write:
	// short ones, as under the race detector, may not have such a job.
	for n := *seed; n < *seed+2 || refused == 0 && n < *seed+20; n++ {
		b := contest{protocol: fleet.Bridged, ours: 3, old: 2, lease: 12 * time.Second,
			spread: 400 * time.Millisecond, gap: time.Second, job: 30 * time.Second, deaf: true}.held(t, n)
		t.Log(b)
		if b.fenced != b.accepted {
			t.Errorf("the fenced counter lost %d of %d updates", b.accepted-b.fenced, b.accepted)
		}
		refused += b.refused
		lost += b.plainWrites - b.plain
	}
	if lost == 0 {
		t.Error("the plain counter lost nothing")
	}
	if refused == 0 {
		t.Error("no number was ever refused")
	}
}

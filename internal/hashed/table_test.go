package hashed

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
)

type thing struct{ name string }

// seed is drawn anew for each run, or taken from $SEED to draw the same again.
func seed(t *testing.T) uint64 {
	t.Helper()
	n := rand.Uint64()
	if s := os.Getenv("SEED"); s != "" {
		var err error
		if n, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("SEED=%d", n)
	return n
}

// TestATableHoldsWhatAMapHolds compares the two behind every step of a random run. So few hashes are drawn
// that many things share one, and the last places are often full up to the first.
func TestATableHoldsWhatAMapHolds(t *testing.T) {
	random := rand.New(rand.NewPCG(seed(t), 0))
	hash := func() Hash { return ^Hash(random.IntN(20)) } // the highest: behind the end they go on at the front
	var table Table[thing]
	table.Of("") // makes it
	model := map[*thing]Hash{}
	for step := range 6_000 {
		grow := step/300%2 == 0 // in turns, so that it grows and shrinks
		if grow == (random.IntN(4) != 0) {
			e, h := &thing{}, hash()
			table.Add(h, e)
			model[e] = h
		} else {
			for e, h := range model {
				if !table.Remove(h, e) {
					t.Fatalf("step %d: what was put in cannot be taken out", step)
				}
				if table.Remove(h, e) {
					t.Fatalf("step %d: it was taken out twice", step)
				}
				delete(model, e)
				break
			}
		}
		if table.Len() != len(model) {
			t.Fatalf("step %d: %d things, want %d", step, table.Len(), len(model))
		}
		h := hash()
		var want int
		for _, other := range model {
			if other == h {
				want++
			}
		}
		found := slices.Collect(table.At(h))
		for _, e := range found {
			if model[e] != h {
				t.Fatalf("step %d: found by another's hash", step)
			}
		}
		if len(found) != want {
			t.Fatalf("step %d: %d of hash %d, want %d", step, len(found), h, want)
		}
	}
	for e := range table.All() {
		if model[e] == none {
			t.Error("All yields what is not there, or twice")
		}
		delete(model, e)
	}
	if len(model) != 0 {
		t.Errorf("All does not yield %d things", len(model))
	}
}

func TestATableFindsByName(t *testing.T) {
	var table Table[thing]
	const many = 10_000
	for i := range many {
		e := &thing{name: fmt.Sprint(i)}
		table.Add(table.Of(e.name), e)
	}
	for i := range many {
		name := fmt.Sprint(i)
		h := table.Of(name)
		if table.OfBytes([]byte(name)) != h {
			t.Fatal("a name has another hash as bytes")
		}
		found := 0
		for e := range table.At(h) {
			if e.name == name {
				found++
			}
		}
		if found != 1 {
			t.Fatalf("%q was found %d times", name, found)
		}
	}
	if places := len(table.hashes); places > 2*many {
		t.Errorf("%d places for %d things, want not twice as many", places, many)
	}
	table.Clear()
	if table.Len() != 0 || len(slices.Collect(table.All())) != 0 || len(table.hashes) > fewest {
		t.Errorf("%d things in %d places behind Clear", table.Len(), len(table.hashes))
	}
}

func TestATableThatIsEmptiedGivesItsRoomBack(t *testing.T) {
	var table Table[thing]
	all := make([]*thing, 1000)
	for i := range all {
		all[i] = &thing{name: fmt.Sprint(i)}
		table.Add(table.Of(all[i].name), all[i])
	}
	for _, e := range all {
		if !table.Remove(table.Of(e.name), e) {
			t.Fatalf("%q is gone", e.name)
		}
	}
	if places := len(table.hashes); places > fewest {
		t.Errorf("%d places for nothing, want %d", places, fewest)
	}
}

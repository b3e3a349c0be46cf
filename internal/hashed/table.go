// Package hashed keeps things that are found by name, at twelve bytes for each place of a table of which a
// half to four fifths are taken. A map of the language takes two to three times as much, since it keeps what
// the things know of themselves: their names.
//
// It does not compare names. What is found has the name's hash, of 32 bits, and another name has it as well
// in one case of 2³²: whoever minds looks at what was found. It grows and shrinks in one go, which is a walk
// over memory in its order: a millisecond or two where there are a hundred thousand. A Table is not safe for
// concurrent use.
package hashed

import (
	"hash/maphash"
	"iter"
)

// Table is a set of things by their hashes. The zero Table is empty.
type Table[T any] struct {
	seed maphash.Seed
	n    int

	// A thing stands at the place that is to all places as its hash is to all hashes, or at the first one
	// behind it that was not taken. Between the two none is free.
	hashes []Hash // free: none
	things []*T
}

// Hash is that of a name, within one Table.
type Hash uint32

const none Hash = 0 // no name's

// fewest places are kept once there are any.
const fewest = 16

// Of returns the hash of a name.
func (t *Table[T]) Of(name string) Hash {
	if t.hashes == nil {
		t.make()
	}
	return folded(maphash.String(t.seed, name))
}

// OfBytes is Of for a name that is given as bytes.
func (t *Table[T]) OfBytes(name []byte) Hash {
	if t.hashes == nil {
		t.make()
	}
	return folded(maphash.Bytes(t.seed, name))
}

func (t *Table[T]) make() {
	t.seed = maphash.MakeSeed()
	t.resize(fewest)
}

func folded(h uint64) Hash { return max(Hash(h>>32), none+1) }

// Len is how many things it holds.
func (t *Table[T]) Len() int { return t.n }

// Add puts a thing in, beside others of that hash.
func (t *Table[T]) Add(h Hash, thing *T) {
	if 5*(t.n+1) > 4*len(t.hashes) {
		t.resize(len(t.hashes) + len(t.hashes)/2)
	}
	t.put(h, thing)
	t.n++
}

// put takes a free place.
func (t *Table[T]) put(h Hash, thing *T) {
	i := t.home(h)
	for t.hashes[i] != none {
		i = t.next(i)
	}
	t.hashes[i], t.things[i] = h, thing
}

// At yields what has a hash, in no order. The Table must not be changed meanwhile.
func (t *Table[T]) At(h Hash) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for i := t.home(h); t.hashes[i] != none; i = t.next(i) {
			if t.hashes[i] == h && !yield(t.things[i]) {
				return
			}
		}
	}
}

// All yields everything, in no order. The Table must not be changed meanwhile.
func (t *Table[T]) All() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for _, thing := range t.things {
			if thing != nil && !yield(thing) {
				return
			}
		}
	}
}

// Remove takes a thing out; false if it is not there.
func (t *Table[T]) Remove(h Hash, thing *T) bool {
	for i := t.home(h); t.hashes[i] != none; i = t.next(i) {
		if t.things[i] == thing {
			t.free(i)
			if t.n--; len(t.hashes) > fewest && 6*t.n < len(t.hashes) {
				t.resize(max(2*t.n, fewest))
			}
			return true
		}
	}
	return false
}

// free frees a place, and moves into it what stands behind only because it was taken.
func (t *Table[T]) free(i int) {
	for j := t.next(i); t.hashes[j] != none; j = t.next(j) {
		if t.distance(t.home(t.hashes[j]), j) >= t.distance(i, j) {
			t.hashes[i], t.things[i] = t.hashes[j], t.things[j]
			i = j
		}
	}
	t.hashes[i], t.things[i] = none, nil
}

// Clear forgets everything.
func (t *Table[T]) Clear() {
	t.n = 0
	if t.hashes != nil {
		t.resize(fewest)
	}
}

func (t *Table[T]) resize(places int) {
	hashes, things := t.hashes, t.things
	t.hashes, t.things = make([]Hash, places), make([]*T, places)
	if t.n == 0 {
		return
	}
	for i, h := range hashes {
		if h != none {
			t.put(h, things[i])
		}
	}
}

func (t *Table[T]) home(h Hash) int { return int(uint64(h) * uint64(len(t.hashes)) >> 32) }

func (t *Table[T]) next(i int) int {
	if i++; i == len(t.hashes) {
		return 0
	}
	return i
}

// distance is how many places j stands behind i.
func (t *Table[T]) distance(i, j int) int {
	if j < i {
		j += len(t.hashes)
	}
	return j - i
}

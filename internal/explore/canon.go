// SPDX-License-Identifier: Apache-2.0

package explore

// Clients of one kind run the same program, so worlds that differ only in the
// clients' names are equal. The order that Canon chooses ignores names. A tie
// that names could have broken costs only a second copy of a state.

// Order says where the clients of a state moved: Old[i] is the former index of
// the old client at i.
type Order struct {
	Old    [MaxOld]int8
	Others [MaxOthers]int8
}

// SameOrder returns the order in which no client moved.
func SameOrder() Order {
	var o Order
	for i := range o.Old {
		o.Old[i] = int8(i)
	}
	for i := range o.Others {
		o.Others[i] = int8(i)
	}
	return o
}

// after returns the order that moves clients by o and then by p.
func (o Order) after(p Order) Order {
	var r Order
	for i := range r.Old {
		r.Old[i] = o.Old[p.Old[i]]
	}
	for i := range r.Others {
		r.Others[i] = o.Others[p.Others[i]]
	}
	return r
}

// Canon sorts the old clients and renames what they wrote.
func (m *Machine) Canon(s *State) Order {
	o := SameOrder()
	for i := 1; i < m.Scenario.Old; i++ {
		for j := i; j > 0 && s.key(j) > s.key(j-1); j-- {
			s.Old[j], s.Old[j-1] = s.Old[j-1], s.Old[j]
			o.Old[j], o.Old[j-1] = o.Old[j-1], o.Old[j]
			s.Exchange(Name(j), Name(j-1))
		}
	}
	return o
}

const spare int8 = 127

// Exchange exchanges two names, wherever they are.
func (s *State) Exchange(a, b int8) {
	s.Rename(a, spare)
	s.Rename(b, a)
	s.Rename(spare, b)
}

// key packs a client into a number; the marks with its name come last.
func (s *State) key(i int) uint64 {
	c := &s.Old[i]
	key := uint64(uint8(c.PC))
	for _, field := range [...]int8{c.Age, c.Stamp, c.More, int8(c.Seen.Kind), c.Seen.At} {
		key = key<<8 | uint64(uint8(field))
	}
	key <<= 2
	if s.L.Who == Name(i) {
		key |= 1
	}
	if c.Seen.Who == Name(i) {
		key |= 2
	}
	return key
}

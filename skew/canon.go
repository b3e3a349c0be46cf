package skew

// Clients of one kind run the same program, so worlds that differ only in the
// clients' names are equal. The order that canon chooses ignores names. A tie
// that names could have broken costs only a second copy of a state.

// order says where the clients of a state moved: order.old[i] is the former
// index of the client at i.
type order struct {
	old [maxOld]int8
	our [maxOurs]int8
}

func sameOrder() order {
	var o order
	for i := range o.old {
		o.old[i] = int8(i)
	}
	for i := range o.our {
		o.our[i] = int8(i)
	}
	return o
}

// canon sorts the clients of each kind and renames what they wrote.
func (s *state) canon(olds, ours int) order {
	o := sameOrder()
	for i := 1; i < olds; i++ {
		for j := i; j > 0 && s.oldKey(j) > s.oldKey(j-1); j-- {
			s.old[j], s.old[j-1] = s.old[j-1], s.old[j]
			o.old[j], o.old[j-1] = o.old[j-1], o.old[j]
			s.exchange(oldName(j), oldName(j-1))
		}
	}
	for i := 1; i < ours; i++ {
		for j := i; j > 0 && s.ourKey(j).above(s.ourKey(j-1)); j-- {
			s.our[j], s.our[j-1] = s.our[j-1], s.our[j]
			o.our[j], o.our[j-1] = o.our[j-1], o.our[j]
			s.exchange(ourName(j), ourName(j-1))
		}
	}
	return o
}

const spare int8 = 127

func (s *state) exchange(a, b int8) {
	s.rename(a, spare)
	s.rename(b, a)
	s.rename(spare, b)
}

// oldKey packs a client into a number; the marks with its name come last.
func (s *state) oldKey(i int) uint64 {
	c := &s.old[i]
	key := uint64(uint8(c.pc))
	for _, field := range [...]int8{c.age, c.stamp, c.more, int8(c.seen.kind), c.seen.at} {
		key = key<<8 | uint64(uint8(field))
	}
	key <<= 2
	if s.l.who == oldName(i) {
		key |= 1
	}
	if c.seen.who == oldName(i) {
		key |= 2
	}
	return key
}

type ourKey struct{ grant, watch uint64 }

func (k ourKey) above(other ourKey) bool {
	return k.grant > other.grant || k.grant == other.grant && k.watch > other.watch
}

func (s *state) ourKey(i int) ourKey {
	c := &s.our[i]
	var k ourKey
	for _, field := range [...]int8{
		int8(c.pc), c.age, c.life, int8(c.member), int8(c.phase), int8(c.on), c.flags, c.renew} {
		k.grant = k.grant<<8 | uint64(uint8(field))
	}
	for _, field := range [...]int8{int8(c.watch.kind), c.watch.at, c.since, c.last, int8(c.away), c.quiet,
		c.doubt} {
		k.watch = k.watch<<8 | uint64(uint8(field))
	}
	k.watch <<= 2
	if s.l.who == ourName(i) {
		k.watch |= 1
	}
	if s.m.who == ourName(i) {
		k.watch |= 2
	}
	return k
}

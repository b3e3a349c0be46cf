// SPDX-License-Identifier: Apache-2.0

package model

import "github.com/getsetlock/getsetlock/internal/explore"

// Canon brings a state into its canonical form: it sorts the old clients, then
// the getsetlock clients, and renames what they wrote. In a world that composes
// the first getsetlock client differs from the others, so their order stays.
func (m *machine) Canon(s *state) explore.Order {
	o := m.old.Canon(&s.State)
	s.moved(o)
	ours := m.Ours.Clients
	if m.Ours.Composes {
		ours = min(ours, 1)
	}
	for i := 1; i < ours; i++ {
		for j := i; j > 0 && s.ourKey(j).above(s.ourKey(j-1)); j-- {
			s.our[j], s.our[j-1] = s.our[j-1], s.our[j]
			o.Others[j], o.Others[j-1] = o.Others[j-1], o.Others[j]
			s.exchange(ourName(j), ourName(j-1))
		}
	}
	return o
}

// moved renames old clients' bytes where the old clients' own world does not
// have them.
func (s *state) moved(o explore.Order) {
	var names [explore.Stranger]int8
	for i, former := range o.Old {
		names[explore.Name(int(former))] = explore.Name(i)
	}
	to := func(who *int8) {
		if *who >= explore.FirstOld && *who < firstOur {
			*who = names[*who]
		}
	}
	to(&s.look.who)
	for i := range s.our {
		to(&s.our[i].watch.Who)
	}
}

const spare int8 = 127

func (s *state) exchange(a, b int8) {
	s.rename(a, spare)
	s.rename(b, a)
	s.rename(spare, b)
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
	for _, field := range [...]int8{int8(c.watch.Kind), c.watch.At, c.since, c.last, int8(c.away), c.quiet,
		c.doubt} {
		k.watch = k.watch<<8 | uint64(uint8(field))
	}
	k.watch <<= 2
	if s.L.Who == ourName(i) {
		k.watch |= 1
	}
	if s.m.who == ourName(i) {
		k.watch |= 2
	}
	return k
}

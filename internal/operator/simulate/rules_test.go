// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
)

// wireOf returns the bytes of a simulator's value on the wire. A writer has one
// uuid for all its stamps, and a token for each value.
func wireOf(d dialect.Dialect, v simValue, present bool) dialect.Reply {
	if !present {
		return dialect.Nil()
	}
	id, at := uuidOf(d, v.writer), time.Unix(0, v.stamp-int64(time.Hour+d.Slack))
	if !d.HasStamp() {
		var bytes [16]byte
		binary.BigEndian.PutUint64(bytes[:], uint64(v.stamp)^uint64(v.writer)<<60)
		id = d.NewID(bytes)
	}
	text, err := d.Stamp(at, time.Hour, id)
	if err != nil {
		panic(err)
	}
	return dialect.Text(text)
}

func uuidOf(d dialect.Dialect, client int32) string { return d.NewID([16]byte{byte(client)}) }

// The test compares the simulator's rules on numbers with package dialect's on
// bytes: every preset, values and clocks close to each other.
func TestSimulatedRulesMatchTheDialects(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	for _, d := range dialect.Presets() {
		r := newSimRules(Fleet{Dialect: d, Lease: time.Hour, Poll: d.Poll})
		grid := max(int64(ms), r.unit)
		base := int64(simulationStart) - simulationStart%grid
		value := func() (simValue, bool) {
			v := simValue{base + random.Int64N(5)*grid, int32(random.IntN(3))}
			return v, random.IntN(5) > 0
		}
		for range 4000 {
			seen, present := value()
			old, oldPresent := value()
			if random.IntN(2) == 0 {
				old, oldPresent = seen, present
			}
			own, _ := value()
			nowNanos := base + random.Int64N(6*grid/int64(ms))*int64(ms)
			if random.IntN(2) == 0 {
				nowNanos -= nowNanos % r.unit
			}
			now, client := time.Unix(0, nowNanos), int32(random.IntN(3))
			seenBytes, oldBytes, ownBytes := wireOf(d, seen, present), wireOf(d, old, oldPresent),
				wireOf(d, own, true)
			if got, want := r.next(seen, present, client, nowNanos),
				d.LegacyNext(seenBytes, uuidOf(d, client), now); got != want {
				t.Fatalf("%s: after %+v at %v: %s, want %s", d, seenBytes, now, got, want)
			}
			if got, want := r.wins(old, seen, oldPresent, present, nowNanos),
				d.LegacyWins(oldBytes, seenBytes, now); r.takeover && got != want {
				t.Fatalf("%s: GETSET returned %+v, GET %+v at %v: %s, want %s", d, oldBytes, seenBytes, now,
					got, want)
			}
			if d.Release == dialect.ReleaseNever {
				continue
			}
			if got, want := r.releases(own, seen, present, nowNanos),
				d.LegacyReleases(ownBytes.Value, seenBytes, now); sameRelease(got) != sameRelease(want) {
				t.Fatalf("%s: release of %+v with %+v at %v: %s, want %s", d, ownBytes, seenBytes, now, got,
					want)
			}
		}
	}
}

// A release that fails leaves the key, as one that decides to leave it does.
func sameRelease(s dialect.ReleaseStep) dialect.ReleaseStep {
	if s == dialect.ReleaseFails {
		return dialect.ReleaseLeaves
	}
	return s
}

func TestSimulatedStampMatchesTheDialect(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 8))
	for _, d := range dialect.Presets() {
		if !d.HasStamp() {
			continue
		}
		lease := 90 * sec
		r := newSimRules(Fleet{Dialect: d, Lease: lease, Poll: d.Poll})
		for range 2000 {
			now := time.Unix(0, simulationStart+random.Int64N(1e13)).Truncate(time.Microsecond)
			text, err := d.Stamp(now, lease, d.NewID([16]byte{}))
			if err != nil {
				t.Fatal(err)
			}
			value, err := d.Decode(text, now)
			if err != nil {
				t.Fatal(err)
			}
			if away := value.Expiry.Sub(time.Unix(0, r.stamp(now.UnixNano()))).Abs(); away > 0 &&
				(d.Unit != dialect.UnitFloatSeconds || away > time.Microsecond) {
				t.Fatalf("%s at %v: %v away", d, now, away)
			}
		}
	}
}

func TestLostGetsetDropsTheTTL(t *testing.T) {
	s := plainFleet()
	s.Dialect = dialect.Gorlock()
	m, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	c := &m.clients[0]
	m.clients[1].began = m.now
	m.setnx(&m.clients[1])
	if m.key.expires != m.now+int64(s.Dialect.Lease) {
		t.Fatalf("won: %+v", m.key)
	}
	c.waiting, c.pc, c.present, c.seen = true, simGetset, true, simValue{1, 2}
	m.tally.waiting++
	m.getset(c)
	if m.key.expires != never || m.key.value.writer != 0 || m.tally.clobbers != 1 || m.key.owner != 1 {
		t.Errorf("clobbered: %+v", m.key)
	}
}

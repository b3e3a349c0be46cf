// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/look"
	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/migrate"
)

var updateRegistry = flag.Bool("update-registry", false, "write the registry's vectors anew")

const registryVectors = "../../../migrate/testdata/vectors/registry.txt"

// TestTheRegistryOnTheWireIsAsPinned compares names, records and what is sent
// with a file that other languages can read.
func TestTheRegistryOnTheWireIsAsPinned(t *testing.T) {
	pinned, err := os.ReadFile(registryVectors)
	if err != nil && !*updateRegistry {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(pinned), "\n\n")
	var b strings.Builder
	b.WriteString(head + "\n\n# names\n")
	for _, name := range []string{record.Key("stock"), record.Key(""), record.RosterKey("stock"),
		record.LogKey("stock"), record.ProbeKey("stock", "ID"), record.SeenKey("stock"),
		record.LivedKey("stock")} {
		b.WriteString(name + "\n")
	}
	b.WriteString("\n# records\n")
	for _, r := range sampleRecords() {
		b.WriteString(r.String() + "\n")
	}
	b.WriteString("\n# members\n")
	for _, m := range sampleMembers() {
		b.WriteString(m.String() + "\n")
	}
	b.WriteString("\n# the long gone\n")
	long := record.Gone{Count: 2001, First: pinnedAt.Add(-24 * time.Hour), Last: pinnedAt, Phase: "dual",
		Names: []string{"till, on host 3", "a"}}
	b.WriteString(long.String() + "\n")
	if got, err := record.ParseGone(long.String()); err != nil || got.String() != long.String() {
		t.Errorf("read as %v (%v)", got, err)
	}
	b.WriteString("\n# what was seen\n")
	text, err := sampleSighting().text()
	if err != nil {
		t.Fatal(err)
	}
	b.WriteString(text + "\n")
	inBubble(t, func(f *fleet) { b.WriteString(f.registryLife()) })
	got := b.String()
	if *updateRegistry {
		if err := os.WriteFile(registryVectors, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if got != string(pinned) {
		t.Errorf("the wire differs from %s (-update-registry writes it, which changes the protocol):\n%s",
			registryVectors, got)
	}
}

var pinnedAt = time.Date(2026, time.March, 2, 12, 0, 0, 42000, time.UTC)

func sampleRecords() []migrate.Record {
	known := migrate.Fleet{
		Lease:    migrate.Known{Time: 5 * time.Second, Source: migrate.Claimed},
		Greatest: migrate.Known{Time: time.Minute, Source: migrate.Claimed},
		Spread:   migrate.Known{Time: 12 * time.Millisecond, Source: migrate.Claimed},
		Gap:      migrate.Known{Time: time.Second, Source: migrate.Claimed},
		Job:      migrate.Known{Time: 40 * time.Second, Source: migrate.Default},
	}
	claimed := known
	claimed.Spread, claimed.Behind, claimed.Ahead = migrate.Known{Time: 0, Source: migrate.Claimed},
		migrate.Known{Time: 0, Source: migrate.Claimed},
		migrate.Known{Time: 2 * time.Minute, Source: migrate.Claimed}
	claimed.Idle = migrate.Known{Time: 24 * time.Hour, Source: migrate.Claimed}
	const run = "c1d4a2d5b8f60718293a4b5c6d7e8f9012345678"
	return []migrate.Record{
		{Epoch: 1, Phase: migrate.Observe, Since: pinnedAt, Dialect: "Jedis"},
		{Epoch: 2, Phase: migrate.Dual, Since: pinnedAt, Dialect: "Jedis", Fleet: known},
		{Epoch: 9, Phase: migrate.Dual, Pending: migrate.Sealed, Since: pinnedAt, Dialect: "our own",
			Fleet: claimed},
		{Epoch: 10, Phase: migrate.Clean, Pending: migrate.Modern, Since: pinnedAt, Dialect: "RedisPy",
			Fleet: claimed},
		{
			Epoch: 4, Phase: migrate.Sealed, Since: pinnedAt, Dialect: "Jedis", Fleet: known,
			Roster: "q7Bm0xP1aBcD", Run: run,
			Every: 50 * time.Second, TTL: 30 * time.Second, Evidence: pinnedAt,
			Lost: look.Reading{Server: pinnedAt.Sub(time.Unix(0, 0)), Run: run,
				Boot: "0f9b/4026531834", Up: 90 * time.Minute},
		},
		{Epoch: 12, Phase: migrate.Dual, Since: pinnedAt, Dialect: "Jedis", Fleet: claimed,
			SawBehind: 2 * time.Minute, SawAhead: 3 * time.Millisecond},
		{Epoch: 6, Phase: migrate.Clean, Since: pinnedAt, Dialect: "Jedis", Target: "etcd, of the shop"},
	}
}

func sampleMembers() []migrate.MemberState {
	return []migrate.MemberState{
		{ID: "3nJx0zP1aBcD", Host: "host3", Dialect: "Jedis", Seen: pinnedAt, Every: 5 * time.Second,
			Renews: time.Minute},
		{
			ID: "9wLm2VtYs4hQ", Name: "till, on host 3 & 4", Dialect: "Jedis", Epoch: 2, Phase: migrate.Dual,
			Seen: pinnedAt, Every: 5 * time.Second,
			TTL: 30 * time.Second, Leases: map[migrate.Phase]int{migrate.Observe: 1, migrate.Dual: 20},
			Behind: 2 * time.Minute, Ahead: dialect.Zero, Probe: record.ProbeOK,
		},
		{
			ID: "a", Name: "收银台", Dialect: "Page", Epoch: 7, Phase: migrate.Clean, Seen: pinnedAt,
			Every: time.Minute, Renews: 3 * time.Minute, TTL: time.Hour,
			Since: pinnedAt.Add(-time.Hour), Leaving: pinnedAt.Add(time.Hour),
			Leases: map[migrate.Phase]int{migrate.Modern: 2}, Probe: "NOPERM this user has no permissions",
		},
		{
			ID: "b", Dialect: "Jedis", Epoch: 13, Phase: migrate.Sealed, Seen: pinnedAt,
			Every: 5 * time.Second, TTL: time.Hour, First: 50 * time.Second,
			Leases: map[migrate.Phase]int{migrate.Sealed: 1}, Sight: "9wLm2VtYs4hQ",
		},
		{ID: "c", Dialect: "Jedis", Epoch: 6, Phase: migrate.Clean, Seen: pinnedAt, Every: 5 * time.Second,
			Target: "etcd, of the shop"},
	}
}

func sampleSighting() Sighting {
	return Sighting{
		Format: sightingFormat, Observer: "status --watch on host7", From: pinnedAt.Add(-time.Minute),
		Until: pinnedAt,
		Window: Window{Quiet: 40 * time.Second, QuietUntil: pinnedAt, Missing: "not asked for",
			Hole: &Hole{At: pinnedAt.Add(-40 * time.Second), Why: "between bursts"}},
		Counts: true,
		Facts: Facts{
			Lease:        Fact{Time: 5 * time.Second, Basis: "measured", At: pinnedAt, Who: "10.0.0.7:40112"},
			Proved:       Fact{Time: 3 * time.Millisecond, Basis: "measured", At: pinnedAt},
			BehindProved: Fact{Time: 121 * time.Second, Basis: "measured", At: pinnedAt}},
		LastWrite: &Touch{At: pinnedAt, Key: "stock:42", What: "acquired",
			Who: "10.0.0.7:40112 till-java"},
		Keys: []SightedKey{{Key: "stock:42",
			LastWrite: &Touch{At: pinnedAt, Key: "stock:42", What: "acquired"}}},
		Mixed: []string{"stock:43"},
	}
}

// anotherNonce is what a member offers for a roster that has one already.
var anotherNonce = regexp.MustCompile(`"" "" [A-Za-z0-9_-]{12}$`)

// registryLife is what a member and the steps send, with scripts by name.
func (f *fleet) registryLife() string {
	var b strings.Builder
	wire := f.w.Wire()
	id := ""
	said := func(what string) {
		b.WriteString("\n# " + what + "\n")
		for _, c := range wire.Sent() {
			if c.Is("EVAL") {
				continue // after its EVALSHA, which the server did not know
			}
			line := c.String()
			for _, s := range []interface{ SHA() string }{
				record.Step, record.Beat, record.Forget, record.Sweep, record.Fold, record.Drop} {
				line = strings.ReplaceAll(line, s.SHA(), s.(interface{ Name() string }).Name())
			}
			if id != "" {
				line = strings.ReplaceAll(line, id, "ID")
			}
			line = strings.ReplaceAll(line, f.w.Mini.HGet(record.RosterKey("ns"), record.NonceField), "NONCE")
			line = anotherNonce.ReplaceAllString(line, `"" "" OTHER`)
			b.WriteString(line + "\n")
		}
		wire.Forget()
	}
	o := f.options(Options{Go: true, Namespace: "ns"})
	must := func(err error) {
		f.t.Helper()
		if err != nil {
			f.t.Fatal(err)
		}
	}
	_, err := Init(bg, wire.Pool(), o)
	must(err)
	said("init")
	m, err := migrate.Join(bg, wire.Pool(),
		migrate.MemberConfig{Namespace: "ns", Host: "host", Clock: sleepy{f.w.Clock(redistest.Skew{})}})
	must(err)
	id = m.ID()
	said("join")
	f.w.Pass(beatEvery)
	must(m.Refresh(bg))
	said("heartbeat")
	_, err = Advance(bg, wire.Pool(), o)
	must(err)
	said("advance: closed")
	must(m.Goodbye(bg))
	said("goodbye")
	return b.String()
}

func TestRecordsAreReadAsTheyAreWrittenAndNotOtherwise(t *testing.T) {
	for _, r := range sampleRecords() {
		if got, err := migrate.ParseRecord(r.String()); err != nil || got.String() != r.String() {
			t.Errorf("%q is read as %+v (%v)", r.String(), got, err)
		}
	}
	for _, m := range sampleMembers() {
		got, err := migrate.ParseMember(m.String())
		if err != nil || got.String() != m.String() || got.Seen != m.Seen || got.Behind != m.Behind ||
			got.Ahead != m.Ahead {
			t.Errorf("%q is read as %+v (%v)", m.String(), got, err)
		}
	}
	good := sampleRecords()[1].String()
	for _, bad := range []string{
		"", "gsl/1", "gsl/0" + good[5:], good + " ", good + " more=1",
		strings.Replace(good, "epoch=2", "epoch=02", 1),
		strings.Replace(good, "epoch=2", "epoch=0", 1), strings.Replace(good, "phase=dual", "phase=none", 1),
		strings.Replace(good, "dual", "duel", 1),
		strings.Replace(good, "5000c", "5000x", 1), strings.Replace(good, "5000c", "c", 1),
		strings.Replace(good, ".000042", ".42", 1),
		strings.Replace(good, "lease=", "least=", 1), strings.Replace(good, "Jedis", "%4Aedis", 1),
		strings.Replace(good, "behind=- ahead=-", "ahead=- behind=-", 1),
		strings.Replace(good, "behind=-", "behind=", 1),
		strings.Replace(good, "ahead=-", "ahead=-1c", 1),
	} {
		if r, err := migrate.ParseRecord(bad); err == nil {
			t.Errorf("%q is read as %+v", bad, r)
		}
	}
}

func FuzzParseRecord(f *testing.F) {
	for _, r := range sampleRecords() {
		f.Add(r.String())
	}
	for _, m := range sampleMembers() {
		f.Add(m.String())
	}
	f.Fuzz(func(t *testing.T, text string) {
		if r, err := migrate.ParseRecord(text); err == nil && r.String() != text {
			t.Errorf("%q is written as %q", text, r)
		}
		if m, err := migrate.ParseMember(text); err == nil && m.String() != text {
			t.Errorf("%q is written as %q", text, fmt.Sprint(m))
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"crypto/sha1"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/internal/testing/golden"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/migrate"
)

// sleeping is a clock that wakes no heartbeat.
type sleeping struct{ *redistest.Clock }

func (sleeping) After(time.Duration) <-chan time.Time { return nil }

// joined returns a bridge that acts by a member of a fleet in phase p, and the
// member, whose heartbeats sleep. The member has a connection of its own, and
// tries no script.
func (r *rig) joined(p migrate.Phase, change ...func(*migrate.Config)) (*migrate.Bridge, *migrate.Member) {
	r.Helper()
	m := r.joins(p, migrate.MemberConfig{})
	b := r.bridge(p, append(change, func(cfg *migrate.Config) { cfg.Phases = m })...)
	m.Attach(nil)
	return b, m
}

func (r *rig) joins(p migrate.Phase, cfg migrate.MemberConfig) *migrate.Member {
	r.Helper()
	first := migrate.Record{Epoch: 1, Phase: p, Since: r.w.ServerNow(), Dialect: "Jedis"}
	if p == migrate.Clean {
		first.Target = cfg.Target
	}
	r.set(record.Key(cfg.Namespace), first.String())
	cfg.Clock, cfg.Every = sleeping{r.w.Clock(redistest.Skew{})}, 20*time.Second
	m, err := migrate.Join(background, r.w.Pool(), cfg)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { m.Leave() })
	return m
}

// leases is how many attempts and leases a member counts.
func leases(m *migrate.Member) (n int) {
	for _, some := range m.State().Leases {
		n += some
	}
	return n
}

// The bytes on the wire are pinned, and the scripts whole: other languages take
// the same locks by them.
func TestWhatABridgeSendsAndLeavesIsPinned(t *testing.T) {
	scripts := map[string]string{}
	for _, d := range []dialect.Dialect{
		dialect.Jedis(), dialect.JedisUUID(), dialect.Template(), dialect.Machinery()} {
		d.KeyEncoding, d.ValueEncoding = dialect.Plain, dialect.Plain
		out := "# What a bridge sends in each phase, and what then stands on both keys, with its TTL. Beside what is\n" +
			"# random stand TOKEN and GUARD. The scripts are in testdata/scripts, each under its name.\n"
		for _, p := range migrate.Phases() {
			for _, tomb := range []bool{false, true} {
				if tomb && p == migrate.Observe {
					continue // it takes a tombstone for held
				}
				bridges(t, func(r *rig) { out += written(r, d, p, tomb, scripts) })
			}
		}
		golden.Check(t, "testdata/vectors/bridge-"+strings.ToLower(d.Name)+".txt", out)
	}
	for name, source := range scripts {
		if !strings.HasPrefix(name, "bridge_") {
			continue // only getsetlock for Go takes locks in phase observe
		}
		golden.Check(t, "testdata/scripts/"+name+".lua", source)
	}
}

// written is the whole life of a lease, written down.
func written(r *rig, d dialect.Dialect, p migrate.Phase, tomb bool, scripts map[string]string) string {
	if tomb {
		r.set("k", d.Tombstone())
		r.expire("k", 10*24*time.Hour)
	}
	b, m := r.joined(p, speaks(d))
	out := fmt.Sprintf("\nphase %v, tombstone %v\n", p, tomb)
	names := []string{m.ID(), "tag"}
	said := func(what string) {
		guard := r.get("k")
		if _, bytes, ok := strings.Cut(r.get(keyM), " "); ok && guard == "" {
			guard, _, _ = strings.Cut(bytes, " ")
		}
		if id, _, ok := strings.Cut(guard, ":"); ok && p == migrate.Observe {
			names = append(names, id, "ID")
		}
		// What a release leaves is no guard.
		if p != migrate.Observe && what != "release" && guard != d.Tombstone() && guard != "" &&
			!strings.Contains(strings.Join(names, " "), guard) {
			names = append(names, guard, "GUARD")
		}
		plain := strings.NewReplacer(names...)
		out += r.commands(what, scripts, plain)
		out += plain.Replace(fmt.Sprintf("  L %q %v, M %q %v\n", r.get("k"), r.left("k"), r.get(keyM),
			r.left(keyM)))
		r.wire.Forget()
	}
	g := r.take(b)
	names = append(names, g.Token(), "TOKEN")
	if tomb || p == migrate.Clean {
		// The guard that was drawn and not needed is in the command alone.
		for _, c := range r.wire.Sent() {
			if c.Is("EVALSHA") && len(c) > 13 && c[8] != "" {
				names = append(names, c[8], "GUARD")
			}
		}
	}
	said("acquire")
	if _, err := g.Extend(background, ttl); err != nil {
		r.Fatal(err)
	}
	said("renew")
	r.release(g)
	if left := r.get(keyM); left != "" {
		names = append(names, left, "DONE")
	}
	said("release")
	if p <= migrate.Dual && !d.NeverReleases() {
		g := r.take(b)
		names = append(names, g.Token(), "TOKEN")
		if p == migrate.Dual {
			names = append(names, r.get("k"), "GUARD")
		}
		r.wire.Forget()
		leave(r, g)
		said("polite release")
	}
	return out
}

// commands returns a line for each script that was sent, and collects the
// sources of new ones.
func (r *rig) commands(what string, scripts map[string]string, plain *strings.Replacer) (lines string) {
	for _, c := range r.wire.Sent() {
		if c.Is("EVAL") {
			scripts[nameOf(c[1])] = c[1]
		}
	}
	for _, c := range r.wire.Sent() {
		if c.Is("EVALSHA") {
			lines += fmt.Sprintf("%s: %s %s\n", what, byDigest(scripts, c[1]),
				plain.Replace(fmt.Sprintf("%q", []string(c[2:]))))
		}
	}
	return lines
}

func nameOf(source string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(source, "-- "), ":")
	return name
}

func byDigest(scripts map[string]string, sha string) string {
	for name, source := range scripts {
		if fmt.Sprintf("%x", sha1.Sum([]byte(source))) == sha {
			return name
		}
	}
	return sha
}

func TestMemberCountsEveryAttemptUntilItsEnd(t *testing.T) {
	each(t, migrate.Phases(), func(r *rig, p migrate.Phase) {
		b, m := r.joined(p)
		open := func(what string, want int) {
			if got := leases(m); got != want {
				r.Errorf("%s: %d open", what, got)
			}
		}
		g := r.take(b)
		open("taken", 1)
		r.held(b)
		open("refused", 1)
		r.release(g)
		open("released", 0)
		if _, err := b.Contract().Try(background, "k", 0); err == nil {
			r.Error("no TTL was allowed")
		}
		open("impossible", 0)

		r.del("k")
		g = r.take(b)
		r.del(keyM)
		if p != migrate.Clean {
			r.set("k", "1")
		}
		_, err := g.Extend(background, ttl)
		r.wantLost(err)
		open("lost, and its job perhaps not stopped", 1)
		r.w.Pass(ttl + 3*time.Second)
		open("lost, after its TTL", 0)
		r.del("k")
	})
}

func TestAnUnknownOutcomeIsOpenUntilItsTTLHasPassed(t *testing.T) {
	each(t, migrate.Phases(), func(r *rig, p migrate.Phase) {
		b, m := r.joined(p)
		r.warm(b)
		r.fault()
		var unsure *backend.UnsureError
		if _, err := b.Contract().Try(background, "k", ttl); !errors.As(err, &unsure) {
			r.Fatal("taken")
		}
		for unsure.Grant.Release(background) != nil { // the command has run, and is found
		}
		if leases(m) != 0 {
			r.Error("undone, and yet open")
		}
		r.fault()
		if _, err := b.Contract().Try(background, "k", ttl); err == nil {
			r.Fatal("taken")
		}
		r.w.Pass(ttl / 2)
		if leases(m) != 1 {
			r.Error("ended while the key may be held")
		}
		r.w.Pass(ttl)
		if leases(m) != 0 {
			r.Error("open after its TTL")
		}
	})
}

// tried makes a member's round, which tries the scripts of a new bridge, and
// returns what the member says of that. Before, key L of the trial holds a
// value.
func (r *rig) tried(l string, change ...func(*migrate.Config)) (said string) {
	r.Helper()
	m := r.joins(migrate.Observe, migrate.MemberConfig{})
	b := r.bridge(migrate.Observe, append(change, func(cfg *migrate.Config) { cfg.Phases = m })...)
	if l != "" {
		r.set(record.ProbeKey("", m.ID()), l)
	}
	if err := m.Refresh(background); err != nil {
		r.Fatal(err)
	}
	if s := b.Stats(); s.Acquired > 1 || s.Deleted+s.Clobbered+s.Taken > 0 {
		r.Errorf("%+v", s)
	}
	for _, key := range r.w.Mini.Keys() {
		if l == "" && strings.HasPrefix(key, "gsl:probe:") {
			r.Errorf("left: %q", key)
		}
	}
	return m.State().Probe
}

func TestTheProbeRunsTheVeryScriptsAndLeavesNothing(t *testing.T) {
	bridges(t, func(r *rig) {
		if said := r.tried(""); said != record.ProbeOK {
			r.Error(said)
		}
		ran := map[string]bool{}
		for _, c := range r.wire.Sent() {
			if c.Is("EVAL") {
				ran[nameOf(c[1])] = true
			}
		}
		for _, name := range []string{
			"acquire", "renew", "release", "bridge_acquire", "bridge_check", "bridge_renew",
			"bridge_release", "sweep"} {
			if !ran[name] {
				r.Errorf("%s was not run", name)
			}
		}
		if said := r.tried("4000000000000000001"); !strings.Contains(said, "phase observe") {
			r.Error(said)
		}
	})
}

// Machinery's clients never release, so what a lock of a phase leaves keeps the
// next one away.
func TestProbePassesWhereNobodyReleases(t *testing.T) {
	bridges(t, func(r *rig) {
		if said := r.tried("", speaks(dialect.Machinery())); said != record.ProbeOK {
			r.Error(said)
		}
	})
}

// A release that cannot be made into bytes leaves a member's lease behind no
// longer than its TTL. One that can says "done" for the old client's lease.
func TestLeaseOfAKeyThatMeansDoneEnds(t *testing.T) {
	token := dialect.SetGetDel()
	token.Release = dialect.ReleaseNever
	page := dialect.Page()
	page.Release = dialect.ReleaseNever
	for _, c := range []struct {
		d     dialect.Dialect
		lease time.Duration
		fails bool
	}{{token, time.Minute, false}, {page, 60500 * time.Millisecond, true}} {
		bridges(t, func(r *rig) {
			b, m := r.joined(migrate.Observe, speaks(c.d),
				func(cfg *migrate.Config) { cfg.Terms.Lease = c.lease })
			g := r.take(b)
			if err := g.Release(background); (err != nil) != c.fails {
				r.Errorf("%s: Release: %v", c.d.Name, err)
			}
			if !c.fails && r.left("k") <= ttl {
				r.Errorf("%s: the key says done for %v", c.d.Name, r.left("k"))
			}
			r.w.Pass(5 * time.Minute)
			if n := leases(m); n != 0 {
				r.Errorf("%s: %d leases are left", c.d.Name, n)
			}
		})
	}
}

func TestAKeyOutsideTheNamespaceIsRefused(t *testing.T) {
	bridges(t, func(r *rig) {
		m := r.joins(migrate.Dual, migrate.MemberConfig{Namespace: "shop:"})
		b := r.bridge(migrate.Dual, func(c *migrate.Config) { c.Phases = m })
		if g, err := b.Contract().Try(background, "k", ttl); g != nil || !errors.Is(err, migrate.ErrOutside) {
			r.Errorf("%v, %v", g, err)
		}
		r.wantKeys("", "")
	})
}

func TestForcedDeletionTakesBothKeysAlsoBesideATag(t *testing.T) {
	bridges(t, func(r *rig) {
		b, _ := r.joined(migrate.Dual)
		old, err := legacy.New(r.w.Pool(), legacy.Config{Mode: legacy.Hardened})
		if err != nil {
			r.Fatal(err)
		}
		defer old.Close()
		g := r.take(b)
		if d, err := old.CompareAndDelete(background, "k", r.get("k")); err != nil || !d.Lock || !d.Mark {
			r.Errorf("by the bytes: %+v, %v", d, err)
		}
		r.wantLost(g.Release(background))
		g = r.take(b)
		if d, err := old.CompareAndDelete(background, "k", g.Token()); err != nil || !d.Lock || !d.Mark {
			r.Errorf("by the token: %+v, %v", d, err)
		}
		r.wantKeys("", "")
	})
}

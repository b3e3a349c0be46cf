// SPDX-License-Identifier: Apache-2.0

package migrate_test

import (
	"context"
	"crypto/sha1"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/migrate"
)

var update = flag.Bool("update", false, "write the pinned vectors anew")

// member is a ledger as the bridge sees it, of a member called "tag".
type member struct {
	migrate.PhaseSource
	begun, ended atomic.Int32
	probe        func(context.Context, string) error
}

func (m *member) Begin(ctx context.Context, _ time.Duration) (migrate.Phase, func(), error) {
	p, err := m.Phase(ctx)
	m.begun.Add(1)
	return p, func() { m.ended.Add(1) }, err
}

func (m *member) ID() string                                               { return "tag" }
func (m *member) Attach(probe func(ctx context.Context, key string) error) { m.probe = probe }

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
				bridges(t, func(r *rig) { out += record(r, d, p, tomb, scripts) })
			}
		}
		pinned(t, filepath.Join("vectors", "bridge-"+strings.ToLower(d.Name)+".txt"), out)
	}
	for name, source := range scripts {
		if !strings.HasPrefix(name, "bridge_") {
			continue // only getsetlock for Go takes locks in phase observe
		}
		pinned(t, filepath.Join("scripts", name+".lua"), source)
	}
}

func pinned(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (-update writes it, which changes the protocol):\n%s", path, got)
	}
}

// record writes down the whole life of a lease.
func record(r *rig, d dialect.Dialect, p migrate.Phase, tomb bool, scripts map[string]string) string {
	if tomb {
		r.set("k", d.Tombstone())
		r.expire("k", 10*24*time.Hour)
	}
	b := r.bridge(p, speaks(d), func(c *migrate.Config) { c.Phases = &member{PhaseSource: c.Phases} })
	out := fmt.Sprintf("\nphase %v, tombstone %v\n", p, tomb)
	var names []string
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

func TestTheLedgerIsToldOfEveryAttemptAndOfItsEnd(t *testing.T) {
	each(t, migrate.Phases(), func(r *rig, p migrate.Phase) {
		m := &member{PhaseSource: migrate.Fixed(p)}
		b := r.bridge(p, func(c *migrate.Config) { c.Phases = m })
		open := func(what string, want int32) {
			if got := m.begun.Load() - m.ended.Load(); got != want {
				r.Errorf("%s: %d open of %d", what, got, m.begun.Load())
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
		m := &member{PhaseSource: migrate.Fixed(p)}
		b := r.bridge(p, func(c *migrate.Config) { c.Phases = m })
		r.warm(b)
		m.ended.Store(0)
		r.fault()
		var unsure *backend.UnsureError
		if _, err := b.Contract().Try(background, "k", ttl); !errors.As(err, &unsure) {
			r.Fatal("taken")
		}
		for unsure.Grant.Release(background) != nil { // the command has run, and is found
		}
		if m.ended.Swap(0) != 1 {
			r.Error("undone, and yet open")
		}
		r.fault()
		if _, err := b.Contract().Try(background, "k", ttl); err == nil {
			r.Fatal("taken")
		}
		r.w.Pass(ttl / 2)
		if m.ended.Load() != 0 {
			r.Error("ended while the key may be held")
		}
		r.w.Pass(ttl)
		if m.ended.Load() != 1 {
			r.Errorf("ended %d times", m.ended.Load())
		}
	})
}

func TestTheProbeRunsTheVeryScriptsAndLeavesNothing(t *testing.T) {
	bridges(t, func(r *rig) {
		m := &member{PhaseSource: migrate.Fixed(migrate.Observe)}
		b := r.bridge(migrate.Observe, func(c *migrate.Config) { c.Phases = m })
		if err := m.probe(background, "gsl:probe:ns:id"); err != nil {
			r.Fatal(err)
		}
		if keys := r.w.Mini.Keys(); len(keys) > 0 {
			r.Errorf("left: %q", keys)
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
		if s := b.Stats(); s.Acquired > 1 || s.Deleted+s.Clobbered+s.Taken > 0 {
			r.Errorf("%+v", s)
		}
		r.set("gsl:probe:ns:id", "4000000000000000001")
		if err := m.probe(background, "gsl:probe:ns:id"); err == nil ||
			!strings.Contains(err.Error(), "phase observe") {
			r.Errorf("%v", err)
		}
	})
}

// Machinery's clients never release, so what a lock of a phase leaves keeps the
// next one away.
func TestProbePassesWhereNobodyReleases(t *testing.T) {
	bridges(t, func(r *rig) {
		m := &member{PhaseSource: migrate.Fixed(migrate.Observe)}
		r.bridge(migrate.Observe, speaks(dialect.Machinery()), func(c *migrate.Config) { c.Phases = m })
		if err := m.probe(background, "gsl:probe:ns:id"); err != nil {
			r.Error(err)
		}
		if keys := r.w.Mini.Keys(); len(keys) > 0 {
			r.Errorf("left: %q", keys)
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
			m := &member{PhaseSource: migrate.Fixed(migrate.Observe)}
			b := r.bridge(migrate.Observe, speaks(c.d), func(cfg *migrate.Config) {
				cfg.Phases, cfg.Terms.Lease = m, c.lease
			})
			g := r.take(b)
			if err := g.Release(background); (err != nil) != c.fails {
				r.Errorf("%s: Release: %v", c.d.Name, err)
			}
			if !c.fails && r.left("k") <= ttl {
				r.Errorf("%s: the key says done for %v", c.d.Name, r.left("k"))
			}
			r.w.Pass(5 * time.Minute)
			if m.ended.Load() != 1 {
				r.Errorf("%s: %d leases ended", c.d.Name, m.ended.Load())
			}
		})
	}
}

// outside is a source whose namespace owns nothing.
type outside struct{ migrate.PhaseSource }

func (outside) Covers(string) bool { return false }

func TestAKeyOutsideTheNamespaceIsRefused(t *testing.T) {
	bridges(t, func(r *rig) {
		b := r.bridge(migrate.Dual, func(c *migrate.Config) { c.Phases = outside{c.Phases} })
		g, err := b.Contract().Try(background, "k", ttl)
		if g != nil || err == nil || !strings.Contains(err.Error(), "namespace") {
			r.Errorf("%v, %v", g, err)
		}
		r.wantKeys("", "")
	})
}

func TestForcedDeletionTakesBothKeysAlsoBesideATag(t *testing.T) {
	bridges(t, func(r *rig) {
		b := r.bridge(migrate.Dual, func(c *migrate.Config) { c.Phases = &member{PhaseSource: c.Phases} })
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

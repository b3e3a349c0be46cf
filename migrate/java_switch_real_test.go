// SPDX-License-Identifier: Apache-2.0

//go:build real

package migrate_test

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/operator/fleet"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/migrate"
)

// switched is the service of docs/guide/java-dual.md that can go back to its
// old lock.
func switched(t *testing.T, addr, which string) *javaDriver {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	d := driveJVM(t, "-Dstock.lock="+which, filepath.Join("testdata", "java", "SwitchedService.java"), host,
		port, "test")
	d.expect("ready")
	return d
}

// A rolling restart: one process has the old lock yet, the other has DualLock.
func TestJavaSwitchedAndNotExcludeEachOther(t *testing.T) {
	w := inJavaWorld(t, 10*time.Second)
	old, dual := switched(t, w.server.Addr(), "old"), switched(t, w.server.Addr(), "dual")
	for range 2 {
		old.order("take stock:42 30000")
		old.expect("took stock:42 true")
		dual.order("take stock:42 0")
		dual.expect("took stock:42 false")
		old.order("release stock:42")
		old.expect("released stock:42 true")

		dual.order("take stock:42 30000")
		dual.expect("took stock:42 true")
		old.order("take stock:42 0")
		old.expect("took stock:42 false")
		if _, err := w.client.TryAcquire(background, "stock:42"); err == nil {
			t.Error("the bridge holds alongside")
		}
		dual.order("release stock:42")
		dual.expect("released stock:42 true")
	}
	w.members("two members: the old lock has none",
		func(all []migrate.MemberState) bool { return len(all) == 2 })
	for _, d := range []*javaDriver{old, dual} {
		d.in.Close()
		d.expect("closed")
	}
	w.members("one member after the goodbye", func(all []migrate.MemberState) bool { return len(all) == 1 })
}

// By such a record other members take the lock in another store alone. A member
// that knows an earlier record, since it was forgotten while it lived, would
// hold alongside.
func TestJavaTakesNoLockBesideATarget(t *testing.T) {
	w := inJavaWorld(t, 10*time.Second)
	dual := switched(t, w.server.Addr(), "dual")
	dual.order("take stock:42 0")
	dual.expect("took stock:42 true")
	dual.order("release stock:42")
	dual.expect("released stock:42 true")

	r, err := fleet.ReadRecord(background, w.pool, javaNamespace)
	if err != nil {
		t.Fatal(err)
	}
	r.Epoch, r.Phase, r.Target = r.Epoch+1, migrate.Clean, "etcd"
	w.server.Do("SET", "gsl:phase:stock%3A", r.String())
	w.members("two members without a phase", func(all []migrate.MemberState) bool {
		return len(all) == 2 && all[0].Phase == migrate.NoPhase && all[1].Phase == migrate.NoPhase
	})
	dual.order("take stock:42 0")
	if got := dual.next(); !strings.HasPrefix(got, "failed stock:42 ") ||
		!strings.Contains(got, "names a target") {
		t.Errorf("beside a target: %q", got)
	}
	dual.in.Close()
	dual.expect("closed")
}

// Switched too early: in observe only the old lock works.
func TestJavaSwitchedInObserveTakesNoLock(t *testing.T) {
	server := redistest.Real(t, redistest.Options{})
	if _, err := fleet.Init(background, server.Pool(), fleet.Options{Namespace: javaNamespace}); err != nil {
		t.Fatal(err)
	}
	dual, old := switched(t, server.Addr(), "dual"), switched(t, server.Addr(), "old")
	dual.order("take stock:42 0")
	if got := dual.next(); !strings.HasPrefix(got, "failed stock:42 the fleet is in phase observe") {
		t.Errorf("DualLock in observe: %q", got)
	}
	old.order("take stock:42 0")
	old.expect("took stock:42 true")
	old.order("release stock:42")
	old.expect("released stock:42 true")
	for _, d := range []*javaDriver{old, dual} {
		d.in.Close()
		d.expect("closed")
	}
}

// SPDX-License-Identifier: Apache-2.0

//go:build real

package migrate_test

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/fleet"
	"github.com/getsetlock/getsetlock/migrate"
)

const javaRecord = "gsl:phase:stock%3A"

// rewrite changes the record as a watcher or a step does.
func (w *javaWorld) rewrite(change func(*migrate.Record)) (before string) {
	w.t.Helper()
	r, err := fleet.ReadRecord(background, w.pool, javaNamespace)
	if err != nil {
		w.t.Fatal(err)
	}
	before = r.String()
	change(&r)
	w.server.Do("SET", javaRecord, r.String())
	return before
}

func (d *javaDriver) fails(key, says string) {
	d.t.Helper()
	d.order("take %s", key)
	if got := d.next(); !strings.HasPrefix(got, "failed "+key) || !strings.Contains(got, says) {
		d.t.Errorf("the driver says %q, want %q", got, says)
	}
}

// TestJavaForgottenTakesNothingWithoutARecord: after a silence in which the
// operator may have forgotten the service, the server has restarted empty. An
// attempt during such a silence gets no lock either (rule 37).
func TestJavaForgottenTakesNothingWithoutARecord(t *testing.T) {
	w := inJavaWorld(t, 10*time.Second)
	d := drive(t, w.server.Addr(), "Jedis", 30*time.Second, 3*time.Second) // settles 3.1 s
	d.expect("ready")
	d.order("silent 150000") // less than three periods of a minute
	d.expect("silent")
	before := w.server.Do("GET", javaRecord)
	w.server.Do("DEL", javaRecord, "gsl:roster:stock%3A")
	d.order("take stock:1")
	d.expect("took stock:1 true")
	d.order("release stock:1")
	d.expect("released stock:1 true")

	d.order("silent 200000")
	d.expect("silent")
	d.fails("stock:1", "before it has read a record "+javaRecord)
	said := fmt.Sprintf("%s", w.server.Do("HVALS", "gsl:roster:stock%3A"))
	if !strings.Contains(said, " phase=none ") {
		t.Errorf("a lost record could be written by its word: %s", said)
	}
	w.server.Do("SET", javaRecord, before)
	d.order("take stock:1")
	d.expect("took stock:1 true")

	stamp := w.expired("stock:2")
	d.order("take stock:2")
	w.until("a takeover", func() bool { return w.read("stock:2") != stamp })
	d.order("silent 200000") // while it settles
	d.expect("silent")
	d.expect("took stock:2 false")
	w.until("an attempt that is undone", func() bool { return w.stand("stock:2") == int64(0) })
}

// TestJavaTakesNothingFarFromItsMember: no gate would see such a lock.
func TestJavaTakesNothingFarFromItsMember(t *testing.T) {
	w := inJavaWorld(t, 10*time.Second)
	host, port, _ := net.SplitHostPort(w.server.Addr())
	d := driveJVM(t, "-Dlock.database=1", filepath.Join("testdata", "java", "DualDriver.java"), host, port,
		"Jedis", "10000", "500")
	d.expect("ready")
	d.fails("stock:1", "registered on "+w.server.Addr()+" (database 0), and the lock is taken on "+
		w.server.Addr()+" (database 1)")
	w.members("its scripts fail there too", func(all []migrate.MemberState) bool {
		for _, m := range all {
			if m.Name == "driver" && strings.Contains(m.Probe, "(database 1)") {
				return true
			}
		}
		return false
	})
}

// TestJavaBoundThatTheRecordRefutesIsVoid: a watcher saw clocks two minutes
// behind, so a stamp of a minute ago is waited for, and not taken over at once.
func TestJavaBoundThatTheRecordRefutesIsVoid(t *testing.T) {
	w := inJavaWorld(t, 10*time.Second)
	d := drive(t, w.server.Addr(), "Jedis", 6*time.Second, 500*time.Millisecond)
	d.expect("ready")
	says := func(behind time.Duration) {
		t.Helper()
		w.members("what it acts by", func(all []migrate.MemberState) bool {
			for _, m := range all {
				if m.Name == "driver" && m.Behind == behind {
					return true
				}
			}
			return false
		})
	}
	says(time.Second)
	w.expired("stock:1")
	w.rewrite(func(r *migrate.Record) { r.SawBehind = 2 * time.Minute })
	d.order("silent 200000") // the next attempt reads the record first
	d.expect("silent")
	d.order("take stock:1")
	d.expect("took stock:1 false")
	says(0)

	w.rewrite(func(r *migrate.Record) { r.SawBehind = 0 })
	d.order("silent 200000")
	d.expect("silent")
	d.order("take stock:1")
	d.expect("took stock:1 true")
	says(dialect.Claim(time.Second))
}

// SPDX-License-Identifier: Apache-2.0

//go:build real

package migrate_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/fleet"
	"github.com/getsetlock/getsetlock/internal/polite"
	"github.com/getsetlock/getsetlock/internal/testing/interop"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/migrate"
)

// javaWorld is a server with a record in a phase, a Go client with a bridge,
// and Java clients of docs/guide/java-dual.md, all members of one namespace.
type javaWorld struct {
	t      *testing.T
	server *redistest.Server
	pool   *redis.Pool
	member *migrate.Member
	bridge *migrate.Bridge
	client *lock.Client
}

const (
	javaFolder = "java/dual/src/main/java/getsetlock/dual"
	javaSwitch = "migrate/testdata/java/SwitchedService.java"
)

// known are complete claims.
var known = fleet.Claims{Lease: time.Minute, Spread: time.Second, Gap: time.Second, Job: 30 * time.Second,
	Gone: true}

const javaCounter = "counter"

// javaNamespace has a colon, which both languages escape in the names of the
// registry's keys.
const javaNamespace = "stock:"

func inJavaWorld(t *testing.T, ttl time.Duration) *javaWorld {
	t.Helper()
	s := redistest.Real(t, redistest.Options{})
	w := &javaWorld{t: t, server: s, pool: s.Pool()}
	if _, err := fleet.Init(background, w.pool, fleet.Options{Namespace: javaNamespace}); err != nil {
		t.Fatal(err)
	}
	m, err := migrate.Join(background, w.pool,
		migrate.MemberConfig{Namespace: javaNamespace, Name: "go", Every: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	b, err := migrate.New(w.pool, migrate.Config{Phases: m})
	if err != nil {
		t.Fatal(err)
	}
	c, err := lock.New(b, lock.Config{TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	w.member, w.bridge, w.client = m, b, c
	t.Cleanup(func() {
		_ = c.Close(background)
		_ = b.Close()
		_ = m.Leave()
	})
	w.step()
	return w
}

// step moves the record one phase forward, every member with it.
func (w *javaWorld) step() {
	w.t.Helper()
	if err := w.member.Refresh(background); err != nil {
		w.t.Fatal(err)
	}
	r, err := fleet.Advance(background, w.pool,
		fleet.Options{Namespace: javaNamespace, Claims: known, Go: true})
	if err != nil || !r.Moved {
		w.t.Fatalf("the step was not taken: %v, %+v", err, r)
	}
	if err := w.member.Refresh(background); err != nil {
		w.t.Fatal(err)
	}
}

// java is a client of the class of the document, with a lease of ttl.
func (w *javaWorld) java(ttl time.Duration) *interop.Client {
	w.t.Helper()
	c := interop.SharedClient(w.t, w.server.Addr())
	if err := c.Lock(background, interop.Dual, "stock:42", 30*time.Second, ttl, javaNamespace); err != nil {
		w.t.Fatal(err)
	}
	return c
}

// members waits until the registry's members are as wanted.
func (w *javaWorld) members(what string, wanted func([]migrate.MemberState) bool) []migrate.MemberState {
	w.t.Helper()
	for end := time.Now().Add(redistest.Patience); ; {
		r, err := fleet.Status(background, w.pool, fleet.Options{Namespace: javaNamespace})
		if err != nil {
			w.t.Fatal(err)
		}
		if wanted(r.Members) {
			return r.Members
		}
		if time.Now().After(end) {
			w.t.Fatalf("not %s: %+v", what, r.Members)
		}
	}
}

func (w *javaWorld) take(c *interop.Client) {
	w.t.Helper()
	got, err := c.Acquire(background)
	if err != nil || !got.Won {
		w.t.Fatalf("Java did not take the lock: %+v, %v", got, err)
	}
}

// The document says Java 8, and our own build is for a newer one.
func TestJavaOfTheDocumentCompilesForJava8(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", javaFolder, "*.java"))
	if err != nil || len(files) != 3 {
		t.Fatalf("%v, %v", files, err)
	}
	files = append(files, filepath.Join("..", javaSwitch))
	jar := filepath.Join("..", "java", "interop", "target", "interop.jar") // with Jedis and jedis-lock in it
	args := append([]string{"--release", "8", "-Xlint:-options", "-encoding", "UTF-8", "-cp", jar, "-d",
		t.TempDir()}, files...)
	if out, err := exec.Command("javac", args...).CombinedOutput(); err != nil {
		t.Fatalf("javac: %v\n%s", err, out)
	}
}

var javaBytes = regexp.MustCompile(`^([A-Za-z0-9_-]{22}) ([4-9]\d{18}) ([A-Za-z0-9_-]{12})$`)

func TestJavaIsAMemberAndWritesTheSameBytes(t *testing.T) {
	w := inJavaWorld(t, 10*time.Second)
	j := w.java(interop.Default)
	w.take(j)
	all := w.members("two members, one with a lease in dual", func(all []migrate.MemberState) bool {
		return len(all) == 2 && all[0].Leases[migrate.Dual]+all[1].Leases[migrate.Dual] == 1
	})
	for _, m := range all {
		if m.Phase != migrate.Dual || m.Probe != "ok" || m.Dialect != "Jedis" {
			t.Errorf("a member says %+v", m)
		}
	}
	l := w.read("stock:42")
	found := javaBytes.FindStringSubmatch(w.read("{stock:42}:gsl"))
	if found == nil || found[2] != l {
		t.Fatalf("Java wrote %q beside %q", w.read("{stock:42}:gsl"), l)
	}
	if found[3] != all[0].ID && found[3] != all[1].ID {
		t.Errorf("%s is no member's id", found[3])
	}
	if _, err := w.client.TryAcquire(background, "stock:42"); err == nil {
		t.Error("the bridge holds beside Java")
	}
	if err := j.Release(background); err != nil {
		t.Fatal(err)
	}
	w.freed("stock:42")
	if err := j.Goodbye(background); err != nil {
		t.Fatal(err)
	}
	w.members("one member after the goodbye", func(all []migrate.MemberState) bool { return len(all) == 1 })
}

func TestJavaFollowsTheRecordIntoSealed(t *testing.T) {
	w := inJavaWorld(t, 10*time.Second)
	j := w.java(interop.Default)
	w.step()
	w.members("all sealed", func(all []migrate.MemberState) bool {
		return len(all) == 2 && all[0].Phase == migrate.Sealed && all[1].Phase == migrate.Sealed
	})
	for range 2 { // with a guard of its own, and on the tombstone
		w.take(j)
		if err := j.Release(background); err != nil {
			t.Fatal(err)
		}
		if l := w.read("stock:42"); l != "9223372036854775807" {
			t.Errorf("Java left %q, not the tombstone", l)
		}
	}
	if n := w.keys("*stock:42*"); n != 1 {
		t.Errorf("%d keys, want the tombstone alone", n)
	}
	lease, err := w.client.TryAcquire(background, "stock:42")
	if err != nil {
		t.Fatalf("the bridge on Java's tombstone: %v", err)
	}
	if err := lease.Release(); err != nil {
		t.Error(err)
	}
}

func TestNoUpdateIsLostBetweenJavaTheBridgeAndTheJar(t *testing.T) {
	ctx, cancel := context.WithTimeout(background, 5*time.Minute)
	defer cancel()
	w := inJavaWorld(t, 10*time.Second)
	old := interop.SharedClient(t, w.server.Addr())
	if err := old.Lock(ctx, interop.Jar, "stock:42", 2*time.Minute, time.Minute); err != nil {
		t.Fatal(err)
	}
	var loops []*interop.Loop
	for _, c := range []*interop.Client{w.java(interop.Default), w.java(interop.Default), old} {
		l, err := c.StartLoop(ctx, javaCounter, time.Millisecond, 0)
		if err != nil {
			t.Fatal(err)
		}
		loops = append(loops, l)
	}
	ours := w.work(ctx, 2)
	total := 0
	for _, l := range loops {
		if _, err := l.Reach(ctx, 20); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range loops {
		if err := l.Stop(ctx); err != nil {
			t.Fatal(err)
		}
	}
	total += ours()
	for i, l := range loops {
		r, err := l.Wait(ctx)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("Java client %d had it %d times", i, r.Acquired)
		total += r.Acquired
	}
	if n, err := redis.Int(w.server.Do("GET", javaCounter), nil); err != nil || n != total {
		t.Errorf("%d acquisitions, and the counter says %d (%v): updates were lost", total, n, err)
	}
}

// between is the longest time that a goroutine of work leaves the key alone.
// Without it the goroutines wake each other, and the Java clients, which poll,
// find the key free once in many seconds.
const between = 200 * time.Millisecond

// work counts in goroutines of Go clients until the func that it returns is
// called. That func returns how often they counted.
func (w *javaWorld) work(ctx context.Context, goroutines int) (end func() int) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	done := make([]int, goroutines)
	for i := range goroutines {
		wg.Go(func() {
			for ctx.Err() == nil {
				// The section is not cut short by the end of the work.
				err := w.client.Do(context.WithoutCancel(ctx), "stock:42", func(context.Context) error {
					c := w.pool.Get()
					defer c.Close()
					n, err := redis.Int(c.Do("GET", javaCounter))
					if err != nil && !errors.Is(err, redis.ErrNil) {
						return err
					}
					done[i]++
					_, err = c.Do("SET", javaCounter, n+1)
					return err
				})
				if err != nil {
					w.t.Errorf("the bridge: %v", err)
					return
				}
				<-time.After(rand.N(between))
			}
		})
	}
	return func() int {
		cancel()
		wg.Wait()
		sum := 0
		for _, n := range done {
			sum += n
		}
		w.t.Logf("the bridge had it %d times", sum)
		return sum
	}
}

func TestEitherSideIsKilledAndTheOtherTakesOver(t *testing.T) {
	const ttl = 4 * time.Second
	w := inJavaWorld(t, ttl)
	j := w.java(ttl)
	w.take(j)
	if err := j.Die(background); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(background, redistest.Patience)
	defer cancel()
	lease, err := w.client.Acquire(ctx, "stock:42")
	if err != nil {
		t.Fatalf("the bridge after Java's death: %v", err)
	}
	if err := lease.Release(); err != nil {
		t.Fatal(err)
	}

	next := w.java(ttl)
	// A grant without a Client is what a dead process leaves: nothing renews
	// it, nothing gives it back.
	if _, err := w.bridge.Contract().Try(background, "stock:42", ttl); err != nil {
		t.Fatal(err)
	}
	if n := w.keys("*stock:42*"); n != 2 {
		t.Fatalf("%d keys, want both of the dead holder", n)
	}
	w.take(next)
	if err := next.Release(background); err != nil {
		t.Fatal(err)
	}
}

func (w *javaWorld) read(key string) string {
	w.t.Helper()
	s, err := redis.String(w.server.Do("GET", key), nil)
	if err != nil {
		w.t.Fatalf("GET %s: %v", key, err)
	}
	return s
}

func (w *javaWorld) keys(pattern string) int {
	w.t.Helper()
	all, err := redis.Strings(w.server.Do("KEYS", pattern), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return len(all)
}

// freed fails unless nobody holds key: nothing is left but M for the time for
// which a release leaves the key to old clients. It ends with that time.
func (w *javaWorld) freed(key string) {
	w.t.Helper()
	all, err := redis.Strings(w.server.Do("KEYS", "*"+key+"*"), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, left := range all {
		// In this order, so that a key which ends between the two is not taken
		// for one without an end.
		value, err := redis.String(w.server.Do("GET", left), nil)
		if errors.Is(err, redis.ErrNil) {
			continue
		}
		ends, _ := w.server.Do("PTTL", left).(int64)
		gap := polite.Millis(polite.Gap(dialect.Jedis().Poll))
		if _, nobodys := polite.Token(value); !nobodys || left != "{"+key+"}:gsl" || ends == -1 ||
			ends > gap {
			w.t.Errorf("%s is left, %q for %d ms (%v)", left, value, ends, err)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package census

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
)

func TestHoldLastsFromTheWinningSetnxToTheDel(t *testing.T) {
	f := newFilm(t, Config{Lease: time.Minute})
	f.Look(-10, "stock", "")
	f.Do(0, anna, "SETNX", "stock", stamp(0))
	f.Do(100, bert, "SETNX", "stock", stamp(100))
	f.Do(101, bert, "GET", "stock")
	f.Do(200, bert, "SETNX", "stock", stamp(200))
	f.Do(201, bert, "GET", "stock")
	f.Do(5000, anna, "DEL", "stock")
	f.Do(5050, bert, "SETNX", "stock", stamp(5050))
	r := f.wants(Counts{Acquisitions: 2, Failed: 2, Releases: 1})
	e := r.Evidence
	if e.LongestHold.Value != 5*time.Second || e.LongestHold.Addr != anna {
		t.Errorf("longest hold %+v", e.LongestHold)
	}
	if e.Waits.Count != 1 || e.Waits.Longest != 4950*time.Millisecond {
		t.Errorf("waits %+v", e.Waits)
	}
	if e.LastFailed == nil || !e.LastFailed.At.Equal(at(200)) || e.LastFailed.Addr != bert {
		t.Errorf("last failed attempt %+v", e.LastFailed)
	}
	if e.LastWrite == nil || !e.LastWrite.At.Equal(at(5050)) {
		t.Errorf("last write %+v", e.LastWrite)
	}
}

// race lets a crashed holder's lock expire while two clients wait for it.
func race(f *film) {
	f.Look(-70_000, "stock", "")
	f.Do(-61_000, cleo, "SETNX", "stock", stamp(-61_000))
	for _, who := range []string{anna, bert} {
		f.Do(0, who, "SETNX", "stock", stamp(0))
	}
	for _, who := range []string{anna, bert} {
		f.Do(1, who, "GET", "stock")
	}
}

func TestLoserOfATakeoverClobbersTheWinner(t *testing.T) {
	f := newFilm(t, Config{})
	race(f)
	f.Do(2, anna, "GETSET", "stock", stamp(0))
	f.Do(3, bert, "GETSET", "stock", strconv.FormatInt(at(0).UnixMilli()+60_000, 10))
	r := f.wants(Counts{Acquisitions: 2, Takeovers: 1, Failed: 3, Clobbers: 1})
	if !slices.ContainsFunc(r.Findings,
		func(f Finding) bool { return f.Kind == "clobber" && f.Writer == bert }) {
		t.Errorf("findings %+v", r.Findings)
	}
}

func TestLosersGetsetAfterTheReleaseLeavesAGhost(t *testing.T) {
	f := newFilm(t, Config{})
	race(f)
	f.Do(2, anna, "GETSET", "stock", stamp(0))
	f.Do(50, anna, "DEL", "stock")
	f.Do(60, bert, "GETSET", "stock", stamp(0))
	f.wants(Counts{Acquisitions: 2, Takeovers: 1, Failed: 3, Ghosts: 1, Releases: 1})
}

func TestLateReleaseOfAnOverrunHolderIsAnOverlap(t *testing.T) {
	f := newFilm(t, Config{})
	race(f)
	f.Do(2, anna, "GETSET", "stock", stamp(0))
	f.Do(500, cleo, "DEL", "stock") // the first holder was slow and not dead
	f.Do(600, bert, "SETNX", "stock", stamp(600))
	f.Do(700, anna, "DEL", "stock")
	r := f.wants(Counts{Acquisitions: 3, Takeovers: 1, Failed: 2, Overruns: 2, Overlaps: 2})
	if r.Evidence.LongestHold.Value != 61_500*time.Millisecond {
		t.Errorf("longest hold %+v", r.Evidence.LongestHold)
	}
	for _, a := range r.Evidence.Keys[0].Timeline {
		t.Log(a.At.Sub(at(0)), a.What, a.Addr, a.Detail)
	}
}

func TestReleaseAfterTheOwnStampIsAnOverrun(t *testing.T) {
	f := newFilm(t, Config{Lease: time.Minute})
	f.Look(-10, "stock", "")
	f.Do(0, anna, "SETNX", "stock", stamp(0))
	f.Do(60_100, anna, "DEL", "stock")
	f.wants(Counts{Acquisitions: 1, Overruns: 1})
}

// By the upper bound her clock is up to 5 s ahead, so her release at 58 s could
// be after her stamp of 60 s. That is no proof.
func TestOverrunIsProvedByTheLeastOffset(t *testing.T) {
	f := newFilm(t, Config{Lease: time.Minute, Gap: 5 * time.Second})
	f.Look(-10_000, "stock", "")
	f.Do(0, anna, "SETNX", "stock", stamp(0))
	f.Do(58_000, anna, "DEL", "stock")
	f.wants(Counts{Acquisitions: 1, Releases: 1})
}

// knows lets a writer whose clock is ahead by that many ms lock and unlock.
func knows(f *film, ms int, addr, key string, ahead int) {
	f.Do(ms, addr, "SETNX", key, stamp(ms+ahead))
	f.Do(ms+5, addr, "DEL", key)
}

func TestForgottenWritersWidenTheSpread(t *testing.T) {
	f := newFilm(t, Config{Lease: time.Minute, Gap: time.Second, MaxWriters: 1})
	f.Look(-10_000, "stock", "")
	knows(f, 0, anna, "stock", 10_000)
	knows(f, 100, bert, "stock", 0)
	knows(f, 200, cleo, "stock", -5_000)
	spread := f.result().Evidence.Spread
	if !spread.Sound() || spread.Guaranteed < 15*time.Second || spread.Guaranteed > 17*time.Second ||
		spread.Writes != 3 {
		t.Errorf("%+v, want 15 s plus a gap, though two of the three writers are forgotten", spread)
	}
}

// No lease is given, so the lease of a forgotten writer was a guess too.
func TestForgottenWriterOfAGuessedLeaseSpoilsTheSpread(t *testing.T) {
	f := newFilm(t, Config{Gap: time.Second, MaxWriters: 1})
	f.Look(-10_000, "stock", "")
	knows(f, 0, anna, "stock", 0)
	knows(f, 200, bert, "stock", 0)
	if spread := f.result().Evidence.Spread; spread.Sound() || spread.Proved != 0 || !spread.Guessed {
		t.Errorf("%+v is reported as a guarantee", spread)
	}
}

// The spread covers all clocks over the whole watch: a stamp outlives a step of
// the clock that made it.
func TestStepOfAClockWidensTheSpread(t *testing.T) {
	f := newFilm(t, Config{Lease: time.Minute, Gap: time.Second})
	f.Look(-10_000, "stock", "")
	knows(f, 0, anna, "stock", 0)
	knows(f, 500, anna, "stock", 30_000)
	spread := f.result().Evidence.Spread
	if spread.Guaranteed < 30*time.Second || spread.Proved < 28*time.Second ||
		spread.Proved > 29*time.Second {
		t.Errorf("%+v, and one clock stepped by 30 s", spread)
	}
}

func TestDelByANonHolderIsAnOverrun(t *testing.T) {
	f := newFilm(t, Config{})
	f.Look(-10, "stock", "")
	f.Do(0, anna, "SETNX", "stock", stamp(0))
	f.Do(10, bert, "DEL", "stock")
	f.wants(Counts{Acquisitions: 1, Overruns: 1})
}

// A pool may send the DEL on another connection of the same host.
func TestDelOnAnotherConnectionOfTheHostIsARelease(t *testing.T) {
	f := newFilm(t, Config{})
	f.Look(-10, "stock", "")
	f.Do(0, anna, "SETNX", "stock", stamp(0))
	f.Do(10, "10.0.0.1:1001", "DEL", "stock")
	f.wants(Counts{Acquisitions: 1, Releases: 1})
}

func TestOrMineClientsGrantTwice(t *testing.T) {
	d := dialect.JedisUUID()
	f := newFilm(t, Config{Dialects: []dialect.Dialect{d}})
	mark := func(ms, who int) string {
		text, err := d.Stamp(at(ms), time.Minute, fmt.Sprintf("00000000-0000-4000-8000-00000000000%d", who))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	f.Look(-70_000, "stock", "")
	f.Do(-61_000, cleo, "SETNX", "stock", mark(-61_000, 3))
	f.Do(0, anna, "SETNX", "stock", mark(0, 1))
	f.Do(0, bert, "SETNX", "stock", mark(0, 2))
	f.Do(1, anna, "GET", "stock")
	f.Do(1, bert, "GET", "stock")
	f.Do(2, anna, "GETSET", "stock", mark(0, 1))
	f.Do(3, bert, "GETSET", "stock", mark(0, 2))
	f.Do(103, bert, "SETNX", "stock", mark(103, 2))
	f.Do(104, bert, "GET", "stock")
	f.Do(105, bert, "GETSET", "stock", mark(103, 2))
	r := f.wants(Counts{Acquisitions: 3, Takeovers: 1, Failed: 4, Clobbers: 1, DoubleGrants: 1})
	granted := func(a Act) bool { return a.What == ActDoubleGrant && a.Addr == bert }
	if all := r.Evidence.Keys[0].Timeline; !slices.ContainsFunc(all, granted) {
		t.Errorf("%+v", all)
	}
}

func TestExpireByANonHolderIsForeign(t *testing.T) {
	f := newFilm(t, Config{})
	f.Look(-10, "stock", "")
	f.Do(0, anna, "SETNX", "stock", stamp(0))
	f.Do(1, anna, "EXPIRE", "stock", "60")
	f.Do(2, bert, "PEXPIRE", "stock", "3000")
	f.Do(4000, bert, "SETNX", "stock", stamp(4000)) // the TTL has ended the key unseen
	f.wants(Counts{Acquisitions: 2, ForeignExpires: 1})
}

func TestGetsetFirstClientsAreNamed(t *testing.T) {
	f := newFilm(t, Config{})
	for i := range 5 {
		f.Do(100*i, bert, "GETSET", "stock", stamp(100*i))
	}
	// Neither a holder that renews by GETSET counts, nor a waiter that was in
	// the middle of an attempt when the watch began.
	f.Do(600, anna, "GETSET", "stock", stamp(590))
	f.Do(601, anna, "DEL", "stock")
	if got := f.result().Evidence.GetsetFirst; !slices.Equal(got, []string{bert}) {
		t.Errorf("GETSET first: %v", got)
	}
}

func TestNextCommandShowsTheWinnerOfAnUnknownKey(t *testing.T) {
	f := newFilm(t, Config{})
	f.Do(0, anna, "SETNX", "stock", stamp(0))
	f.Do(10, bert, "SETNX", "stock", stamp(10))
	f.Do(11, bert, "GET", "stock")
	if got := f.result().Evidence.Counts; got.Acquisitions != 0 {
		t.Errorf("the outcome is not known yet: %+v", got)
	}
	g := newFilm(t, Config{})
	g.Do(0, anna, "SETNX", "stock", stamp(0))
	g.Do(1000, anna, "DEL", "stock")
	g.wants(Counts{Acquisitions: 1, Releases: 1})
	h := newFilm(t, Config{})
	h.Do(0, anna, "SETNX", "stock", stamp(0))
	h.Look(5, "stock", stamp(0))
	h.wants(Counts{Acquisitions: 1})
}

func TestGetsetlockScriptsAreNoOldClients(t *testing.T) {
	f := newFilm(t, Config{})
	f.Look(-10, "stock", "")
	f.Do(0, anna, "EVALSHA")
	f.Do(0, "lua", "SET", "stock", "4611686018427387999", "PX", "30000")
	f.Do(10, bert, "SETNX", "stock", stamp(10))
	f.Do(11, bert, "GET", "stock")
	f.Do(500, anna, "EVALSHA")
	f.Do(500, "lua", "DEL", "stock")
	f.Do(600, cleo, "SET", "stock", dialect.Jedis().Tombstone())
	r := f.wants(Counts{Failed: 1, Guards: 1, Tombstones: 1})
	if r.Evidence.LastWrite != nil {
		t.Errorf("an old client wrote: %+v", r.Evidence.LastWrite)
	}
}

// The GETSET repeats the stamp of a SETNX 6.1 s earlier, whatever the clock
// did.
func TestGapIsCountedFromTheSetnxWithItsStamp(t *testing.T) {
	f := newFilm(t, Config{Lease: time.Minute, Gap: time.Second})
	f.Look(-70_000, "stock", "")
	f.Do(-61_000, cleo, "SETNX", "stock", stamp(-61_000))
	for i := range 20 {
		f.Do(-3000+100*i, bert, "SETNX", "stock", stamp(-3000+100*i))
		f.Do(-3000+100*i+1, bert, "GET", "stock")
	}
	f.Do(5000, bert, "GETSET", "stock", stamp(-3000+1900))
	r := f.result()
	g := r.Evidence.Gaps
	if g == nil || g.AtLeast != 6100*time.Millisecond || r.Evidence.LongestGap.Value != g.AtLeast {
		t.Fatalf("gap %+v", g)
	}
	if !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Kind == "claim_refuted" }) {
		t.Errorf("a claim of 1s is not refuted: %+v", r.Findings)
	}
}

// A GETSET with a new stamp shows no age of its clock reading.
func TestGetsetWithAnotherStampRefutesNoGap(t *testing.T) {
	f := newFilm(t, Config{Lease: time.Minute, Gap: time.Second})
	f.Look(-70_000, "stock", "")
	f.Do(-61_000, cleo, "SETNX", "stock", stamp(-61_000))
	f.Do(0, bert, "SETNX", "stock", stamp(0))
	f.Do(1, bert, "GET", "stock")
	f.Do(5000, bert, "GETSET", "stock", stamp(4999))
	if g := f.result().Evidence.Gaps; g == nil || g.AtLeast != 0 {
		t.Fatalf("gap %+v", g)
	}
}

// A forgotten writer's gap refutes a claim as well as any other's.
func TestGapOfAForgottenWriterIsKept(t *testing.T) {
	f := newFilm(t, Config{Lease: time.Minute, Gap: time.Second, MaxWriters: 1})
	f.Look(-70_000, "stock", "")
	f.Do(-61_000, cleo, "SETNX", "stock", stamp(-61_000))
	f.Do(0, bert, "SETNX", "stock", stamp(0))
	f.Do(1, bert, "GET", "stock")
	f.Do(5000, bert, "GETSET", "stock", stamp(0))
	knows(f, 6000, anna, "order", 0)
	if g := f.result().Evidence.Gaps; g == nil || g.AtLeast != 5*time.Second || g.Addr != bert {
		t.Errorf("gap %+v", g)
	}
}

func TestKeyOfTwoDialectsIsAMixture(t *testing.T) {
	f := newFilm(t, Config{Dialects: []dialect.Dialect{dialect.Jedis(), dialect.Page()}})
	f.Look(-10, "stock", "")
	f.Do(0, anna, "SETNX", "stock", stamp(0))
	f.Do(10, bert, "SETNX", "stock", strconv.FormatInt(at(10).Unix()+61, 10))
	r := f.result()
	if m := r.Evidence.mixed(); len(m) != 1 || !slices.Equal(m[0].Dialects, []string{"Jedis", "Page"}) {
		t.Errorf("mixtures %+v", m)
	}
}

func TestPollsAloneCountUnknownWriters(t *testing.T) {
	f := polledFilm(t, Config{})
	f.Look(0, "stock", "")
	f.Look(100, "stock", stamp(80))
	f.Look(200, "stock", stamp(80))
	f.Look(300, "stock", "")
	f.Look(400, "stock", stamp(310))
	f.wants(Counts{Acquisitions: 2})
	r := f.result()
	e := r.Evidence
	if h := e.LongestHold; h.Value != 300*time.Millisecond || h.Source != SourcePoll || h.Basis != Inferred {
		t.Errorf("hold %+v", h)
	}
	if len(e.Writers) != 1 || e.Writers[0].Addr != "" || e.Writers[0].Offset.Low > 0 ||
		e.Writers[0].Offset.High != offset.NoHigh {
		t.Errorf("writers %+v", e.Writers)
	}
	if !e.SmallestLease.Known() || e.SmallestLease.Value != time.Minute || e.SmallestLease.Basis != Inferred {
		t.Errorf("lease %+v", e.SmallestLease)
	}
}

func TestQuietStartsAtTheLastAttemptHoleOrStep(t *testing.T) {
	f := newFilm(t, Config{})
	proves := func(from, until int) {
		f.Add(offset.Observed{At: at(until), Kind: offset.ObservedGap,
			For: at(until).Sub(at(from)), Reason: "monitor " + reading.Proved})
	}
	quiet := func(want int, when string) {
		t.Helper()
		e := f.result().Evidence
		if _, got := e.Quiet(); got != time.Duration(want)*time.Second {
			t.Errorf("%s: %v, should be %d s", when, got, want)
		}
	}
	proves(0, 4000)
	proves(4000, 10_000)
	quiet(10, "all was shown")
	f.Add(offset.Observed{At: at(11_000), Kind: offset.ObservedCommand, Addr: anna,
		Args: []string{reading.Called, "stock", "MSETNX"}})
	quiet(0, "a call that nothing proves yet")
	proves(10_000, 14_000)
	quiet(3, "since the call")
	f.Add(offset.Observed{At: at(15_000), Kind: offset.ObservedStep, For: 500 * time.Millisecond})
	proves(14_000, 16_000)
	quiet(1, "since the step")
	f.Add(reading.GapOf(SourceMonitor, at(16_000), 2*time.Second, HoleCounts,
		"12 calls of SET, MONITOR showed 10"))
	quiet(0, "the counts differed")
	proves(18_000, 22_000)
	quiet(4, "since the counts differed")
	proves(23_000, 24_000)
	quiet(1, "not next to the time before")
}

// The first reading of a count shows no change. A count that fell was reset,
// and may have grown since.
func TestLastMovedIsTheLatestChangeOfACount(t *testing.T) {
	f := newFilm(t, Config{})
	f.Do(0, anna, "SETNX", "stock", stamp(0))
	if f.result().Evidence.Counted {
		t.Error("without a reading")
	}
	for _, c := range []struct {
		ms    int
		name  string
		count int64
		moved int // 0: never
	}{
		{1000, "setnx", 8124, 0}, {2000, "getset", 5, 0}, {3000, "setnx", 8126, 3000},
		{4000, "setnx", 8126, 3000}, {5000, "getset", 6, 5000}, {6000, "setnx", 3, 6000},
	} {
		f.Add(offset.Observed{At: at(c.ms), Kind: offset.ObservedStats, Event: c.name, Count: c.count})
		e := f.result().Evidence
		never, want := c.moved == 0, at(c.moved)
		if !e.Counted || e.LastMoved.IsZero() != never || !never && !e.LastMoved.Equal(want) {
			t.Errorf("after %d ms it moved at %v", c.ms, e.LastMoved)
		}
	}
}

func TestMemoryIsBoundedByTheConfig(t *testing.T) {
	f := newFilm(t, Config{MaxKeys: 10, MaxWriters: 10})
	for i := range 500 {
		f.Do(i, fmt.Sprintf("10.0.%d.%d:1", i/250, i%250), "SETNX", fmt.Sprint("stock:", i), stamp(i))
	}
	r := f.result()
	if n := len(r.Evidence.Writers); n != 10 || r.Evidence.ForgottenWriters != 490 ||
		r.Evidence.ForgottenKeys != 490 || len(r.Evidence.Keys) > 10 {
		t.Errorf("%d writers, %d and %d forgotten", n, r.Evidence.ForgottenWriters, r.Evidence.ForgottenKeys)
	}
	if !strings.Contains(fmt.Sprint(r.Findings), "490 more writers") {
		t.Errorf("findings %+v", r.Findings)
	}
}

// A busy observer receives looks and commands late, and sometimes in the wrong
// order.
func TestLateEventsCauseNoFindings(t *testing.T) {
	f := newFilm(t, Config{Lease: time.Minute})
	f.Look(-10, "stock", "")
	f.Do(0, anna, "SETNX", "stock", stamp(0))
	f.Do(50, anna, "DEL", "stock")
	f.Do(60, bert, "SETNX", "stock", stamp(60))
	f.Look(20, "stock", stamp(0)) // late
	f.Do(100, bert, "DEL", "stock")
	f.Do(110, anna, "SETNX", "stock", stamp(110))
	f.Look(160, "stock", "")         // the DEL at 150 arrives late
	f.Look(190, "stock", stamp(180)) // and so does the SETNX at 180
	f.Do(150, anna, "DEL", "stock")
	f.Do(180, bert, "SETNX", "stock", stamp(180))
	f.Do(250, bert, "DEL", "stock")
	f.wants(Counts{Acquisitions: 4, Releases: 4})
}

// After a hole an address may belong to another client, and any client may hold
// the key.
func TestHoleForgetsHoldersAndConnections(t *testing.T) {
	f := newFilm(t, Config{Lease: time.Minute})
	f.Look(-10, "stock", "")
	f.Do(0, anna, "SETNX", "stock", stamp(0))
	f.Add(reading.GapOf(SourceMonitor, at(10), time.Second, HoleBudget, "between bursts"))
	f.Do(1100, bert, "SETNX", "stock", stamp(1100))
	f.Do(1200, cleo, "DEL", "stock")
	f.wants(Counts{Acquisitions: 1})
}

func TestAnnouncedHoleEndsWithTheWatch(t *testing.T) {
	f := newFilm(t, Config{})
	f.Do(0, anna, "PING")
	f.Add(reading.GapOf(SourceMonitor, at(100), time.Hour, HoleBudget, "between bursts"))
	f.Look(600, "stock", "")
	m := f.result().Evidence.Covered(SourceMonitor)
	if len(m.Holes) != 1 || !m.Holes[0].Until.Equal(at(600)) || !m.Until.Equal(at(600)) {
		t.Errorf("%+v", m)
	}
}

// A client was killed while it held, and its stamp stayed until another client
// took it over. That time is no job, and refutes no claim. The job of a client
// that was seen to release does.
func TestStampOfAKilledClientIsNoJob(t *testing.T) {
	for name, end := range map[string]func(f *film){
		"taken over": func(f *film) { f.Look(11_000, "stock", stamp(11_000)) },
		"deleted":    func(f *film) { f.Look(11_000, "stock", "") },
	} {
		f := polledFilm(t, Config{Lease: 10 * time.Second, Job: 2 * time.Second})
		f.Look(-10, "stock", "")
		f.Look(0, "stock", stamp(-50_000))
		end(f)
		if r := f.result(); r.Evidence.LongestHold != (Span{Value: 2 * time.Second, Basis: Claimed}) {
			t.Errorf("%s: %+v", name, r.Evidence.LongestHold)
		}
	}
	f := newFilm(t, Config{Lease: 10 * time.Second, Job: 2 * time.Second})
	f.Look(-10, "stock", "")
	f.Do(0, anna, "SETNX", "stock", stamp(-50_000)) // killed
	f.Do(11_000, bert, "SETNX", "stock", stamp(-39_000))
	f.Do(11_001, bert, "GET", "stock")
	f.Do(11_002, bert, "GETSET", "stock", stamp(-39_000))
	f.Do(11_900, bert, "DEL", "stock")
	f.Do(12_000, bert, "SETNX", "stock", stamp(-38_000))
	f.Do(14_500, bert, "DEL", "stock")
	if h := f.result().Evidence.LongestHold; h.Value != 2500*time.Millisecond || h.Basis != Measured {
		t.Errorf("%+v", h)
	}
}

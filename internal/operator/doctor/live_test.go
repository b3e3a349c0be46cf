// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/clocks"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
	"github.com/getsetlock/getsetlock/internal/operator/probe"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/internal/testing/reel"
	"github.com/getsetlock/getsetlock/internal/wire"
)

// runID makes the embedded server report a run id, as a real one does.
func runID(w *redistest.World, id string) {
	w.Mini.Server().SetPreHook(func(c *server.Peer, command string, args ...string) bool {
		if strings.EqualFold(command, "INFO") {
			c.WriteBulk("# Server\r\nrun_id:" + id + "\r\n")
		}
		return strings.EqualFold(command, "INFO")
	})
}

func jedis() []dialect.Dialect { return []dialect.Dialect{dialect.Jedis()} }

// pastBy sets a lock whose stamp TIME has passed by that much, and returns its
// value.
func pastBy(w *redistest.World, key string, by time.Duration) string {
	value := fmt.Sprint(w.ServerNow().Add(-by).UnixMilli())
	w.Mini.Set(key, value)
	return value
}

// The fleet's clocks agree with each other and are 120 s behind the server's.
// The holder works, and in 50 polls each, two waiters found its stamp live.
func TestDoctorLeavesStampsThatWaitersFindLive(t *testing.T) {
	w := redistest.New(t)
	const behind = 120_000
	f := newFilm(t, census.Config{Lease: time.Minute, Gap: time.Second})
	shift := at(0).Sub(w.ServerNow())
	f.Look(-10, "lock:a", "")
	value := stamp(-behind)
	f.Do(0, anna, "SETNX", "lock:a", value)
	for poll := range 50 {
		for _, addr := range []string{bert, cleo} {
			f.Do(100+poll*100, addr, "SETNX", "lock:a", stamp(100+poll*100-behind))
			f.Do(101+poll*100, addr, "GET", "lock:a")
		}
	}
	e := f.evidence()
	w.StepServer(shift + 6*time.Second)
	w.Mini.Set("lock:a", value)
	cfg := Config{Match: "lock:*", Dialects: jedis(), Lease: time.Minute, Evidence: e}
	got := examined(t, w, cfg)
	if complaintsOf(got) != "lock:a: past" ||
		!strings.Contains(got[0].What, "old clients read it 100 times") {
		t.Errorf("%s: %+v", complaintsOf(got), got)
	}
	// What the watch saw also outweighs a claim.
	cfg.Behind = time.Second
	if got := complaintsOf(examined(t, w, cfg)); got != "lock:a: past" {
		t.Errorf("with a claim that was refuted: %s", got)
	}
	// The watch forgot some keys, and old clients may have read this one.
	cfg.Evidence = &census.Evidence{ForgottenKeys: 1}
	if got := complaintsOf(examined(t, w, cfg)); got != "lock:a: past" {
		t.Errorf("forgotten: %s", got)
	}
}

// The server's clock is ten minutes behind the fleet's, so a live stamp is
// eleven minutes ahead. If Doctor moved it to one lease from now by the
// server's clock, another client could steal the lock.
func TestFarHasNoFixWhileAheadIsUnknown(t *testing.T) {
	w := redistest.New(t)
	live := stampOf(t, dialect.Jedis(), w.ServerNow().Add(10*time.Minute), time.Minute)
	w.Mini.Set("lock:live", live)
	forged := stampOf(t, dialect.Jedis(), w.ServerNow().AddDate(0, 0, 40), time.Minute)
	w.Mini.Set("lock:forged", forged)
	cfg := Config{Match: "lock:*", Dialects: jedis(), Lease: time.Minute}
	if got := complaintsOf(examined(t, w, cfg)); got != "lock:forged: far\nlock:live: far" {
		t.Errorf("nothing claimed:\n%s", got)
	}
	// Without a known lease no stamp is moved either, whatever lease the
	// dialect ships with.
	cfg.Lease, cfg.Ahead = 0, 10*time.Minute
	if got := complaintsOf(examined(t, w, cfg)); strings.Contains(got, "fix") {
		t.Errorf("no lease:\n%s", got)
	}
	cfg.Greatest = time.Minute
	fixes := fixesOf(examined(t, w, cfg))
	if len(fixes) != 1 || fixes[0].Key != "lock:forged" {
		t.Fatalf("%v", fixes)
	}
	if got := applied(t, w, fixes); got != "lock:forged done" {
		t.Fatal(got)
	}
	// By the fastest client's clock, a whole lease is left.
	value, _ := w.Mini.Get("lock:forged")
	s, err := dialect.Jedis().Decode(value, w.ServerNow())
	if left := s.Expiry.Sub(w.ServerNow().Add(10 * time.Minute)); err != nil || left < time.Minute {
		t.Errorf("%v left, %v", left, err)
	}
}

// The bytes do not distinguish Page from PageNil, and clients of PageNil win a
// GETSET that returns nil.
func TestHolderOfPageNilIsNoGhost(t *testing.T) {
	for name, given := range map[string][]dialect.Dialect{
		"by the bytes": reading.Likeliest(), "named Page": {dialect.Page()}} {
		f := newFilm(t, census.Config{Lease: time.Minute, Dialects: given})
		page := func(ms int) string { return stampOf(t, dialect.Page(), at(ms), time.Minute) }
		f.Look(-70_000, "lock:a", "")
		f.Do(-63_000, anna, "SETNX", "lock:a", page(-63_000))
		f.Do(0, bert, "SETNX", "lock:a", page(0))
		f.Do(1, bert, "GET", "lock:a")
		f.Do(2, anna, "DEL", "lock:a")
		f.Do(3, bert, "GETSET", "lock:a", page(0)) // a win by PageNil
		e := f.evidence()
		if e.Counts.Ghosts != 1 {
			t.Fatalf("%s: %+v", name, e.Counts)
		}
		w := redistest.New(t)
		w.StepServer(at(100).Sub(w.ServerNow()))
		w.Mini.Set("lock:a", page(0))
		cfg := Config{Match: "lock:*", Lease: time.Minute, Evidence: e}
		if got := complaintsOf(examined(t, w, cfg)); got != "" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestLowerBoundKeepsTheDefaultSpread(t *testing.T) {
	w := redistest.New(t)
	pastBy(w, "lock:a", 500*time.Millisecond)
	proved := census.Spread{Apart: 10 * time.Millisecond, Guaranteed: offset.NoHigh}
	cfg := Config{Match: "lock:*", Dialects: jedis(), Behind: dialect.Zero,
		Evidence: &census.Evidence{Clocks: census.Clocks{Spread: proved}}}
	if got := complaintsOf(examined(t, w, cfg)); got != "" {
		t.Errorf("within the default of a second: %s", got)
	}
	pastBy(w, "lock:a", 3*time.Second)
	cfg.Evidence.Spread = census.Spread{Apart: 5 * time.Second, Guaranteed: offset.NoHigh}
	if got := complaintsOf(examined(t, w, cfg)); got != "" {
		t.Errorf("proved to be more: %s", got)
	}
}

// Nothing is claimed about clocks, so Doctor looks twice.
func TestDoctorDeletesAfterTwoLooks(t *testing.T) {
	w := redistest.New(t)
	runID(w, "first")
	value := pastBy(w, "lock:a", time.Hour)
	cfg := Config{Match: "lock:*", Dialects: jedis(), Greatest: time.Minute,
		Clock: w.Clock(redistest.Skew{})}
	if got := examined(t, w, cfg); complaintsOf(got) != "lock:a: past" || w.Mini.Exists(lookKey("lock:a")) {
		t.Errorf("without Remember: %+v", got)
	}
	cfg.Remember = true
	got := examined(t, w, cfg)
	if complaintsOf(got) != "lock:a: past" || got[0].Wait.Round(time.Second) != 73*time.Second ||
		w.Mini.HGet(lookKey("lock:a"), "bytes") != value {
		t.Errorf("first look: %+v", got)
	}
	if ttl := w.Mini.TTL(lookKey("lock:a")); ttl != lookTTL {
		t.Errorf("the look stays for %v", ttl)
	}
	w.Pass(got[0].Wait - time.Second)
	if got := examined(t, w, cfg); complaintsOf(got) != "lock:a: past" ||
		got[0].Wait.Round(time.Second) != time.Second {
		t.Errorf("too early: %+v", got)
	}
	w.Pass(2 * time.Second)
	fixes := fixesOf(examined(t, w, cfg))
	if len(fixes) != 1 || applied(t, w, fixes) != "lock:a done" || len(w.Mini.Keys()) != 0 {
		t.Errorf("%v, left %q", fixes, w.Mini.Keys())
	}
}

// A look by any getsetlock client counts if it showed these bytes on this
// server.
func TestLookCountsOnlyForItsBytesAndServer(t *testing.T) {
	long := func(w *redistest.World) time.Time { return w.ServerNow().Add(-10 * time.Minute) }
	for name, c := range map[string]struct {
		run, bytes string
		at         func(*redistest.World) time.Time
		want       string
	}{
		"equal":        {"first", "", long, "dead fix delete"},
		"other bytes":  {"first", "1", long, "past"},
		"other server": {"second", "", long, "past"},
		"no run id":    {"", "", long, "past"},
		"set back": {"first", "",
			func(w *redistest.World) time.Time { return w.ServerNow().Add(10 * time.Minute) }, "past"},
		"young": {"first", "",
			func(w *redistest.World) time.Time { return w.ServerNow().Add(-72 * time.Second) }, "past"},
	} {
		w := redistest.New(t)
		runID(w, "first")
		value := pastBy(w, "lock:a", time.Hour)
		if c.bytes != "" {
			value = c.bytes
		}
		when := c.at(w)
		w.Mini.HSet(lookKey("lock:a"), "bytes", value, "sec", fmt.Sprint(when.Unix()), "usec",
			fmt.Sprint(when.Nanosecond()/1000), "run", c.run, "boot", "b/1", "up", "5")
		cfg := Config{Match: "lock:*", Dialects: jedis(), Lease: time.Minute, Remember: true}
		if got := complaintsOf(examined(t, w, cfg)); got != "lock:a: "+c.want {
			t.Errorf("%s: %s", name, got)
		}
		// A look that does not count is replaced; a look that counts, or will,
		// is kept.
		kept := name == "equal" || name == "young"
		if sec := w.Mini.HGet(lookKey("lock:a"), "sec"); (sec == fmt.Sprint(when.Unix())) != kept ||
			w.Mini.HGet(lookKey("lock:a"), "run") != "first" {
			t.Errorf("%s: remembered at %s, which was %v", name, sec, when.Unix())
		}
	}
}

func TestDoctorNeverCountsLooksOfANamelessServer(t *testing.T) {
	w := redistest.New(t)
	value := pastBy(w, "lock:a", time.Hour)
	w.Mini.HSet(lookKey("lock:a"), "bytes", value, "sec", "1", "usec", "0", "run", "", "boot", "", "up", "")
	got := examined(t, w, Config{
		Match: "lock:*", Dialects: jedis(), Lease: time.Minute, Remember: true})
	if complaintsOf(got) != "lock:a: past" || !strings.Contains(got[0].Advice, "run id") {
		t.Errorf("%+v", got)
	}
}

// A fleet may have changed the lease that its library ships with.
func TestDoctorOffersNoFixWithoutALease(t *testing.T) {
	w := redistest.New(t)
	runID(w, "first")
	pastBy(w, "lock:a", time.Hour)
	cfg := Config{Match: "lock:*", Dialects: jedis(), Remember: true}
	for range 2 {
		if got := complaintsOf(examined(t, w, cfg)); got != "lock:a: past" {
			t.Errorf("%s", got)
		}
		w.Pass(24 * time.Hour)
	}
}

// A getsetlock client's stamp has a PX; without one it is a day ahead.
func TestDoctorLeavesStampsOfGetsetlockClients(t *testing.T) {
	w := redistest.New(t)
	now := w.ServerNow()
	set := func(key string, left, ttl time.Duration) {
		w.Mini.Set(key, fmt.Sprint(now.Add(left).UnixMilli()))
		if ttl > 0 {
			w.Mini.SetTTL(key, ttl)
		}
	}
	set("lock:px", 24*time.Hour+30*time.Second, 30*time.Second)
	set("lock:lost-px", 24*time.Hour+30*time.Second, 0)
	w.Mini.HSet("lock:{a}:gsl:look", "bytes", "1")
	w.Mini.Set("lock:{a}:gsl", "AAECAwQFBgcICQoLDA0ODw 1")
	nanos := fmt.Sprint(now.Add(24*time.Hour + 30*time.Second).UnixNano())
	w.Mini.Set("lock:gorlock", nanos)
	w.Mini.SetTTL("lock:gorlock", 31*time.Second)
	cfg := Config{Match: "lock:*", Lease: time.Minute, Behind: dialect.Zero, Ahead: dialect.Zero}
	got := complaintsOf(examined(t, w, cfg))
	if got != "lock:lost-px: perhaps_ours" {
		t.Errorf("%s", got)
	}
}

// A moved stamp keeps the TTL, if its dialect sets one.
func TestMovedStampKeepsItsTTL(t *testing.T) {
	w := redistest.New(t)
	w.Mini.Set("lock:a", stampOf(t, dialect.Gorlock(), w.ServerNow(), time.Hour))
	w.Mini.SetTTL("lock:a", 2*time.Hour)
	cfg := Config{Match: "lock:*", Dialects: []dialect.Dialect{dialect.Gorlock()},
		Lease: 15 * time.Second, Ahead: dialect.Zero}
	fixes := fixesOf(examined(t, w, cfg))
	if len(fixes) != 1 || applied(t, w, fixes) != "lock:a done" || w.Mini.TTL("lock:a") != 2*time.Hour {
		t.Errorf("%v, TTL %v", fixes, w.Mini.TTL("lock:a"))
	}
}

// What the watch proved outweighs a claim, even if no client read the value.
func TestDoctorBelievesNoRefutedClaim(t *testing.T) {
	w := redistest.New(t)
	pastBy(w, "lock:a", time.Hour)
	e := &census.Evidence{Clocks: census.Clocks{Behind: census.Bound{AtLeast: 10 * time.Minute}}}
	cfg := Config{Match: "lock:*", Dialects: jedis(), Behind: time.Second, Evidence: e}
	if got := complaintsOf(examined(t, w, cfg)); got != "lock:a: past" {
		t.Errorf("%s", got)
	}
	cfg.Behind = 10 * time.Minute
	if got := complaintsOf(examined(t, w, cfg)); got != "lock:a: dead fix delete" {
		t.Errorf("%s", got)
	}
}

// On one machine, the clock that ran less counts, and clocks that disagree
// restart the wait. By TIME alone, the lock would seem dead after a step.
func TestServerStepDoesNotAgeARememberedLook(t *testing.T) {
	w := redistest.New(t)
	runID(w, "first")
	pastBy(w, "lock:a", 5*time.Second)
	cfg := Config{Match: "lock:*", Dialects: jedis(), Greatest: time.Minute, Remember: true,
		Clock: w.Clock(redistest.Skew{}).On("machine")}
	examined(t, w, cfg)
	w.Pass(time.Second)
	w.StepServer(80 * time.Second)
	if got := complaintsOf(examined(t, w, cfg)); got != "lock:a: past" {
		t.Errorf("after a step: %s", got)
	}
	w.Pass(59 * time.Second) // a minute since the first look
	if got := complaintsOf(examined(t, w, cfg)); got != "lock:a: past" {
		t.Errorf("a minute after the look that does not count: %s", got)
	}
	w.Pass(2 * time.Second)
	if got := complaintsOf(examined(t, w, cfg)); got != "lock:a: dead fix delete" {
		t.Errorf("a minute after the step: %s", got)
	}
}

// A look is stored only if the key still holds the bytes and no getsetlock
// client holds the lock. An older look at the same bytes is kept.
func TestLookIsStoredOnlyIfItsBytesAreStillThere(t *testing.T) {
	w := redistest.New(t)
	pool := w.Pool()
	defer pool.Close()
	mux, err := wire.New(pool, wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer mux.Close()
	x := &examiner{clock: clocks.New(nil), mux: mux, run: "first",
		past: map[string]pastStamp{}}
	var young []*Complaint
	for _, key := range []string{"alone", "changed", "ours", "seen", "other run", "foreign"} {
		w.Mini.Set(key, "1")
		x.past[key] = pastStamp{value: "1"}
		young = append(young, &Complaint{Finding: census.Finding{Key: key}})
	}
	w.Mini.Set("changed", "2")
	w.Mini.Set("{ours}:gsl", "AAECAwQFBgcICQoLDA0ODw 1")
	w.Mini.HSet(lookKey("seen"), "bytes", "1", "sec", "5", "run", "first")
	w.Mini.HSet(lookKey("other run"), "bytes", "1", "sec", "5", "run", "second")
	w.Mini.Set(lookKey("foreign"), "no hash")
	if err := x.remember(t.Context(), young); err != nil {
		t.Fatal(err)
	}
	now := fmt.Sprint(w.ServerNow().Unix())
	for key, sec := range map[string]string{"alone": now, "seen": "5", "other run": now} {
		if got := w.Mini.HGet(lookKey(key), "sec"); got != sec {
			t.Errorf("%s: remembered at %q, want %q", key, got, sec)
		}
	}
	if w.Mini.Exists(lookKey("changed")) || w.Mini.Exists(lookKey("ours")) {
		t.Errorf("%q", w.Mini.Keys())
	}
	w.Mini.CheckGet(t, lookKey("foreign"), "no hash")
	for _, c := range young {
		if said := c.Advice != ""; said != (c.Key == "changed" || c.Key == "ours" || c.Key == "foreign") {
			t.Errorf("%s: %q", c.Key, c.Advice)
		}
	}
}

// If this user may not read M, a getsetlock client may hold the lock.
func TestDoctorOffersNoFixIfMIsUnreadable(t *testing.T) {
	w := redistest.New(t)
	pastBy(w, "lock:a", time.Hour)
	pool := w.FaultyPool(redistest.Rule{
		Command: "EXISTS", Times: -1, Do: redistest.Answer("NOPERM no permissions to access a key")})
	defer pool.Close()
	d, err := Examine(t.Context(), pool,
		Config{Match: "lock:*", Dialects: jedis(), Behind: time.Second, Hurry: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range d.Complaints {
		if c.Key != "" && (c.Kind != "past" || c.Fix != nil || !strings.Contains(c.Advice, "{lock:a}:gsl")) {
			t.Errorf("%+v", c)
		}
	}
}

// A spread that is neither claimed nor measured is printed as assumed.
func TestAssumedSpreadIsPrintedAsAssumed(t *testing.T) {
	w := redistest.New(t)
	w.Mini.Set("lock:a", stampOf(t, dialect.Jedis(), w.ServerNow().Add(-59500*time.Millisecond), time.Minute))
	for spread, want := range map[time.Duration]bool{0: true, time.Second: false} {
		got := examined(t, w, Config{Match: "lock:*", Dialects: jedis(), Spread: spread})
		if len(got) != 1 || strings.Contains(got[0].What, "1s ahead (assumed)") != want {
			t.Errorf("spread %v: %+v", spread, got)
		}
	}
}

// Both look at the keys that match the pattern, in database 3 only.
func TestProbeAndDoctorLookAtEachSpelling(t *testing.T) {
	w := redistest.New(t)
	for _, e := range reel.Spellings {
		d := reel.Spelling(e)
		for _, name := range []string{"lock:a", "zz:lock"} {
			_ = w.Mini.DB(3).Set(reel.KeyOf(t, d, name),
				stampOf(t, d, w.ServerNow().Add(-time.Hour), time.Minute))
		}
		_ = w.Mini.Set(reel.KeyOf(t, d, "lock:zero"),
			stampOf(t, d, w.ServerNow().Add(-time.Hour), time.Minute))
	}
	pool := w.Pool(redis.DialDatabase(3))
	p, err := probe.Run(t.Context(), pool, probe.Config{Match: "lock*", DB: 3, Hurry: true})
	if err != nil || p.Keys != 3 {
		t.Errorf("the probe looked at %d keys, %v", p.Keys, err)
	}
	d, err := Examine(t.Context(), pool, Config{Match: "lock*", DB: 3, Dialects: jedis(),
		Behind: time.Second, Hurry: true})
	dead := map[string]bool{}
	for _, c := range d.Complaints {
		if c.Kind == "dead" && c.DB == 3 {
			dead[c.Key] = true
		}
	}
	if err != nil || d.Keys != 3 || len(dead) != 3 {
		t.Errorf("the doctor looked at %d keys and found %v, %v", d.Keys, dead, err)
	}
}

// The probe and doctor both warn, and doctor reports nothing about scripts that
// it could not try.
func TestUserWithoutReadRightsGetsAWarning(t *testing.T) {
	w := redistest.New(t)
	w.Mini.Set("lock:a", "1")
	denied := func(command string) redistest.Rule {
		return redistest.Rule{Command: command, Times: -1, Do: redistest.Answer(redistest.NoPerm)}
	}
	pool := w.FaultyPool(denied("GETRANGE"), denied("EVAL"))
	defer pool.Close()
	got, err := probe.Run(t.Context(), pool, probe.Config{Match: "lock:*", Hurry: true})
	if err != nil {
		t.Fatal(err)
	}
	denies := func(f census.Finding) bool {
		return f.Kind == "denied" && f.Severity == census.SeverityWarning &&
			strings.HasPrefix(f.What, "1 key may not be read") &&
			strings.Contains(f.What, "these are all keys")
	}
	if !slices.ContainsFunc(got.Findings, denies) {
		t.Errorf("the probe found %+v", got.Findings)
	}
	examined, err := Examine(t.Context(), pool, Config{Match: "lock:*", Hurry: true})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(examined.Complaints, func(c Complaint) bool { return denies(c.Finding) }) {
		t.Errorf("doctor found %+v", examined.Complaints)
	}
	if facts := strings.Join(examined.Facts, "\n"); !strings.Contains(facts,
		"scripts that read the clock and write: unknown") {
		t.Error(facts)
	}
}

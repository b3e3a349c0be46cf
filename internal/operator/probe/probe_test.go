// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/operator/keys"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/internal/testing/reel"
)

func probed(t *testing.T, w *redistest.World, cfg Config) *Result {
	t.Helper()
	cfg.Hurry = true
	pool := w.Pool()
	defer pool.Close()
	got, err := Run(t.Context(), pool, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func findingOf(all []census.Finding, kind string) (census.Finding, bool) {
	for _, f := range all {
		if f.Kind == kind {
			return f, true
		}
	}
	return census.Finding{}, false
}

func wantFinding(t *testing.T, all []census.Finding, kind string, severity census.Severity, says ...string) {
	t.Helper()
	f, ok := findingOf(all, kind)
	if !ok {
		t.Errorf("no finding %q among %+v", kind, all)
		return
	}
	for _, s := range says {
		if !strings.Contains(f.What+f.Advice, s) {
			t.Errorf("%s does not say %q: %s %s", kind, s, f.What, f.Advice)
		}
	}
	if f.Severity != severity {
		t.Errorf("%s is a %s, want %s: %s", kind, f.Severity, severity, f.What)
	}
}

// The table was worked out by hand from the protocol: clients with a smaller
// unit always find a larger unit's stamps expired, clients with a larger unit
// never find a smaller unit's stamps expired.
func TestMeetFollowsTheRulesOfBothDialects(t *testing.T) {
	words := dialect.SetDel()
	words.Constant = "busy"
	for _, c := range []struct {
		writer, reader dialect.Dialect
		harm           string
	}{
		{dialect.Jedis(), dialect.Jedis(), ""},
		{dialect.Jedis(), dialect.Errorception(), ""},
		{dialect.Page(), dialect.Jedis(), "takes the lock from its living holder"},
		{dialect.Jedis(), dialect.Page(), "waits forever once the other's holder has crashed"},
		{dialect.Jedis(), dialect.JedisUUID(), "takes the lock from its living holder"},
		{dialect.JedisUUID(), dialect.Jedis(), "gets an exception from its acquire while the other holds"},
		{dialect.Machinery(), dialect.Jedis(), ""}, // never expired to Jedis, but the server frees the key
		{dialect.Gorlock(), dialect.Bare(), ""},
		{dialect.Jedis(), dialect.Bare(), "waits forever once the other's holder has crashed"},
		{dialect.Bare(), dialect.Jedis(), "gets an exception from its acquire while the other holds"},
		{words, dialect.Errorception(), "overwrites a living holder's value without winning, at every poll"},
		{dialect.RedisPy(), dialect.Jedis(), "gets an exception from its acquire while the other holds"},
	} {
		m, err := reading.Meet(c.writer, c.reader, redistest.Start)
		if err != nil {
			t.Fatal(err)
		}
		if m.Harm() != c.harm {
			t.Errorf("a client of %s at a lock of %s: %q (%+v), want %q", c.reader, c.writer, m.Harm(), m,
				c.harm)
		}
	}
}

func TestNoDialectHarmsItself(t *testing.T) {
	for _, d := range dialect.Presets() {
		m, err := reading.Meet(d, d, redistest.Start)
		// Bare has no expiry, so the lock of a crashed holder stays forever.
		if err != nil || m.Harm() != "" && d.Name != "Bare" {
			t.Errorf("%s: %q %v", d, m.Harm(), err)
		}
	}
}

func TestMixtureSaysWhatEachDialectDoes(t *testing.T) {
	w := redistest.New(t)
	now := w.ServerNow()
	for i := range 3 {
		w.Mini.Set(fmt.Sprintf("lock:order:%d", i), reel.StampOf(t, dialect.Jedis(), now, time.Minute))
	}
	w.Mini.Set("lock:order:z", reel.StampOf(t, dialect.Page(), now, time.Minute))
	got := probed(t, w, Config{Match: "lock:*"})
	if len(got.Prefixes) != 1 || got.Prefixes[0].Prefix != "lock:order:" || got.Prefixes[0].Keys != 4 ||
		len(got.Prefixes[0].Forms) != 2 {
		t.Fatalf("%+v", got.Prefixes)
	}
	first := got.Prefixes[0].Forms[0]
	if first.Keys != 3 || first.Unit != dialect.UnitMillis || first.NoTTL != 3 || len(first.Dialects) < 4 {
		t.Errorf("%+v", first)
	}
	wantFinding(t, got.Findings, "mixture", census.SeverityError,
		"milliseconds (3 keys", "whole seconds (1 key", "Jedis", "takes the lock from its living holder",
		"waits forever once the other's holder has crashed")
}

func TestNamedDialectsNarrowAForm(t *testing.T) {
	w := redistest.New(t)
	now := w.ServerNow()
	w.Mini.Set("lock:a", reel.StampOf(t, dialect.Jedis(), now, time.Minute))
	w.Mini.Set("lock:b", reel.StampOf(t, dialect.JedisUUID(), now, time.Minute))
	got := probed(t, w, Config{
		Match: "lock:*", Dialects: []dialect.Dialect{dialect.Jedis(), dialect.JedisUUID()}})
	f, _ := findingOf(got.Findings, "mixture")
	if !strings.Contains(f.What, "a client of JedisUUID takes the lock") ||
		!strings.Contains(f.What, "a client of Jedis gets an exception") {
		t.Errorf("%s", f.What)
	}
}

func TestProbeReportsAUnitTheDialectNeverWrites(t *testing.T) {
	w := redistest.New(t)
	w.Mini.Set("lock:a", reel.StampOf(t, dialect.Page(), w.ServerNow(), time.Minute))
	got := probed(t, w, Config{Match: "lock:*", Dialects: []dialect.Dialect{dialect.Jedis()}})
	wantFinding(t, got.Findings, "unit", census.SeverityError, "whole seconds",
		"Jedis does not write such values", "takes the lock from its living holder")
	w.Mini.Set("lock:a", reel.StampOf(t, dialect.Jedis(), w.ServerNow(), time.Minute))
	got = probed(t, w, Config{Match: "lock:*", Dialects: []dialect.Dialect{dialect.Page()}})
	wantFinding(t, got.Findings, "unit", census.SeverityError, "milliseconds",
		"Page does not write such values", "waits forever")
	got = probed(t, w, Config{Match: "lock:*", Dialects: []dialect.Dialect{dialect.Jedis()}})
	if len(got.Findings) > 0 {
		t.Errorf("values of the named dialect too: %+v", got.Findings)
	}
}

func TestProbeReadsOneKilobyteOfHostileValues(t *testing.T) {
	w := redistest.New(t)
	now := w.ServerNow()
	w.Mini.Set("lock:good", reel.StampOf(t, dialect.Jedis(), now, time.Minute))
	w.Mini.Set("lock:binary", "\x00\xff\x80\x01")
	w.Mini.Set("lock:empty", "")
	w.Mini.Set("lock:huge", strings.Repeat("1795198084101", 300_000))
	w.Mini.Set("lock:forged", fmt.Sprint(now.AddDate(9, 0, 0).UnixMilli()))
	w.Mini.Set("lock:micros", fmt.Sprint(now.UnixMicro()))
	w.Mini.HSet("lock:redisson", "285475da-9152-4c83-822a-67ee2f116a79:52", "1")
	w.Mini.HSet("lock:hash", "name", "1")
	_, _ = w.Mini.Lpush("lock:list", "x")
	wire := w.Wire()
	pool := wire.Pool()
	defer pool.Close()
	got, err := Run(t.Context(), pool,
		Config{Match: "lock:*", Hurry: true, Dialects: []dialect.Dialect{dialect.Jedis()}})
	if err != nil {
		t.Fatal(err)
	}
	wantFinding(t, got.Findings, "large", census.SeverityWarning, "3900000 bytes", `"lock:huge"`)
	wantFinding(t, got.Findings, "far", census.SeverityWarning, "1 lock of milliseconds")
	wantFinding(t, got.Findings, "unreadable", census.SeverityWarning, "a client of Jedis gets an exception")
	types := got.Prefixes[0].Types
	if types[keys.Redisson] != 1 || types["hash"] != 1 || types["list"] != 1 {
		t.Errorf("%v", types)
	}
	var unreadable []string
	for _, f := range got.Findings {
		if f.Kind == "unreadable" {
			unreadable = append(unreadable, f.What)
		}
	}
	if all := strings.Join(unreadable, "\n"); len(unreadable) != 3 ||
		!strings.Contains(all, `"\x00\xff\x80\x01"`) ||
		!strings.Contains(all, "in microseconds would be 2026-03-02") {
		t.Errorf("%s", all)
	}
	for _, c := range wire.Crossed() {
		if c.Is("KEYS") || c.Is("GET") || c.Is("SET") || c.Is("MONITOR") {
			t.Errorf("a probe sent %s", c)
		}
	}
}

func TestProbeReportsConstantsWithoutATTL(t *testing.T) {
	w := redistest.New(t)
	w.Mini.Set("lock:a", "lock")
	w.Mini.Set("lock:b", "lock")
	w.Mini.SetTTL("lock:b", time.Minute)
	wantFinding(t, probed(t, w, Config{Match: "lock:*"}).Findings, "no_ttl", census.SeverityWarning,
		"1 key with constants", `"lock:a"`)
	w.Mini.SetTTL("lock:a", time.Minute)
	if got := probed(t, w, Config{Match: "lock:*"}); len(got.Findings) > 0 {
		t.Errorf("%+v", got.Findings)
	}
}

func TestProbeReportsOneIdentityOnTwoLocks(t *testing.T) {
	w := redistest.New(t)
	d, now := dialect.JedisUUID(), w.ServerNow()
	w.Mini.Set("lock:a", reel.StampOf(t, d, now, time.Minute))
	w.Mini.Set("lock:b", reel.StampOf(t, d, now, 2*time.Minute))
	wantFinding(t, probed(t, w, Config{Match: "lock:*"}).Findings, "shared_owner",
		census.SeverityWarning, `"lock:a"`, `"lock:b"`)
}

func TestProbeReportsALockInTwoEncodings(t *testing.T) {
	w := redistest.New(t)
	d := dialect.Template()
	d.KeyEncoding, d.ValueEncoding = dialect.JDK, dialect.JDK
	key, err := d.EncodeKey("lock:a")
	if err != nil {
		t.Fatal(err)
	}
	w.Mini.Set(key, reel.StampOf(t, d, w.ServerNow(), time.Minute))
	w.Mini.Set("lock:a", reel.StampOf(t, dialect.Template(), w.ServerNow(), time.Minute))
	got := probed(t, w, Config{Match: "lock:*"})
	wantFinding(t, got.Findings, "two_names", census.SeverityError, "in the jdk encoding")
	if len(got.Prefixes) != 1 || got.Prefixes[0].Keys != 2 {
		t.Errorf("%+v", got.Prefixes)
	}
}

func TestProbeWithoutAPatternCountsOnlyStamps(t *testing.T) {
	w := redistest.New(t)
	w.Mini.Set("user:1", "ok")
	w.Mini.Set("page:1", "<html>")
	w.Mini.HSet("cart:1", "name", "1")
	w.Mini.Set("lock:a", reel.StampOf(t, dialect.Jedis(), w.ServerNow(), time.Minute))
	for _, match := range []string{"", "*"} {
		got := probed(t, w, Config{Match: match})
		if len(got.Prefixes) != 1 || got.Prefixes[0].Prefix != "lock:" || len(got.Findings) > 0 ||
			got.Keys != 4 {
			t.Errorf("%q: %+v", match, got)
		}
	}
}

func TestProbeNamesTheCallersDialectFirst(t *testing.T) {
	w := redistest.New(t)
	own := dialect.Jedis()
	own.Name, own.Lease = "Depot", 5*time.Second
	w.Mini.Set("lock:a", reel.StampOf(t, own, w.ServerNow(), time.Minute))
	got := probed(t, w, Config{Match: "lock:*", Dialects: []dialect.Dialect{own}})
	if c := got.Prefixes[0].Forms[0]; c.Dialects[0] != "Depot" || c.Far != 1 {
		t.Errorf("%+v", c)
	}
}

func TestInterruptedProbeReturnsItsFindings(t *testing.T) {
	w := redistest.New(t)
	for i := range 2000 {
		w.Mini.Set(fmt.Sprintf("lock:%d", i), reel.StampOf(t, dialect.Jedis(), w.ServerNow(), time.Minute))
	}
	stop := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	pool := w.Pool()
	defer pool.Close()
	got, err := Run(ctx, pool, Config{Match: "lock:*", Progress: func(looked int64) {
		if looked >= 500 {
			cancel(stop)
		}
	}})
	if !errors.Is(err, stop) || got.Keys < 500 {
		t.Errorf("%d keys, %v", got.Keys, err)
	}
}

func TestProbeCountsKeysItMayNotRead(t *testing.T) {
	w := redistest.New(t)
	w.Mini.Set("lock:a", reel.StampOf(t, dialect.Jedis(), w.ServerNow(), time.Minute))
	w.Mini.Set("lock:b", "x")
	pool := w.FaultyPool(redistest.Rule{
		Command: "GETRANGE", Times: -1, Do: redistest.Answer(redistest.NoPerm),
		When: func(c redistest.Command) bool { return c[1] == "lock:b" }})
	defer pool.Close()
	got, err := Run(t.Context(), pool, Config{Match: "lock:*", Hurry: true})
	if err != nil || got.Denied != 1 || got.Keys != 2 {
		t.Fatalf("%+v %v", got, err)
	}
	wantFinding(t, got.Findings, "denied", census.SeverityNote, "1 key may not be read")
}

func TestProbeSaysWhyItWasRefused(t *testing.T) {
	for _, answer := range []string{
		"NOPERM this user has no permissions to run the 'scan' command", "ERR unknown command 'SCAN'"} {
		w := redistest.New(t)
		pool := w.FaultyPool(redistest.Rule{Command: "SCAN", Times: -1, Do: redistest.Answer(answer)})
		got, err := Run(t.Context(), pool, Config{Match: "lock:*"})
		if err == nil || got.Refused == "" {
			t.Fatalf("%+v, %v", got, err)
		}
		wantFinding(t, got.Findings, "right", census.SeverityWarning, answer)
	}
}

func TestProbeKnowsKeysOfGetsetlockClients(t *testing.T) {
	w := redistest.New(t)
	token := "AAECAwQFBgcICQoLDA0ODw"
	w.Mini.Set("lock:a", token+" host7 nightly")
	w.Mini.SetTTL("lock:a", time.Minute)
	w.Mini.Set("{lock:b}:gsl", token+" 1772452860001")
	w.Mini.Set("lock:b:gsl", token+" 1772452860001")
	got := probed(t, w, Config{Match: "*lock:*"})
	if len(got.Findings) > 0 || len(got.Prefixes) != 1 || got.Prefixes[0].Keys != 1 ||
		got.Prefixes[0].Forms[0].Look != dialect.LookToken {
		t.Errorf("%+v", got)
	}
}

func TestProbeIgnoresStampsOfGetsetlockClients(t *testing.T) {
	w := redistest.New(t)
	w.Mini.Set("lock:{a}", fmt.Sprint(w.ServerNow().Add(24*time.Hour+30*time.Second).UnixMilli()))
	w.Mini.SetTTL("lock:{a}", 30*time.Second)
	w.Mini.Set("lock:{a}:gsl", "AAECAwQFBgcICQoLDA0ODw 1")
	w.Mini.HSet("lock:{a}:gsl:look", "bytes", "1")
	pool := w.Pool()
	defer pool.Close()
	r, err := Run(t.Context(), pool, Config{Match: "lock:*", Lease: time.Minute, Hurry: true})
	if err != nil || len(r.Findings) != 0 || len(r.Prefixes) != 1 || len(r.Prefixes[0].Types) != 0 ||
		r.Prefixes[0].Forms[0].Far != 0 {
		t.Errorf("%v %+v", err, r)
	}
}

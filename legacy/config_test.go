// SPDX-License-Identifier: Apache-2.0

package legacy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/lock/backend"
)

func TestEachModeHasItsOptionalInterfaces(t *testing.T) {
	w := redistest.New(t)
	for _, c := range []struct {
		mode         legacy.Mode
		pacer, batch bool
	}{{legacy.Verbatim, true, false}, {legacy.Hardened, false, true}} {
		b := open(t, w, legacy.Config{Mode: c.mode}).Contract()
		if _, ok := b.(backend.Pacer); ok != c.pacer {
			t.Errorf("%v: Pacer %v", c.mode, ok)
		}
		if _, ok := b.(backend.BatchExtender); ok != c.batch {
			t.Errorf("%v: BatchExtender %v", c.mode, ok)
		}
	}
}

func TestNewRefusesContradictoryConfig(t *testing.T) {
	w := redistest.New(t)
	for _, c := range []struct {
		cfg  legacy.Config
		says []string
	}{
		{legacy.Config{Mode: 7}, []string{"Mode", "7"}},
		{legacy.Config{Mode: legacy.Verbatim, Timeout: -1}, []string{"Timeout"}},
		{legacy.Config{Mode: legacy.Verbatim, Takeover: legacy.ServerClock(0)},
			[]string{"Takeover", "Hardened"}},
		{legacy.Config{Mode: legacy.Verbatim, SettleAlways: true}, []string{"SettleAlways", "Hardened"}},
		{legacy.Config{Mode: legacy.Verbatim, Terms: dialect.Terms{Lease: -1}}, []string{"Lease"}},
		{legacy.Config{Mode: legacy.Hardened, Terms: dialect.Terms{Lease: -1}}, []string{"Lease"}},
		{legacy.Config{Mode: legacy.Hardened, Dialect: dialect.RedisPy()}, []string{"RedisPy", "Lease"}},
		{legacy.Config{Mode: legacy.Hardened, Terms: dialect.Terms{Lease: time.Second, Gap: time.Minute}},
			[]string{"Gap", "Lease"}},
		{legacy.Config{Mode: legacy.Hardened, Terms: dialect.Terms{Greatest: time.Second}},
			[]string{"Greatest", "Lease"}},
		{legacy.Config{Mode: legacy.Hardened, Takeover: legacy.Unchanged(time.Second)},
			[]string{"Unchanged", "Greatest"}},
		{legacy.Config{Mode: legacy.Hardened, Dialect: dialect.Bare(), Takeover: legacy.Unchanged(time.Hour)},
			[]string{"Unchanged", "Bare"}},
		{legacy.Config{Mode: legacy.Hardened, Dialect: dialect.SetGetDel(),
			Takeover: legacy.All(legacy.Unchanged(time.Hour))}, []string{"Unchanged", "SetGetDel"}},
		{legacy.Config{Mode: legacy.Hardened, Dialect: dialect.Kdyby(),
			Takeover: legacy.Unchanged(time.Hour)}, []string{"Unchanged", "ServerClock"}},
		{legacy.Config{Mode: legacy.Verbatim, Dialect: dialect.Dialect{Name: "half"}}, []string{"Dialect"}},
	} {
		b, err := legacy.New(w.Pool(), c.cfg)
		if err == nil {
			b.Close()
			t.Errorf("%v: accepted", c.says)
			continue
		}
		for _, part := range c.says {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not name %s", err, part)
			}
		}
	}
	ok := legacy.Config{Mode: legacy.Hardened, Dialect: dialect.Kdyby(),
		Takeover: legacy.All(legacy.ServerClock(0), legacy.Unchanged(time.Hour))}
	open(t, w, ok)
}

// The zero Config is the mode without the old client's faults.
func TestZeroConfigIsHardened(t *testing.T) {
	b := open(t, redistest.New(t), legacy.Config{})
	if b.Mode() != legacy.Hardened || b.Dialect() != dialect.Jedis() {
		t.Errorf("%v %s", b.Mode(), b.Dialect().Name)
	}
}

func TestNewNamesWhatThePoolLacks(t *testing.T) {
	for _, c := range []struct {
		pool *redis.Pool
		says string
	}{{nil, "pool is nil"}, {&redis.Pool{}, "set DialContext"}} {
		_, err := legacy.New(c.pool, legacy.Config{})
		if err == nil || !strings.HasPrefix(err.Error(), "legacy: ") ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want %q", err, c.says)
		}
	}
}

func TestFitsRefusesTimesThatBreakExclusion(t *testing.T) {
	w := redistest.New(t)
	b := open(t, w, legacy.Config{Mode: legacy.Hardened}) // E 60 s, c 1 ms, S and g 1 s
	bound := 58*time.Second + time.Millisecond
	for _, c := range []struct {
		ttl, renew, margin time.Duration
		says               []string
	}{
		{bound, 10 * time.Second, 3 * time.Second, nil},
		{bound + time.Millisecond, 10 * time.Second, 3 * time.Second,
			[]string{"TTL", "Lease", bound.String()}},
		{30 * time.Second, 20 * time.Second, 3 * time.Second, nil},
		{58 * time.Second, 20*time.Second + 1, 3 * time.Second, []string{"RenewEvery", "Lease", "20s"}},
		{20 * time.Second, 0, 3 * time.Second, nil},
		{20*time.Second + 1, 0, 3 * time.Second, []string{"TTL", "Lease", "20s"}},
		{10 * time.Second, 8 * time.Second, time.Second, []string{"TTL", "Margin", "RenewEvery", "10.1s"}},
	} {
		err := b.Contract().(backend.Advisor).Fits(c.ttl, c.renew, c.margin)
		if (err == nil) != (c.says == nil) {
			t.Errorf("%v %v %v: %v", c.ttl, c.renew, c.margin, err)
			continue
		}
		for _, part := range c.says {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not name %s", err, part)
			}
		}
	}
	for _, ttl := range []time.Duration{0, -1, time.Microsecond, bound + time.Millisecond, 1<<63 - 1} {
		if _, err := b.Contract().Try(bg, "k", ttl); err == nil {
			t.Errorf("TTL %v was accepted", ttl)
		}
	}
	if keys := w.Mini.Keys(); len(keys) > 0 {
		t.Errorf("left behind: %v", keys)
	}
}

func TestEveryDialectsDefaultsFitTogether(t *testing.T) {
	w := redistest.New(t)
	for _, d := range dialect.Presets() {
		for _, mode := range []legacy.Mode{legacy.Verbatim, legacy.Hardened} {
			cfg := legacy.Config{Mode: mode, Dialect: d}
			if mode == legacy.Hardened && d.Lease == 0 {
				cfg.Terms.Lease = 10 * time.Second
			}
			b := open(t, w, cfg)
			client, err := lock.New(b, lock.Config{})
			if err != nil {
				t.Errorf("%s, %v: %v", d.Name, mode, err)
				continue
			}
			if err := client.Close(bg); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestAdviceChangesNothingThatIsSet(t *testing.T) {
	w := redistest.New(t)
	set := backend.Settings{TTL: 1, RenewEvery: 2, Margin: 3, RetryEvery: 4, LocalHandOvers: 5}
	for _, mode := range []legacy.Mode{legacy.Verbatim, legacy.Hardened} {
		got := open(t, w, legacy.Config{Mode: mode}).Contract().(backend.Advisor).Advise(set)
		if got != set {
			t.Errorf("%v: %+v", mode, got)
		}
	}
	cfg := open(t, w, legacy.Config{Mode: legacy.Hardened}).Contract().(backend.Advisor).Advise(
		backend.Settings{})
	if cfg.TTL != 30*time.Second || cfg.Margin != 3*time.Second || cfg.RetryEvery != 100*time.Millisecond {
		t.Errorf("%+v", cfg)
	}
	cfg = open(t, w, legacy.Config{Mode: legacy.Verbatim}).Contract().(backend.Advisor).Advise(
		backend.Settings{})
	if cfg.TTL != time.Minute || cfg.Margin >= 0 || cfg.RenewEvery >= 0 {
		t.Errorf("%+v", cfg)
	}
}

func TestPaceFollowsDialect(t *testing.T) {
	w := redistest.New(t)
	for _, c := range []struct {
		d        dialect.Dialect
		wait     time.Duration
		poll     time.Duration
		attempts int
	}{
		{dialect.Jedis(), 10 * time.Second, 100 * time.Millisecond, 101},
		{dialect.Jedis(), 0, 100 * time.Millisecond, 0},
		{dialect.Jedis(), -1, 100 * time.Millisecond, 1},
		{dialect.Errorception(), time.Second, 50 * time.Millisecond, 21},
		{dialect.Machinery(), time.Minute, 0, 4},
		{dialect.Machinery(), 0, 0, 4},
		{dialect.JedisAQS(), time.Second, time.Millisecond, 1001},
		{dialect.Faye(), time.Second, 100 * time.Millisecond, 11},
	} {
		poll, attempts := open(t, w,
			legacy.Config{Mode: legacy.Verbatim, Dialect: c.d}).Contract().(backend.Pacer).Pace(c.wait)
		if poll != c.poll || attempts != c.attempts {
			t.Errorf("%s, wait %v: every %v, %d times", c.d.Name, c.wait, poll, attempts)
		}
	}
}

func TestMarkKeySharesTheSlot(t *testing.T) {
	for l, want := range map[string]string{
		"stock":     "{stock}:gsl",
		"a:{b}:c":   "a:{b}:c:gsl",
		"{b}":       "{b}:gsl",
		"a{b":       "{a{b}:gsl",
		"{}a":       "{{}a}:gsl", // no tag, but a "}": in a cluster these are refused
		"a}b":       "{a}b}:gsl",
		"a}{b}":     "a}{b}:gsl",
		"\xac\xed{": "{\xac\xed{}:gsl",
	} {
		if got := legacy.MarkKey(l); got != want {
			t.Errorf("M of %q is %q, want %q", l, got, want)
		}
	}
}

func TestCrossSlotErrorNamesHashTag(t *testing.T) {
	r := newRig(t, hardened(dialect.Jedis()))
	r.wire.Fault(redistest.Rule{Command: "EVALSHA",
		Do: redistest.Answer("CROSSSLOT Keys in request don't hash to the same slot")})
	_, err := r.b.Contract().Try(bg, "a}b", ttl)
	if err == nil || !strings.Contains(err.Error(), "hash tag") || !strings.Contains(err.Error(), "a}b") {
		t.Errorf("%v", err)
	}
}

func TestDialectThatSleepsToTheStampIsRefused(t *testing.T) {
	w := redistest.New(t)
	d := dialect.Jedis()
	d.Name, d.SleepsToStamp = "sleeper", true
	open(t, w, legacy.Config{Mode: legacy.Verbatim, Dialect: d})
	if _, err := legacy.New(w.Pool(), legacy.Config{Mode: legacy.Hardened, Dialect: d}); err == nil ||
		!strings.Contains(err.Error(), "sleeps_to_stamp") {
		t.Errorf("%v", err)
	}
}

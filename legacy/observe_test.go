// SPDX-License-Identifier: Apache-2.0

package legacy_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
)

func TestObserveReadsLockAndTakesNothing(t *testing.T) {
	r := newRig(t, jedis())
	o, err := r.b.Observe(bg, "k")
	if err != nil || o.Exists || o.MarkExists || o.Err != nil || !o.ServerNow().Equal(r.w.ServerNow()) {
		t.Errorf("%+v %v", o, err)
	}
	r.set("k", r.stamp(time.Minute))
	r.w.Mini.SetTTL("k", time.Hour)
	o, err = r.b.Observe(bg, "k")
	if err != nil || !o.Exists || o.Type != "string" || o.PTTL != time.Hour || !o.HasTTL || o.Err != nil ||
		o.Ours() {
		t.Errorf("%+v %v", o, err)
	}
	if want := r.w.ServerNow().Add(time.Minute).Truncate(time.Millisecond); !o.Stamp.Expiry.Equal(want) {
		t.Errorf("until %v, want %v", o.Stamp.Expiry, want)
	}
	if keys := r.w.Mini.Keys(); !slices.Equal(keys, []string{"k"}) {
		t.Errorf("keys: %v", keys)
	}
}

func TestObserveRawReadsManyKeysOfAllKinds(t *testing.T) {
	r := newRig(t, jedis())
	const n = 700 // more than one message
	raw := make([]string, n)
	for i := range raw {
		raw[i] = "key:" + string(rune('a'+i%26)) + time.Duration(i).String()
		switch i % 4 {
		case 0:
			r.set(raw[i], r.stamp(time.Minute))
		case 1:
			r.w.Mini.Lpush(raw[i], "x")
		case 2:
			r.set(raw[i], "nonsense")
		}
	}
	seen, errs := r.b.ObserveRaw(bg, raw)
	for i, o := range seen {
		var wrong *legacy.TypeError
		var value *dialect.ValueError
		ok := errs[i] == nil && o.Key == raw[i]
		switch i % 4 {
		case 0:
			ok = ok && o.Err == nil && !o.Stamp.Expiry.IsZero()
		case 1:
			ok = ok && errors.As(o.Err, &wrong) && wrong.Type == "list"
		case 2:
			ok = ok && errors.As(o.Err, &value)
		case 3:
			ok = ok && !o.Exists
		}
		if !ok {
			t.Fatalf("%d: %+v %v", i, o, errs[i])
		}
	}
}

func TestCompareAndDeleteDeletesOnlyWhatWasNamed(t *testing.T) {
	r := newRig(t, jedis())
	r.set("k", "a")
	if d, err := r.b.CompareAndDelete(bg, "k", "b"); err != nil || d.Any() || !r.exists("k") {
		t.Errorf("%+v %v", d, err)
	}
	if d, err := r.b.CompareAndDelete(bg, "k", "a"); err != nil || !d.Lock || d.Mark || r.exists("k") {
		t.Errorf("%+v %v", d, err)
	}
	if d, err := r.b.CompareAndDelete(bg, "k", "a"); err != nil || d.Any() {
		t.Errorf("%+v %v", d, err)
	}
	r.w.Mini.Lpush("k", "a")
	if d, err := r.b.CompareAndDelete(bg, "k", "a"); err != nil || d.Any() {
		t.Errorf("%+v %v", d, err)
	}
}

func TestCompareAndDeleteFreesHardenedHolder(t *testing.T) {
	for _, by := range []string{"the bytes on L", "its token"} {
		r := newRig(t, jedis())
		g := r.take("k")
		value := r.get("k")
		if by == "its token" {
			value = g.Token()
		}
		if d, err := r.b.CompareAndDelete(bg, "k", value); err != nil || !d.Lock || !d.Mark {
			t.Errorf("by %s: %+v %v", by, d, err)
		}
		r.wantLeft("")
		_, err := g.Extend(bg, ttl)
		r.wantLost(err)
	}
}

func TestCompareAndDeleteOfOldValueSparesM(t *testing.T) {
	r := newRig(t, jedis())
	g := r.take("k")
	other := r.stamp(time.Hour)
	r.set("k", other)
	if d, err := r.b.CompareAndDelete(bg, "k", other); err != nil || !d.Lock || d.Mark {
		t.Errorf("%+v %v", d, err)
	}
	r.set("k", other)
	r.w.Mini.SetTTL("k", time.Hour)
	if d, err := r.b.CompareAndDelete(bg, "k", g.Token()); err != nil || d.Lock || !d.Mark {
		t.Errorf("%+v %v", d, err)
	}
	r.wantLeft(other)
}

func TestEncodedKeysAndValuesMatchOldClients(t *testing.T) {
	for _, e := range []dialect.Encoding{dialect.JDK, dialect.JSON} {
		d := dialect.Template()
		d.Name, d.KeyEncoding, d.ValueEncoding = "mine", e, e
		for _, mode := range []legacy.Mode{legacy.Verbatim, legacy.Hardened} {
			r := newRig(t, legacy.Config{Dialect: d})
			b := open(t, r.w, legacy.Config{
				Mode: mode, Dialect: d, Clock: r.clock, Terms: dialect.Terms{Lease: time.Minute}})
			l, _ := d.EncodeKey("k")
			stamped := ttl + day
			if mode == legacy.Verbatim {
				stamped = ttl
			}
			stamp, _ := d.Stamp(r.w.ServerNow(), stamped, "")
			want, _ := d.EncodeValue(stamp)
			g := try(t, b, "k", ttl)
			if got := r.get(l); got != want {
				t.Errorf("%s, %v: %q, want %q", e, mode, got, want)
			}
			if _, err := b.Contract().Try(bg, "k", ttl); !errors.Is(err, lock.ErrHeld) {
				t.Errorf("%s, %v: %v", e, mode, err)
			}
			if err := g.Release(bg); err != nil {
				t.Errorf("%s, %v: %v", e, mode, err)
			}
		}
	}
}

func TestJavaStringCarriesItsLength(t *testing.T) {
	d := dialect.JedisUUID()
	d.Name, d.ValueEncoding = "mine", dialect.JDK
	r := newRig(t, legacy.Config{Dialect: d})
	r.take("k")
	if o, err := r.b.Observe(bg, "k"); err != nil || o.Err != nil {
		t.Errorf("%q: %v %v", o.Value, err, o.Err)
	}
}

func TestFloatSecondsHaveTheShortestFraction(t *testing.T) {
	for micros, want := range map[int]string{0: ".0", 500_000: ".5", 120: ".00012", 999_999: ".999999"} {
		r := newRig(t, legacy.Config{Dialect: dialect.RedisPy()})
		r.w.StepServer(time.Duration(micros) * time.Microsecond)
		r.take("k")
		o, err := r.b.Observe(bg, "k")
		if err != nil || o.Err != nil || !strings.HasSuffix(o.Value, want) ||
			!o.Stamp.Expiry.Equal(r.w.ServerNow().Add(ttl+day)) {
			t.Errorf("%q: %v %v", o.Value, err, o.Err)
		}
	}
}

func TestObserveSendsFirstKilobyteOfHugeValue(t *testing.T) {
	r := newRig(t, jedis())
	r.set("k", strings.Repeat("7", 1<<20))
	o, err := r.b.Observe(bg, "k")
	if err != nil || o.Size != 1<<20 || len(o.Value) != 1024 || o.Err == nil {
		t.Errorf("size %d, %d bytes sent, %v %v", o.Size, len(o.Value), o.Err, err)
	}
}

func TestTicksAreWrittenToTheDigit(t *testing.T) {
	d := dialect.ServiceStack()
	d.Name, d.Unit, d.Slack = "ticks", dialect.UnitTicks, 100*time.Nanosecond
	r := newRig(t, legacy.Config{Dialect: d})
	r.w.StepServer(987654 * time.Microsecond)
	want, err := d.Stamp(r.w.ServerNow(), ttl+day, "")
	if err != nil {
		t.Fatal(err)
	}
	r.take("k")
	// A script counts in microseconds, so it rounds a smaller slack up to one.
	if got := r.get("k"); len(got) != len(want) || got < want || got[:16] != want[:16] {
		t.Errorf("%q, want %q", got, want)
	}
}

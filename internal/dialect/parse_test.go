// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func TestPresetsAreValidAndSurviveJSON(t *testing.T) {
	names := Names()
	for i, d := range Presets() {
		if err := d.Validate(); err != nil {
			t.Error(err)
		}
		if d.Library == "" {
			t.Errorf("%s names no source", d)
		}
		if d.Name != names[i] || i > 0 && names[i-1] >= names[i] {
			t.Errorf("order: %v", names)
		}
		data, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := Parse(data); err != nil || back != d {
			t.Errorf("%s: %+v, %v", d, back, err)
		}
	}
}

func TestChangedPresetDoesNotAffectOtherCallers(t *testing.T) {
	d := Jedis()
	d.Slack = 0
	Presets()[0].Name = "broken"
	if Jedis().Slack != time.Millisecond || Presets()[0].Name != "Bare" {
		t.Error("a copy changed the preset")
	}
	if kind := reflect.TypeOf(d); !kind.Comparable() {
		t.Error("a Dialect shares something with its copies")
	}
}

func TestLookupIgnoresCaseHyphensAndUnderscores(t *testing.T) {
	for name, want := range map[string]string{
		"jedis": "Jedis", "jedis-uuid": "JedisUUID", "JEDIS_UUID": "JedisUUID", "redis-py": "RedisPy",
		"Service-Stack": "ServiceStack", "bareexpire": "BareExpire",
	} {
		if d, err := Lookup(name); err != nil || d.Name != want {
			t.Errorf("%s: %s, %v", name, d, err)
		}
	}
	for name, near := range map[string]string{
		"jedi": "Jedis", "redispyy": "RedisPy", "gorlok": "Gorlock", "set": "SetDel", "jedislock": "Jedis"} {
		d, err := Lookup(name)
		if err == nil || !strings.Contains(err.Error(), near) || d != (Dialect{}) {
			t.Errorf("%s: %v, %v; want %s named", name, d, err, near)
		}
	}
	for _, name := range []string{"zookeeper", "abcd", "e", ""} {
		if _, err := Lookup(name); err == nil ||
			!strings.Contains(err.Error(), "there are: Bare, BareExpire") {
			t.Errorf("nothing is near %q: %v", name, err)
		}
	}
}

func TestParseIsStrict(t *testing.T) {
	for _, c := range []struct{ text, names string }{
		{`{"base":"jedis","name":"x","slak":"1s"}`, `unknown field "slak"`},
		{`{"base":"jedis","name":"x","Lease":"1s"}`, `"Lease"`},
		{`{"base":"jedis","name":"x","lease":"1s","lease":"2s"}`, `"lease"`},
		{`{"base":"jedis","name":"x","lease":60}`, "lease"},
		{`{"base":"jedis","name":"x","lease":"60"}`, "60"},
		{`{"base":"jedis","name":"x","or_mine":"yes"}`, "or_mine"},
		{`{"base":"jedi","name":"x"}`, "Jedis"},
		{`{"base":5,"name":"x"}`, "base"},
		{`{"base":"jedis"}`, "field name"},
		{`{"base":"jedis","name":"redis-py"}`, "preset"},
		{`{"name":"x"}`, "field key_pattern"},
		{`{"base":"jedis","name":"x"} {}`, "after top-level"},
		{`[]`, "array"}, {`"jedis"`, "string"}, {`null`, "field"}, {``, "end of JSON"}, {`{`, "end of JSON"},
		{"\x00", "invalid"},
	} {
		d, err := Parse([]byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%s: %v; want it to name %s", c.text, err, c.names)
		}
		if d != (Dialect{}) {
			t.Errorf("%s: %+v with an error", c.text, d)
		}
	}
}

func TestParseStartsFromBase(t *testing.T) {
	d, err := Parse(
		[]byte(`{"base":"page","name":"our-cron","slack":"0s","lease":"5m","poll":"2s","key_pattern":"cron.NAME"}`))
	want := Page()
	want.Name, want.Library, want.Slack, want.Lease, want.Poll, want.KeyPattern = "our-cron", "", 0,
		5*time.Minute, 2*time.Second, "cron.NAME"
	if err != nil || d != want {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestParseFromLimitsFileSize(t *testing.T) {
	if d, err := ParseFrom(strings.NewReader(`{"base":"jedis","name":"x"}`)); err != nil || d.Name != "x" {
		t.Errorf("%v, %v", d, err)
	}
	if _, err := ParseFrom(strings.NewReader(strings.Repeat(" ", 70_000))); err == nil ||
		!strings.Contains(err.Error(), "65536") {
		t.Errorf("a long file: %v", err)
	}
	if _, err := ParseFrom(iotest.ErrReader(io.ErrClosedPipe)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a broken reader: %v", err)
	}
}

func TestValidateNamesFieldAndBound(t *testing.T) {
	for _, c := range []struct {
		field  string
		change func(*Dialect)
	}{
		{"name", func(d *Dialect) { d.Name = "" }},
		{"name", func(d *Dialect) { d.Name = "-_" }},
		{"name", func(d *Dialect) { d.Name = "a b" }},
		{"name", func(d *Dialect) { d.Name = strings.Repeat("a", 65) }},
		{"key_pattern", func(d *Dialect) { d.KeyPattern = "lock" }},
		{"key_pattern", func(d *Dialect) { d.KeyPattern = "NAME:NAME" }},
		{"key_pattern", func(d *Dialect) { d.KeyPattern = "NAME\xff" }},
		{"unit", func(d *Dialect) { d.Unit = "minutes" }},
		{"unit", func(d *Dialect) { d.Unit = UnitNone }},
		{"unit", func(d *Dialect) { *d = Bare(); d.Unit = UnitMillis }},
		{"shape", func(d *Dialect) { d.Shape = "" }},
		{"reader", func(d *Dialect) { d.Reader = "perl" }},
		{"reader", func(d *Dialect) { d.Reader = ReadNothing }},
		{"reader", func(d *Dialect) { d.Reader = ReadJavaUUID }},
		{"empty", func(d *Dialect) { d.Empty = "maybe" }},
		{"on_nil", func(d *Dialect) { d.OnNil = "" }},
		{"on_nil", func(d *Dialect) { d.OnNil = NilNever }},
		{"unreadable", func(d *Dialect) { d.Unreadable = "?" }},
		{"wins", func(d *Dialect) { d.Wins = "" }},
		{"wins", func(d *Dialect) { *d = Bare(); d.Wins = WinsExpired }},
		{"acquire", func(d *Dialect) { d.Acquire = "" }},
		{"key_ttl", func(d *Dialect) { d.KeyTTL = "" }},
		{"key_ttl", func(d *Dialect) { d.Acquire = AcquireSetNXPX }},
		{"key_ttl", func(d *Dialect) { d.KeyTTL = TTLOnSet }},
		{"key_ttl", func(d *Dialect) { *d = SetDel(); d.KeyTTL = TTLGetsetExpire }},
		{"release", func(d *Dialect) { d.Release = "" }},
		{"release", func(d *Dialect) { *d = Bare(); d.Release = ReleaseOwnAhead }},
		{"renews", func(d *Dialect) { d.Renews = "" }},
		{"key_encoding", func(d *Dialect) { d.KeyEncoding = "" }},
		{"value_encoding", func(d *Dialect) { d.ValueEncoding = "xml" }},
		{"constant", func(d *Dialect) { d.Constant = "x" }},
		{"constant", func(d *Dialect) { *d = Bare(); d.Constant = "" }},
		{"constant", func(d *Dialect) { *d = Bare(); d.Constant, d.ValueEncoding = "\xff", JDK }},
		{"or_mine", func(d *Dialect) { d.OrMine = true }},
		{"sleeps_to_stamp", func(d *Dialect) { *d = SetDel(); d.SleepsToStamp = true }},
		{"setnx_after_held", func(d *Dialect) { d.SetnxAfterHeld = true }},
		{"slack", func(d *Dialect) { d.Slack = -1 }},
		{"slack", func(d *Dialect) { d.Slack = time.Microsecond }},
		{"slack", func(d *Dialect) { d.Slack = 2 * time.Hour }},
		{"lease", func(d *Dialect) { d.Lease = LongestStamp + 1 }},
		{"lease", func(d *Dialect) { d.Lease = time.Microsecond }},
		{"poll", func(d *Dialect) { d.Poll = 0 }},
		{"poll", func(d *Dialect) { d.Poll = 2 * time.Hour }},
		{"wait", func(d *Dialect) { d.Wait = -1 }},
		{"wait", func(d *Dialect) { d.WaitsForever = true }},
		{"wait", func(d *Dialect) { d.OnNil, d.Wait, d.CountsSleeps = NilSetnx, 0, false }},
		// A release that looks at the value does not justify polling for ever
		// without a pause.
		{"wait", func(d *Dialect) {
			d.OnNil, d.Wait, d.CountsSleeps, d.Release = NilSetnx, 0, false,
				ReleaseValueLive
		}},
		{"attempts", func(d *Dialect) { d.Attempts = -1 }},
	} {
		d := Jedis()
		c.change(&d)
		if err := d.Validate(); !errors.Is(err, errInvalid) ||
			!strings.Contains(err.Error(), "field "+c.field+":") {
			t.Errorf("%s: %v", c.field, err)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"
)

func TestStampRefusesWhatNoClientShouldWrite(t *testing.T) {
	for _, c := range []struct {
		name  string
		d     Dialect
		now   time.Time
		lease time.Duration
		id    string
		want  error
	}{
		{"zero lease", Jedis(), tableNow, 0, "", errBadLease},
		{"negative lease", Page(), tableNow, -time.Second, "", errBadLease},
		{"zero lease of a constant", Bare(), tableNow, 0, "", errBadLease},
		{"lease beyond what readers believe", Jedis(), tableNow, LongestStamp + time.Millisecond, "",
			errBadLease},
		{"half a millisecond", Jedis(), tableNow, 500 * time.Microsecond, "", errBadLease},
		{"a second and a half in whole seconds", Page(), tableNow, 1500 * time.Millisecond, "", errBadLease},
		{"before 1970", Jedis(), at(-1), time.Minute, "", errBadClock},
		{"before 1970 in floats", RedisPy(), at(-1), time.Minute, "", errBadClock},
		{"year 10000", Jedis(), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Minute, "", errOverflow},
		{"lease ends in year 10000", Kdyby(), time.Date(9999, 12, 31, 23, 59, 0, 0, time.UTC), time.Minute,
			"", errOverflow},
		{"nanoseconds end in 2262", Gorlock(), time.Date(2262, 4, 11, 23, 47, 0, 0, time.UTC), time.Minute,
			"", errOverflow},
		{"the far end of time.Time", Machinery(), time.Unix(1<<55, 0), time.Minute, "", errOverflow},
		{"where time.Time wraps around", Page(), time.Unix(math.MaxInt64-62_135_596_800-30, 0), time.Minute,
			"", errOverflow},
		{"no uuid", JedisUUID(), tableNow, time.Minute, "", ErrBadID},
		{"uuid in upper case", JedisUUID(), tableNow, time.Minute, strings.ToUpper(testUUID), ErrBadID},
		{"no token", SetGetDel(), tableNow, time.Minute, "", ErrBadID},
		{"token that is no decimal", SetPexpire(), tableNow, time.Minute, "x", ErrBadID},
		{"decimal of 64 bits", SetPexpire(), tableNow, time.Minute, "9223372036854775808", ErrBadID},
	} {
		got, err := c.d.Stamp(c.now, c.lease, c.id)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %q, %v; want %v", c.name, got, err, c.want)
		}
		if got != "" {
			t.Errorf("%s: a value %q with an error", c.name, got)
		}
	}
}

func TestStampAtTheBoundsOfItsUnit(t *testing.T) {
	last := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	for _, c := range []struct {
		d    Dialect
		now  time.Time
		want string
	}{
		{Jedis(), time.Unix(0, 0), "1001"},
		{Jedis(), time.Unix(0, 999_999), "1001"},
		{Page(), time.Unix(0, 999_999_999), "2"},
		{Gorlock(), time.Unix(0, math.MaxInt64-5e9), "9223372032854775807"},
		{Jedis(), last.Add(-2 * time.Second), "253402300798001"},
		{RedisPy(), time.Unix(0, 0), "1.0"},
	} {
		if got, err := c.d.Stamp(c.now, time.Second, ""); err != nil || got != c.want {
			t.Errorf("%s at %s: %s, %v; want %s", c.d, c.now, got, err, c.want)
		}
	}
}

func TestKdybyCutsLeaseToWholeUnits(t *testing.T) {
	if got, err := Kdyby().Stamp(time.Unix(1_400_000_000, 0), 2900*time.Millisecond, ""); err != nil ||
		got != "1400000003" {
		t.Errorf("Kdyby casts to int: %s, %v", got, err)
	}
}

func TestTicksCountFromYearOne(t *testing.T) {
	d := ServiceStack()
	d.Unit, d.Slack, d.Name = UnitTicks, 0, "Ticks"
	if err := d.Validate(); err != nil {
		t.Fatal(err)
	}
	got, err := d.Stamp(time.Date(2018, 5, 1, 12, 0, 0, 0, time.UTC), time.Minute, "")
	if err != nil || got != "636607728600000000" {
		t.Fatalf("%s, %v", got, err)
	}
	s, err := d.Decode(got, time.Date(2018, 5, 1, 12, 0, 0, 0, time.UTC))
	if want := time.Date(2018, 5, 1, 12, 1, 0, 0, time.UTC); err != nil || !s.Expiry.Equal(want) {
		t.Errorf("read back %s, %v", s.Expiry, err)
	}
}

func TestNewIDFitsItsDialect(t *testing.T) {
	var random [16]byte
	for i := range random {
		random[i] = 0xff
	}
	for _, d := range Presets() {
		id := d.NewID(random)
		if d.Shape == ShapeNumber || d.Shape == ShapeConstant {
			if id != "" {
				t.Errorf("%s needs no identity, got %s", d, id)
			}
		} else if err := d.checkID(id); err != nil {
			t.Errorf("%s: %v", d, err)
		}
	}
	if got := JedisUUID().NewID(random); got != "ffffffff-ffff-4fff-bfff-ffffffffffff" {
		t.Errorf("no version 4 uuid: %s", got)
	}
}

func TestKeyPatterns(t *testing.T) {
	for want, d := range map[string]Dialect{
		"stock": Jedis(), "lock.stock": Errorception(), "stock:lock": Kdyby(), "/locks/stock": Faye(),
		"RedisMutex:stock": RedisMutex(),
	} {
		if got := d.Key("stock"); got != want {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
}

func TestJDKEncodingWritesTheKeyOfTheProtocol(t *testing.T) {
	d := Template()
	d.KeyEncoding, d.ValueEncoding = JDK, JDK
	key, err := d.EncodeKey("lock")
	if err != nil || hex.EncodeToString([]byte(key)) != "aced000574"+"0004"+"6c6f636b" {
		t.Errorf("%x, %v", key, err)
	}
	raw, err := d.EncodeValue("1400000060124")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Decode(raw, tableNow); err != nil {
		t.Error(err)
	}
	if got := d.LegacyNext(Text(raw), "", at(1_400_000_060_125)); got != StepGetset {
		t.Errorf("an expired value in the dialect's encoding: %s", got)
	}
	if got := d.LegacyNext(Text("1400000060124"), "", tableNow); got != StepFail {
		t.Errorf("a plain value where jdk is read: %s", got)
	}
}

func TestJDKEncodingMatchesJava(t *testing.T) {
	data, err := os.ReadFile("testdata/jdk/java.txt")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for line := range strings.Lines(string(data)) {
		w := strings.Fields(line)
		if w[0] == "#" {
			continue
		}
		seen[w[0]]++
		var text string
		switch w[0] {
		case "text":
			err = json.Unmarshal([]byte(w[1]), &text)
		case "repeat":
			text = strings.Repeat("x", int(number(t, w[1])))
		case "repeat-nul":
			text = strings.Repeat("\x00", int(number(t, w[1])))
		}
		if err != nil {
			t.Fatal(err)
		}
		raw, err := encodeJDK(text)
		if err != nil {
			t.Errorf("%s: %v", w[1], err)
			continue
		}
		if got := hex.EncodeToString([]byte(raw[:min(40, len(raw))])); got != w[2] ||
			fmt.Sprint(len(raw)) != w[3] {
			t.Errorf("%s %s: got %s, %d bytes; Java wrote %s, %s", w[0], w[1], got, len(raw), w[2], w[3])
		}
		if back, err := decodeJDK(raw); err != nil || back != text {
			t.Errorf("%s %s: does not read back: %v", w[0], w[1], err)
		}
	}
	if seen["text"] < 10 || seen["repeat"] < 3 || seen["repeat-nul"] < 1 {
		t.Errorf("recorded kinds: %v", seen)
	}
}

func TestJDKDecodingRefusesWhatJavaNeverWrites(t *testing.T) {
	for name, raw := range map[string]string{
		"nothing":                 "",
		"header alone":            jdkHeader,
		"half a length":           jdkHeader + "t\x00",
		"length too great":        jdkHeader + "t\x00\x05lock",
		"length too small":        jdkHeader + "t\x00\x03lock",
		"another object":          jdkHeader + "sr\x00\x0ejava.lang.Long",
		"null":                    jdkHeader + "pp\x00",
		"short text in long form": jdkHeader + "|\x00\x00\x00\x00\x00\x00\x00\x04lock",
		"long form cut off":       jdkHeader + "|\x00\x00\x00",
		"plain NUL":               jdkHeader + "t\x00\x01\x00",
		"four byte UTF-8":         jdkHeader + "t\x00\x04\xf0\x9f\x98\x80",
		"high surrogate alone":    jdkHeader + "t\x00\x03\xed\xa0\xbd",
		"low surrogate alone":     jdkHeader + "t\x00\x03\xed\xb8\x80",
		"two high surrogates":     jdkHeader + "t\x00\x06\xed\xa0\xbd\xed\xa0\xbd",
		"two low surrogates":      jdkHeader + "t\x00\x06\xed\xb8\x80\xed\xb8\x80",
		"overlong letter":         jdkHeader + "t\x00\x02\xc1\xac",
		"overlong three bytes":    jdkHeader + "t\x00\x03\xe0\x81\xac",
		"stray continuation":      jdkHeader + "t\x00\x01\x80",
	} {
		if text, err := decodeJDK(raw); !errors.Is(err, errEncoding) || text != "" {
			t.Errorf("%s: read as %q, %v", name, text, err)
		}
	}
	if _, err := encodeJDK("\xff"); !errors.Is(err, errEncoding) {
		t.Errorf("bytes that are no text: %v", err)
	}
}

func TestJSONEncodingHasOneFormPerText(t *testing.T) {
	for text, want := range map[string]string{
		"lock": `"lock"`, `a"b\c`: `"a\"b\\c"`, "<&>": `"<&>"`, "\n\t\x01\x1f": `"\n\t\u0001\u001F"`,
		"é€😀\u2028": "\"é€😀\u2028\"",
	} {
		raw, err := encodeJSON(text)
		if err != nil || raw != want {
			t.Errorf("%q: %s, %v; want %s", text, raw, err, want)
		}
		if back, err := decodeJSON(want); err != nil || back != text {
			t.Errorf("%s reads as %q, %v", want, back, err)
		}
	}
	for _, raw := range []string{`lock`, `"lock" `, `"l\u006fck"`, `"\u001f"`, `5`, `null`, `["lock"]`, `"lo`,
		"\"\xff\""} {
		if text, err := decodeJSON(raw); !errors.Is(err, errEncoding) || text != "" {
			t.Errorf("%s: read as %q, %v", raw, text, err)
		}
	}
}

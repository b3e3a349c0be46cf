// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// seedValues gives every fuzz target the texts that once mattered.
func seedValues(f *testing.F) {
	for _, text := range []string{
		"", "1400000060124", "1400000060", "1400000060.1234567", "1400000060124000000", "635355968601240000",
		Tombstone63, testUUID + ":1400000060124",
		zeroUUID + ":" + Tombstone63, "lock", "abc", "\xff", "\xac\xed\x00\x05t\x00\x04lock", `"lock"`,
		"2147483649.0", " 5", "+5", "1e5", "NaN", ".",
		"1_0", "\u0661", "0-0-0-0-0:5",
	} {
		f.Add(text, int64(1_400_000_000))
	}
}

// FuzzDecode checks that a stamp that was read writes back the same bytes at
// its own instant, where the dialect has only one form for it. With an error
// the stamp is zero.
func FuzzDecode(f *testing.F) {
	seedValues(f)
	presets := Presets()
	f.Fuzz(func(t *testing.T, value string, seconds int64) {
		now := time.Unix(seconds%(1<<33), 0)
		for _, d := range presets {
			s, err := d.Decode(value, now)
			if err != nil {
				if s != (Stamp{}) || err.Error() == "" {
					t.Fatalf("%s of %q: %+v with %v", d, value, s, err)
				}
				continue
			}
			if !plausible(s.Expiry, now) {
				t.Fatalf("%s of %q: %s at %s", d, value, s.Expiry, now)
			}
			lease := time.Second
			back, err := d.Stamp(s.Expiry.Add(-lease-d.Slack), lease, s.ID)
			if d.Unit != UnitFloatSeconds && s.Expiry.Unix() > 10 && (err != nil || back != value) {
				t.Fatalf("%s reads %q and writes %q, %v", d, value, back, err)
			}
			if !d.cut(s.Expiry).Equal(s.Expiry) && d.Unit != UnitFloatSeconds {
				t.Fatalf("%s of %q: %s is finer than its unit", d, value, s.Expiry)
			}
		}
	})
}

// FuzzStampRoundTrip checks that a dialect reads what it writes, strictly and
// as the old client does.
func FuzzStampRoundTrip(f *testing.F) {
	f.Add(int64(1_400_000_000), int64(123_456_789), int64(30_000))
	f.Add(int64(0), int64(0), int64(1))
	f.Add(int64(4_102_444_800), int64(999_999_999), int64(86_400_000))
	presets := Presets()
	f.Fuzz(func(t *testing.T, seconds, nanos, millis int64) {
		now := time.Unix(seconds%(1<<33), nanos%1_000_000_000)
		lease := time.Duration(millis%(1<<40)) * time.Millisecond
		for _, d := range presets {
			text, err := d.Stamp(now, lease, testUUID)
			if err != nil {
				if text != "" {
					t.Fatalf("%s: %q with %v", d, text, err)
				}
				continue
			}
			if !d.HasStamp() || lease > 3651*24*time.Hour {
				continue
			}
			s, err := d.Decode(text, now)
			if err != nil || s.Text != text {
				t.Fatalf("%s writes %q at %s and reads %v", d, text, now, err)
			}
			cut := d.CutLease && lease < time.Second
			if r := d.read(Text(text)); r.Kind != kindNumber || !cut && d.LegacyExpired(Text(text), "", now) {
				t.Fatalf("%s: its own clients read %q as %+v, or as expired when it is written", d, text, r)
			}
		}
	})
}

// FuzzLegacyReaders checks that no value makes a reader panic and that every
// step is one of the rules'. If Decode takes a value for a live stamp, no
// honest clock of the dialect takes it over.
func FuzzLegacyReaders(f *testing.F) {
	seedValues(f)
	presets := Presets()
	php8 := Kdyby()
	php8.Reader, php8.Name = ReadPHP8, "Kdyby8"
	presets = append(presets, php8)
	f.Fuzz(func(t *testing.T, value string, seconds int64) {
		now := time.Unix(seconds%(1<<33), 0)
		for _, d := range presets {
			step := d.LegacyNext(Text(value), testUUID, now)
			if !strings.Contains(" wait getset setnx_once again give_up fail ", " "+string(step)+" ") {
				t.Fatalf("%s of %q: step %q", d, value, step)
			}
			d.LegacyReleases(value, Text(value), now)
			if out := d.LegacyWins(Text(value), Text("1"), now); out != Won && out != Lost && out != Threw {
				t.Fatalf("%s: outcome %q", d, out)
			}
			s, err := d.Decode(value, now)
			if err == nil && s.Expiry.After(now.Add(time.Second)) && s.ID != testUUID && step == StepGetset {
				t.Fatalf("%s takes over %q, which expires at %s, at %s", d, value, s.Expiry, now)
			}
			if err == nil && d.PastBy(s, now, 0) && s.Expiry.Unix() > 10 && step != StepGetset {
				t.Fatalf("%s does not take over %q at %s", d, value, now)
			}
		}
	})
}

// FuzzIdentify checks that there is always an answer, that it names every
// preset that reads the value, and that two instants mean ambiguous.
func FuzzIdentify(f *testing.F) {
	seedValues(f)
	presets := Presets()
	f.Fuzz(func(t *testing.T, value string, seconds int64) {
		now := time.Unix(seconds%(1<<33), 0)
		matches := Identify(value, now, Hints{Prefer: "Jedis"})
		if len(matches) == 0 {
			t.Fatalf("nothing for %q", value)
		}
		instants := map[time.Time]bool{}
		for _, m := range matches {
			if m.String() == "" || (m.Look == LookStamp) == m.Expiry.IsZero() {
				t.Fatalf("%q: %+v", value, m)
			}
			if m.Look == LookStamp {
				instants[m.Expiry] = true
			}
		}
		if Ambiguous(matches) != (len(instants) > 1) {
			t.Fatalf("%q: %v", value, matches)
		}
		for _, d := range presets {
			if s, err := d.Decode(value, now); err == nil && !names(matches, d.Name, s.Expiry) {
				t.Fatalf("%s reads %q as %s and is not among %v", d, value, s.Expiry, matches)
			}
		}
	})
}

func names(matches []Match, name string, expiry time.Time) bool {
	for _, m := range matches {
		if m.Look != LookStamp || !m.Expiry.Equal(expiry) {
			continue
		}
		for _, n := range m.Dialects {
			if n == name {
				return true
			}
		}
	}
	return false
}

// FuzzEncodings checks that every text comes back from both encodings, and that
// bytes have one text.
func FuzzEncodings(f *testing.F) {
	for _, s := range []string{"", "lock", "é€😀\x00", "\xac\xed\x00\x05t\x00\x04lock", `"lock"`, `"\u0001"`,
		"\xff", strings.Repeat("x", 70_000)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, e := range []Encoding{JDK, JSON} {
			raw, err := encodeText(e, s)
			if (err == nil) != utf8.ValidString(s) || err != nil && raw != "" {
				t.Fatalf("%s of %q: %q, %v", e, s, raw, err)
			}
			if err == nil {
				if back, err := decodeText(e, raw); err != nil || back != s {
					t.Fatalf("%s of %q reads back as %q, %v", e, s, back, err)
				}
			}
			text, err := decodeText(e, s)
			if err != nil {
				if text != "" {
					t.Fatalf("%s: %q with %v", e, text, err)
				}
				continue
			}
			if again, err := encodeText(e, text); err != nil || again != s {
				t.Fatalf("%s: %q has a second form %q", e, s, again)
			}
		}
	})
}

// FuzzParse checks that a parsed dialect is valid and reads back from its own
// JSON form.
func FuzzParse(f *testing.F) {
	f.Add(`{"base":"jedis","name":"x","lease":"5s"}`)
	f.Add(`{"name":"x","unit":"ms"}`)
	f.Add(`{"base":"page","name":"x","slack":"0s","wait":"1s","waits_forever":false}`)
	f.Fuzz(func(t *testing.T, text string) {
		d, err := Parse([]byte(text))
		if err != nil {
			if d != (Dialect{}) {
				t.Fatalf("%+v with %v", d, err)
			}
			return
		}
		if err := d.Validate(); err != nil {
			t.Fatalf("accepted: %v", err)
		}
		data, err := d.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if back, err := Parse(data); err != nil || back != d {
			t.Fatalf("%s reads back as %+v, %v", data, back, err)
		}
	})
}

// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// looks returns a short form of matches: look, unit, encoding.
func looks(matches []Match) string {
	var out []string
	for _, m := range matches {
		text := string(m.Look)
		if m.Look == LookStamp {
			text += "/" + string(m.Unit)
		}
		if m.Encoding != Plain {
			text += "/" + string(m.Encoding)
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func TestIdentifyNamesLookUnitAndEncoding(t *testing.T) {
	for value, want := range map[string]string{
		"1400000060124":                        "stamp/ms decimal",
		"1400000060":                           "stamp/s stamp/float_s decimal",
		"1400000060.25":                        "stamp/float_s",
		"1400000060124000000":                  "stamp/ns decimal",
		"635355968601240000":                   "stamp/ticks decimal",
		testUUID + ":" + "1400000060124":       "stamp/ms",
		testUUID:                               "uuid",
		strings.ToUpper(testUUID):              "uuid",
		testUUID + ":abc":                      "text",
		testUUID + ":5000000000000000000":      "guard-like",
		zeroUUID + ":" + Tombstone63:           "tombstone",
		Tombstone63:                            "tombstone",
		tombstoneTicks:                         "tombstone",
		"4000000000000000000":                  "guard-like",
		"9223372036854775806":                  "guard-like",
		"9223372036854775808":                  "implausible",
		"3999999999999999999":                  "decimal implausible",
		"1":                                    "constant decimal implausible",
		"42":                                   "constant decimal implausible",
		"42000":                                "decimal implausible",
		"2147483649.0":                         "forever",
		"":                                     "empty",
		"lock":                                 "constant token",
		"true":                                 "constant token",
		"q3xwYc0mT1yQd8rZWv2Kfw":               "token",
		strings.Repeat("a", 65):                "text",
		"hello world":                          "text",
		"\xff\xfe":                             "binary",
		"a\x00b":                               "binary",
		"\xac\xed\x00\x05t\x00\r1400000060124": "stamp/ms/jdk decimal/jdk",
		"\xac\xed\x00\x05t\x00\x04lock":        "constant/jdk token/jdk",
		`"1400000060124"`:                      "stamp/ms/json decimal/json",
		`"lock"`:                               "constant/json token/json",
		`{"a":1}`:                              "text",
	} {
		if got := looks(Identify(value, tableNow, Hints{})); got != want {
			t.Errorf("%q: %s; want %s", value, got, want)
		}
	}
}

func TestIdentifyListsEveryPresetOfItsForm(t *testing.T) {
	for _, d := range Presets() {
		if !d.HasStamp() {
			continue
		}
		text, err := d.Stamp(tableNow, time.Minute, testUUID)
		if err != nil {
			t.Fatal(err)
		}
		first := Identify(text, tableNow, Hints{Prefer: d.Name})[0]
		if first.Look != LookStamp || first.Dialects[0] != d.Name || first.Unit != d.Unit {
			t.Errorf("%s: its own stamp is first taken for %v", d, first)
		}
		if all := Identify(text, tableNow, Hints{})[0].Dialects; !slices.IsSorted(all) ||
			!slices.Contains(all, d.Name) {
			t.Errorf("%s is not among %v", d, all)
		}
	}
}

func TestHintPutsItsFormFirst(t *testing.T) {
	for prefer, want := range map[string]string{
		"SetPexpire": "decimal stamp/ms", "Jedis": "stamp/ms decimal", "": "stamp/ms decimal",
		"RedisPy": "stamp/ms decimal",
	} {
		if got := looks(Identify("1400000060124", tableNow, Hints{Prefer: prefer})); got != want {
			t.Errorf("for %q: %s, want %s", prefer, got, want)
		}
	}
	if got := Identify("1400000060", tableNow, Hints{Prefer: "TaskTiger"})[0].Unit; got != UnitFloatSeconds {
		t.Errorf("TaskTiger's renewals are whole seconds: %s first", got)
	}
}

func TestHintDoesNotAffectLaterCalls(t *testing.T) {
	Identify("1400000060124", tableNow, Hints{Prefer: "Template"})
	if got := Identify("1400000060124", tableNow, Hints{})[0].Dialects; !slices.IsSorted(got) {
		t.Errorf("order changed for later calls: %v", got)
	}
}

func TestAmbiguousReportsTwoPlausibleUnits(t *testing.T) {
	// On a server set to the first hours of 1970, milliseconds and seconds
	// overlap.
	early := time.Unix(2_000, 0)
	matches := Identify("2500000", early, Hints{})
	if !Ambiguous(matches) {
		t.Errorf("seconds and milliseconds both lie within the window: %v", matches)
	}
	for _, value := range []string{"1400000060124", "1400000060", "1400000060.5", "1400000060124000000",
		"lock", ""} {
		if matches := Identify(value, tableNow, Hints{}); Ambiguous(matches) {
			t.Errorf("%q: %v", value, matches)
		}
	}
}

func TestNearestTimeComesFirst(t *testing.T) {
	early := time.Unix(2_000, 0)
	matches := Identify("2500000", early, Hints{})
	if len(matches) < 2 || matches[0].Unit != UnitNanos && matches[0].Unit != UnitMillis {
		t.Fatalf("%v", matches)
	}
	if a, b := matches[0].Expiry.Sub(early).Abs(), matches[1].Expiry.Sub(early).Abs(); a > b {
		t.Errorf("the first lies %s away, the second %s", a, b)
	}
}

func TestIdentifyNeverNamesOwner(t *testing.T) {
	for _, value := range []string{"5000000000000000000", testUUID + ":5000000000000000000",
		"q3xwYc0mT1yQd8rZWv2Kfw"} {
		for _, m := range Identify(value, tableNow, Hints{}) {
			if text := m.String(); strings.Contains(text, "our") {
				t.Errorf("%q is claimed by shape: %s", value, text)
			}
		}
	}
}

func TestEveryMatchHasWords(t *testing.T) {
	for _, value := range []string{"", "1", "lock", "\xff", "2147483649.0", Tombstone63,
		"5000000000000000000", "1400000060124", testUUID, "hello you", "42000"} {
		for _, m := range Identify(value, tableNow, Hints{}) {
			if m.String() == "" || m.Encoding == "" || m.Unit == "" {
				t.Errorf("%q: %+v", value, m)
			}
		}
	}
	got := fmt.Sprint(Identify("1400000060124", tableNow, Hints{Prefer: "Jedis"})[0])
	if want := "a stamp in ms for 2014-05-13T16:54:20.124Z (Jedis, Errorception, Faye, "; !strings.HasPrefix(got, want) {
		t.Errorf("%s", got)
	}
}

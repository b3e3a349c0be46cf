// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/golden"
)

const docsFile = "../../docs/reference/dialects.md"

func docs(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

var phrases = map[string]string{
	"ms": "ms", "s": "whole s", "float_s": "float s", "ns": "ns",
	"nil/waits": "waits", "nil/getset": "GETSET", "nil/gives_up": "gives up", "nil/setnx": "SETNX again",
	"nil/error":       "error",
	"nil/error_retry": "error, retries", "nil/never": "–",
	"bad/throws": "throws", "bad/expired": "expired", "bad/held": "held",
	"bad/zero": "leading number, else 0: expired",
	"bad/nan":  "NaN: GETSET", "bad/error_retry": "error, retries",
	"wins/same_text": "the same text", "wins/expired": "an expired value",
	"wins/expired_or_nil": "nil or an expired value",
	"wins/equal_number":   "an equal number", "wins/never": "–",
	"ttl/none": "–", "ttl/set": "option of SET", "ttl/getset": "option of SET; EXPIRE after GETSET",
	"ttl/every_win":   "option of SET; EXPIRE after every win",
	"ttl/after_setnx": "EXPIRE after SETNX", "ttl/every_setnx": "EXPIRE after every SETNX",
	"del/del": "DEL", "del/del_if_value_live": "GET; DEL if not expired",
	"del/del_if_value_own": "GET; DEL if its own", "del/del_if_value_ge_own": "GET; DEL if >= own",
	"del/del_if_own_not_past": "DEL if own time >= now", "del/del_if_own_ahead": "DEL if own time > now",
	"del/compare_and_delete": "compare and delete", "del/never": "never",
}

func phrase(kind string, value any) string { return phrases[kind+"/"+fmt.Sprint(value)] }

func written(d Dialect) string {
	text := phrases[string(d.Unit)] + ": now + lease"
	if d.Slack > 0 {
		text += " + " + d.Slack.String()
	}
	switch d.Shape {
	case ShapeUUIDNumber:
		return "uuid:" + text
	case ShapeConstant:
		return "`" + d.Constant + "`"
	case ShapeToken:
		return "random text"
	case ShapeDecimal:
		return "random decimal"
	}
	if d.Restamp {
		text += "; anew for GETSET"
	}
	return text
}

func judged(d Dialect) string {
	switch {
	case !d.HasTakeover():
		return map[bool]string{true: "by the server", false: "never"}[d.ServerExpires()]
	case d.OrMine:
		return "v < now, or own uuid"
	case d.Inclusive:
		return "v <= now"
	}
	return "v < now"
}

// goTime writes 1m for 1m0s.
func goTime(v time.Duration) string {
	if v >= time.Minute {
		return strings.TrimSuffix(v.String(), "0s")
	}
	return v.String()
}

func times(d Dialect) string {
	lease, poll, wait := "–", "–", "one attempt"
	if d.Lease > 0 {
		lease = goTime(d.Lease)
	}
	if d.Poll > 0 {
		poll = goTime(d.Poll)
	}
	switch {
	case d.WaitsForever:
		wait = "for ever"
	case d.Attempts > 0:
		wait = fmt.Sprintf("%d attempts", d.Attempts)
	case d.Wait > 0:
		wait = goTime(d.Wait)
	}
	return lease + "; " + poll + "; " + wait
}

func docRow(d Dialect) string {
	bad := phrase("bad", d.Unreadable)
	if d.Empty == EmptyIsNil {
		bad += `; "" is nil`
	}
	return "| `" + strings.Join([]string{
		d.Name + "`", written(d), judged(d), phrase("nil", d.OnNil), bad, phrase("wins", d.Wins),
		phrase("ttl", d.KeyTTL), phrase("del", d.Release), times(d),
	}, " | ") + " |\n"
}

var docTable = regexp.MustCompile(
	`(?s)<!-- table of presets, written by go test -update -->\n.*?<!-- end -->`)

func TestDocsTableMatchesPresets(t *testing.T) {
	var b strings.Builder
	b.WriteString("<!-- table of presets, written by go test -update -->\n")
	b.WriteString("| dialect | writes | expired when | GET nil | no number | GETSET wins on | TTL | release | lease; poll; wait |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, d := range Presets() {
		row := docRow(d)
		if strings.Contains(row, "|  |") {
			t.Errorf("a cell without words: %s", row)
		}
		b.WriteString(row)
	}
	b.WriteString("<!-- end -->")
	text := docs(t)
	have := docTable.FindString(text)
	if have == "" {
		t.Fatal("the docs have no table")
	}
	if have == b.String() {
		return
	}
	if !*golden.Update {
		t.Fatalf("docs/reference/dialects.md differs from the presets: run go test ./internal/dialect -update\n%s",
			b.String())
	}
	if err := os.WriteFile(docsFile, []byte(strings.Replace(text, have, b.String(), 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestDocsNameSourceAndTestOfEveryPreset(t *testing.T) {
	text := docs(t)
	_, sources, found := strings.Cut(text, "## Where each row comes from")
	if !found {
		t.Fatal("no chapter of sources")
	}
	for _, d := range Presets() {
		row := regexp.MustCompile("(?m)^\\| `" + d.Name + "` \\| [^|]{10,} \\| [^|]{10,} \\|$")
		if !row.MatchString(sources) {
			t.Errorf("%s has no row in the last table: \"| `%s` | source | test |\", with 10 letters or more in each cell", d, d.Name)
		}
	}
	for name := range strings.SplitSeq("recorded-errorception.txt recorded-faye.txt jedis-jar.txt", " ") {
		if _, err := os.Stat(vectorDir + "/" + name); err != nil || !strings.Contains(text, name) {
			t.Errorf("%s: %v, or not named in the docs", name, err)
		}
	}
}

func TestDocsExamplesParse(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(docs(t), -1)
	if len(blocks) < 2 {
		t.Fatalf("%d examples in the docs", len(blocks))
	}
	for _, block := range blocks {
		d, err := Parse([]byte(block[1]))
		if err != nil {
			t.Errorf("%s: %v", block[1], err)
			continue
		}
		if _, err := d.Stamp(tableNow, time.Minute, testUUID); err != nil {
			t.Errorf("%s: %v", d, err)
		}
	}
}

func TestDocsNameEveryFieldAndValue(t *testing.T) {
	text := docs(t)
	data, err := Jedis().MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	full := Kdyby()
	full.Constant, full.OrMine, full.SetnxAfterHeld, full.SleepsToStamp, full.CountsSleeps, full.Attempts,
		full.Inclusive = "x", true, true, true, true, 1, true
	more, err := full.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`"([a-z_]+)":`).FindAllStringSubmatch(string(data)+string(more),
		-1) {
		if !strings.Contains(text, "`"+m[1]+"`") {
			t.Errorf("field %s is not in the docs", m[1])
		}
	}
	for _, c := range choices(Jedis()) {
		for _, value := range c.allowed {
			if value != "" && !strings.Contains(text, "`"+value+"`") {
				t.Errorf("value %s of field %s is not in the docs", value, c.field)
			}
		}
	}
}

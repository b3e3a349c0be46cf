// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// jarFile was recorded from the original jar by internal/testing/interop; its
// own header explains it. Its clocks are in milliseconds.
var jarFile = filepath.Join(vectorDir, "jedis-jar.txt")

var jarKinds = map[string]int{"stamp": 30, "attempts": 10, "foreign": 40, "release": 10}

func jarLines(t *testing.T, kind string) []line {
	t.Helper()
	lines := readVectors(t, jarFile)
	count(t, jarFile, lines, jarKinds)
	var of []line
	for _, l := range lines {
		if l.kind == kind {
			of = append(of, l)
		}
	}
	return of
}

func number(t *testing.T, word string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestJedisStampsMatchJarByteForByte(t *testing.T) {
	checked := 0
	for _, l := range jarLines(t, "stamp") {
		now, lease := at(number(t, l.words[0])), Jedis().Lease
		if l.words[1] != "default" {
			lease = time.Duration(number(t, l.words[1])) * time.Millisecond
		}
		got, err := Jedis().Stamp(now, lease, "")
		switch {
		case lease <= 0 && errors.Is(err, errBadLease), now.Unix() < 0 && errors.Is(err, errBadClock):
			continue // the jar writes nonsense here; Stamp refuses
		case now.Add(lease).Year() > lastYear && errors.Is(err, errOverflow):
			continue
		case err != nil || got != l.words[2]:
			t.Errorf("%s: %v: got %s, %v", l.at, l.words, got, err)
		}
		checked++
	}
	if checked < 15 {
		t.Errorf("only %d stamps of the jar could be compared", checked)
	}
}

// The test follows each recorded attempt word by word.
func TestJedisJudgesForeignValuesAsTheJarDid(t *testing.T) {
	for _, l := range jarLines(t, "foreign") {
		now, outcome := at(number(t, l.words[1])), l.words[2]
		seen, got, getset := Nil(), "acquired", false
		for _, word := range l.words[3:] {
			command, reply, _ := strings.Cut(word, "=")
			if reply == "error" {
				got = "exception"
				break
			}
			switch command {
			case "GET":
				seen = replyOf(t, reply)
				step := Jedis().LegacyNext(seen, "", now)
				getset = step == StepGetset
				got = map[Step]string{StepWait: "refused", StepFail: "exception", StepGetset: "GETSET"}[step]
			case "GETSET":
				if !getset {
					t.Errorf("%s: the jar sent GETSET, the preset would not", l.at)
				}
				won := Jedis().LegacyWins(replyOf(t, reply), seen, now) == Won
				got = map[bool]string{true: "acquired", false: "refused"}[won]
			}
		}
		if want, _, _ := strings.Cut(outcome, ":"); got != want {
			t.Errorf("%s: the jar's attempt ended %s, the preset's %s: %v", l.at, outcome, got, l.words)
		}
	}
}

func TestJedisMakesAsManyAttemptsAsTheJar(t *testing.T) {
	for _, l := range jarLines(t, "attempts") {
		d := Jedis()
		if l.words[0] != "default" {
			d.Wait = time.Duration(number(t, l.words[0])) * time.Millisecond
		}
		if got := int64(d.CountedAttempts()); got != number(t, l.words[2]) {
			t.Errorf("%s: wait %s makes %d attempts, the jar made %s", l.at, d.Wait, got, l.words[2])
		}
	}
}

func TestJedisReleasesByFlagAsTheJarDid(t *testing.T) {
	for _, l := range jarLines(t, "release") {
		held := false
		for i, word := range l.words {
			switch {
			case word == "acquired":
				held = true
			case word == "release":
				deleted := i+1 < len(l.words) && strings.HasPrefix(l.words[i+1], "DEL=")
				for j := i + 1; j < len(l.words) && strings.HasPrefix(l.words[j], "!"); j++ {
					deleted = deleted || strings.HasPrefix(l.words[j+1], "DEL=")
				}
				would := held && Jedis().LegacyReleases("", Nil(), at(0)) == ReleaseDeletes
				if deleted != would {
					t.Errorf("%s: release at word %d: jar deleted %v, preset %v", l.at, i, deleted, would)
				}
				held = false
			}
		}
	}
}

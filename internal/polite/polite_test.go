// SPDX-License-Identifier: Apache-2.0

package polite

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The value is part of the wire format: other languages read the same file.
func TestLeftValueIsPinnedAndStrict(t *testing.T) {
	text, err := os.ReadFile("testdata/left.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for line := range strings.Lines(string(text)) {
		verdict, quoted, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		value, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		lines++
		token, left := Token(value)
		if left != (verdict == "left") {
			t.Errorf("%q: left %v, want %s", value, left, verdict)
		}
		if left && Value(token) != value {
			t.Errorf("%q is written as %q", value, Value(token))
		}
	}
	if lines != 17 {
		t.Errorf("%d lines were read", lines)
	}
}

func TestGapIsLongerThanOnePoll(t *testing.T) {
	for poll, want := range map[time.Duration]time.Duration{
		0: 145 * time.Millisecond, 100 * time.Millisecond: 145 * time.Millisecond,
		time.Second: 1270 * time.Millisecond,
	} {
		if got := Gap(poll); got != want {
			t.Errorf("poll %v: gap %v, want %v", poll, got, want)
		}
	}
	if got := Span(145 * time.Millisecond); got != 1015*time.Millisecond {
		t.Errorf("span %v", got)
	}
	if got := Span(10 * time.Millisecond); got != time.Second {
		t.Errorf("span %v", got)
	}
}

const (
	gap      = 145 * time.Millisecond
	span     = 1015 * time.Millisecond
	greatest = time.Minute
)

// memory returns the Memory of a process that begins at the beginning of a
// span.
func memory(t *testing.T) *Memory {
	beginAt(t, 0)
	return NewMemory(100*time.Millisecond, greatest, false)
}

func beginAt(t *testing.T, d time.Duration) {
	before := Begin
	t.Cleanup(func() { Begin = before })
	Begin = func(time.Duration) time.Duration { return d }
}

// turn returns the Turn of a key, whether or not this process holds it.
func (m *Memory) turn(key string) *Turn {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &m.entry(key).turn
}

func (m *Memory) owes(t *testing.T, now, want time.Duration) {
	t.Helper()
	if got := m.turn("k").Owes(now); got != want {
		t.Errorf("at %v it owes %v, want %v", now, got, want)
	}
}

// Only the time in which the key was held counts, over any number of leases.
func TestOneGapIsOwedAfterEachSpanOfWork(t *testing.T) {
	m := memory(t)
	m.owes(t, 0, 0)
	at := time.Duration(0)
	for range 10 {
		m.Took("k", at)
		m.owes(t, at+100*time.Millisecond, 0)
		m.turn("k").Ended(at + 100*time.Millisecond)
		at += 200 * time.Millisecond // the pause is shorter than a gap
	}
	m.Took("k", at)
	m.owes(t, at+14*time.Millisecond, 0)
	m.owes(t, at+15*time.Millisecond, gap)
	m.turn("k").Left(at + 15*time.Millisecond)
	at += 15*time.Millisecond + gap + time.Millisecond
	m.begin = func(span time.Duration) time.Duration { return span } // the gap is no pause
	m.Took("k", at)
	m.owes(t, at+span-1, 0)
	m.owes(t, at+span, gap)
}

func TestPauseAsLongAsGapBeginsNewCount(t *testing.T) {
	for _, c := range []struct{ pause, want time.Duration }{{gap - 1, gap}, {gap, 0}} {
		m := memory(t)
		m.Took("k", 0)
		m.turn("k").Ended(span - 1)
		m.Took("k", span-1+c.pause)
		m.owes(t, span+c.pause, c.want)
	}
}

func TestSimulationIsNotRandom(t *testing.T) {
	beginAt(t, span)
	m := NewMemory(100*time.Millisecond, greatest, true)
	m.Took("k", 0)
	m.owes(t, 0, 0)
	m.Took("k", time.Hour)
	m.owes(t, time.Hour, 0)
}

// Processes that live for one lease each leave together one gap in each span of
// work, although none knows of the others.
func TestGapsOfShortLivedProcessesAddUp(t *testing.T) {
	const lives, job = 10_000, 100 * time.Millisecond
	left := 0
	for range lives {
		m := NewMemory(100*time.Millisecond, greatest, false)
		m.Took("k", 0)
		if m.turn("k").Owes(job) > 0 {
			left++
		}
	}
	want := lives * int(job) / int(span)
	if left < want*8/10 || left > want*12/10 { // seven standard deviations
		t.Errorf("%d gaps in %d lives, want about %d", left, lives, want)
	}
}

// A gap that another process left counts for this process too, but not for a
// lease that it already holds.
func TestGapOfAnotherProcessBeginsNewCount(t *testing.T) {
	m := memory(t)
	m.Took("k", 0)
	m.turn("k").Ended(span)
	m.Met("k")
	m.Took("k", span+1)
	m.owes(t, span+2, 0)
	m.turn("k").Ended(2*span + 1)
	m.Took("k", 2*span+2)
	m.Met("k")
	m.owes(t, 2*span+2, gap)
}

func TestUnreleasedLeaseIsNotWork(t *testing.T) {
	m := memory(t)
	m.Took("k", 0)
	m.Took("k", time.Hour)
	m.owes(t, time.Hour+span-1, 0)
	m.turn("k").Ended(time.Hour + span - 1)
	m.turn("k").Ended(2 * time.Hour)
	m.owes(t, 2*time.Hour, 0)
}

func TestEachReleaseOwesAfterOldClientWasSeen(t *testing.T) {
	m := memory(t)
	m.Saw("k", time.Second)
	m.Saw("k", 0) // an older look is noted later
	m.Took("k", 2*time.Second)
	m.owes(t, 2*time.Second, gap)
	m.turn("k").Left(2 * time.Second)
	m.Took("k", time.Second+greatest)
	m.owes(t, time.Second+greatest, gap)
	m.owes(t, time.Second+greatest+1, 0)
}

func TestMemoryKeepsBoundedNumberOfKeys(t *testing.T) {
	m := memory(t)
	for i := range remembered + 10 {
		m.Saw(fmt.Sprint(i), 0)
	}
	if n, l := len(m.byKey), m.recent.Len(); n != remembered || l != remembered {
		t.Errorf("%d keys, %d in the list", n, l)
	}
	if m.byKey["9"] != nil || m.turn("10").Owes(0) != gap {
		t.Error("another than the oldest was forgotten")
	}
}

// An attempt of unknown outcome is undone while another lease of the process
// may have the key.
func TestUndoneAttemptDoesNotEndTurn(t *testing.T) {
	m := memory(t)
	m.Took("k", 0)
	var undone *Turn
	undone.Ended(0)
	undone.Left(0)
	if d := undone.Owes(time.Hour); d != 0 {
		t.Errorf("it owes %v", d)
	}
	m.owes(t, span, gap)
}

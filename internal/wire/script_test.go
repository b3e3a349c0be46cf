// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

var echo = NewScript(1, "-- echo: KEYS[1], ARGV[1] word → word\nreturn ARGV[1]")

func TestScriptIsSentWholeOnlyIfTheServerLacksIt(t *testing.T) {
	w := redistest.New(t)
	wire := w.Wire()
	m := open(t, wire.Pool(), Options{})
	eval := func() {
		t.Helper()
		if v, err := redis.String(m.Eval(bg, echo, "k", "word")); v != "word" || err != nil {
			t.Fatalf("the script says %q, %v", v, err)
		}
	}
	eval()
	eval()
	if _, err := m.Do(bg, "SCRIPT", "FLUSH"); err != nil {
		t.Fatal(err)
	}
	eval()
	var names []string
	for _, c := range wire.Sent() {
		names = append(names, c[0])
	}
	want := []string{"EVALSHA", "EVAL", "EVALSHA", "SCRIPT", "EVALSHA", "EVAL"}
	if !slices.Equal(names, want) {
		t.Errorf("sent %v, want %v", names, want)
	}
	if sent := wire.Sent()[1]; !slices.Equal(sent,
		redistest.Command{"EVAL", echo.source.(string), "1", "k", "word"}) {
		t.Errorf("sent whole: %v", sent)
	}
}

func TestScriptNeedsItsFirstLine(t *testing.T) {
	for _, source := range []string{
		"return 1", "-- no colon\nreturn 1", "-- name: no arrow\n", "-- : → \n", ""} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q was accepted", source)
				}
			}()
			NewScript(0, source)
		}()
	}
	if echo.Name() != "echo" || len(echo.SHA()) != 40 {
		t.Errorf("name %q, sha %q", echo.Name(), echo.SHA())
	}
}

func TestBatchStaysTogetherAndItsRepliesInOrder(t *testing.T) {
	w := redistest.New(t)
	wire := w.Wire()
	m := open(t, wire.Pool(), Options{Timeout: redistest.Patience})
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for range 5 {
				works(t, m)
				r := m.Batch(bg, []Command{
					Cmd("ECHO", "a"), echo.Cmd("k", "b"), Cmd("LPUSH"), Cmd("GET", "c").Tracked(),
					echo.Cmd("k", "d").Tracked()})
				a, _ := redis.String(r[0].Value, r[0].Err)
				b, _ := redis.String(r[1].Value, r[1].Err)
				if a != "a" || b != "b" || r[2].Err == nil || r[3].Value != nil || r[3].Err != nil ||
					string(r[4].Value.([]byte)) != "d" {
					t.Errorf("replies %v", r)
				}
			}
		})
	}
	wg.Wait()
	sent := wire.Sent()
	for i, c := range sent {
		if c.Is("ECHO") && c[1] == "a" {
			next := strings.ToUpper(sent[i+1][0] + " " + sent[i+2][0] + " " + sent[i+3][0] + " " +
				sent[i+4][0])
			if next != "EVALSHA LPUSH CLIENT GET" {
				t.Fatalf("after ECHO a came %s", next)
			}
		}
	}
}

func TestBatchResendsUnknownScriptsTogether(t *testing.T) {
	wire := redistest.New(t).Wire()
	m := open(t, wire.Pool(), Options{})
	r := m.Batch(bg, []Command{echo.Cmd("k", "a").Tracked(), Cmd("ECHO", "b"), echo.Cmd("k", "c")})
	for i, want := range []string{"a", "b", "c"} {
		if got, err := redis.String(r[i].Value, r[i].Err); got != want || err != nil {
			t.Errorf("reply %d is %q, %v, want %q", i, got, err, want)
		}
	}
	var names []string
	for _, c := range wire.Sent() {
		names = append(names, c[0])
	}
	// CLIENT CACHING applies to one command only, so it is sent again too.
	want := []string{"CLIENT", "EVALSHA", "ECHO", "EVALSHA", "CLIENT", "EVAL", "EVAL"}
	if !slices.Equal(names, want) {
		t.Errorf("sent %v, want %v", names, want)
	}
	if r := m.Batch(bg, nil); len(r) != 0 {
		t.Errorf("an empty batch has replies %v", r)
	}
}

// The last one is an error.
func TestEachCommandOfAnAbandonedBatchHasItsLateReply(t *testing.T) {
	bubble(t, func(t *testing.T, w *redistest.World) {
		gate := redistest.NewGate()
		m := open(t, w.FaultyPool(redistest.Rule{Command: "INCR", Nth: 2, Do: redistest.HoldReply(gate)}),
			Options{})
		ctx, cancel := context.WithCancel(bg)
		var r []Reply
		done := make(chan struct{})
		go func() {
			r = m.Batch(ctx, []Command{Cmd("INCR", "n"), Cmd("INCR", "n"), Cmd("INCR", "n"), Cmd("LPUSH")})
			close(done)
		}()
		synctest.Wait()
		cancel()
		<-done
		gate.Open()
		for i := range r {
			n, err, known := unknown(t, r[i].Err, nil).Wait(bg)
			if ok := n == int64(i+1) && err == nil; ok != (i < 3) || !ok && err == nil || !known {
				t.Errorf("late reply %d is %v, %v, known %v", i, n, err, known)
			}
		}
	})
}

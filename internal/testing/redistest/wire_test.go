// SPDX-License-Identifier: Apache-2.0

package redistest_test

import (
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// get returns a connection of the pool, which is closed with the test.
func get(t *testing.T, p *redis.Pool) redis.Conn {
	t.Helper()
	c := p.Get()
	t.Cleanup(func() { c.Close() })
	return c
}

// lines formats the commands, one per line.
func lines(cs []redistest.Command) string {
	var b strings.Builder
	for _, c := range cs {
		b.WriteString(c.String() + "\n")
	}
	return b.String()
}

func TestWireRecordsBytesInOrder(t *testing.T) {
	w := redistest.New(t)
	wire := w.Wire()
	p := wire.Pool()
	do(t, p, "SETNX", "k", "\xac\xed\x00\x05 v")
	do(t, p, "GETSET", "k", "")
	do(t, p, "DEL", `"k"`)
	want := "SETNX k \"\\xac\\xed\\x00\\x05 v\"\nGETSET k \"\"\nDEL \"\\\"k\\\"\"\n"
	equal(t, "sent", lines(wire.Sent()), want)
	equal(t, "crossed", lines(wire.Crossed()), want)
	wire.Forget()
	equal(t, "after Forget", lines(wire.Sent()), "")
}

func TestRuleActsFromTheNthMatchTimesTimes(t *testing.T) {
	w := redistest.New(t)
	p := w.FaultyPool(redistest.Rule{
		Command: "set", When: func(c redistest.Command) bool { return c[1] == "k" },
		Nth: 2, Times: 2, Do: redistest.Answer(redistest.OOM),
	})
	c := get(t, p)
	var got []string
	for _, key := range []string{"k", "other", "k", "k", "k"} {
		_, err := c.Do("SET", key, "v")
		got = append(got, map[bool]string{true: "ok", false: "error"}[err == nil])
	}
	equal(t, "replies", strings.Join(got, " "), "ok ok error error ok")
}

func TestFaultsDecideWhetherTheCommandRan(t *testing.T) {
	for name, c := range map[string]struct {
		do    redistest.Action
		ran   bool
		reply string // what the client receives
	}{
		"CutBefore":  {redistest.CutBefore, false, "EOF"},
		"CutAfter":   {redistest.CutAfter, true, "EOF"},
		"CutWithin":  {redistest.CutWithin, true, "EOF"},
		"CutReplied": {redistest.CutReplied, true, "OK"},
		"Silence":    {redistest.Silence, false, "timeout"},
		"Answer":     {redistest.Answer(redistest.ReadOnly), false, redistest.ReadOnly},
	} {
		t.Run(name, func(t *testing.T) {
			w := redistest.New(t)
			wire := w.Wire(redistest.Rule{Command: "SET", Do: c.do})
			conn := get(t, wire.Pool())
			// Only this deadline ends the silent case; no other case reaches
			// its deadline.
			wait := time.Minute
			if name == "Silence" {
				wait = time.Millisecond
			}
			v, err := redis.DoWithTimeout(conn, wait, "SET", "k", "v")
			equal(t, "reply", outcome(v, err), c.reply)
			equal(t, "ran", w.Mini.Exists("k"), c.ran)
			equal(t, "crossed", len(wire.Crossed()) == 1, c.ran)
			_, err = redis.DoWithTimeout(conn, wait, "PING")
			equal(t, "connection lives on", err == nil, name == "Answer")
		})
	}
}

func outcome(v any, err error) string {
	switch {
	case err == nil:
		return v.(string)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "timeout"
	case errors.Is(err, io.EOF):
		return "EOF"
	}
	return err.Error()
}

func TestCutComesAfterTheRepliesOwedBeforeIt(t *testing.T) {
	c := get(t, redistest.New(t).FaultyPool(
		redistest.Rule{Command: "GET", Do: redistest.Answer(redistest.Loading)},
		redistest.Rule{Command: "DEL", Do: redistest.CutBefore},
	))
	for _, command := range []string{"PING", "GET", "ECHO", "DEL"} {
		c.Send(command, "x")
	}
	c.Flush()
	var got []string
	for range 4 {
		v, err := redis.String(c.Receive())
		got = append(got, outcome(v, err))
	}
	equal(t, "replies", strings.Join(got, ", "), "x, "+redistest.Loading+", x, EOF")
}

func TestLateRequestRunsAfterItsClientHasGone(t *testing.T) {
	w := redistest.New(t)
	gate := redistest.NewGate()
	wire := w.Wire(redistest.Rule{Command: "SET", Do: redistest.HoldRequest(gate)})
	p := wire.Pool()
	c := p.Get()
	_, err := redis.DoWithTimeout(c, time.Millisecond, "SET", "k", "late")
	equal(t, "reply", outcome(nil, err), "timeout")
	c.Close()
	<-gate.Reached()
	do(t, p, "DEL", "k")
	equal(t, "crossed before Open", lines(wire.Crossed()), "DEL k\n")
	gate.Open()
	v, _ := w.Mini.Get("k")
	equal(t, "value after Open", v, "late")
}

func TestHeldReplyBelongsToACommandThatRan(t *testing.T) {
	w := redistest.New(t)
	gate := redistest.NewGate()
	p := w.FaultyPool(redistest.Rule{Command: "SET", Do: redistest.HoldReply(gate)})
	replied := make(chan any)
	go func() {
		c := p.Get()
		defer c.Close()
		v, _ := c.Do("SET", "k", "v")
		replied <- v
	}()
	<-gate.Reached()
	equal(t, "ran", w.Mini.Exists("k"), true)
	select {
	case v := <-replied:
		t.Errorf("replied %v before Open", v)
	default:
	}
	gate.Open()
	equal(t, "reply", <-replied, any("OK"))
}

func TestRefusedAndSilentDialing(t *testing.T) {
	w := redistest.New(t)
	wire := w.Wire(
		redistest.Rule{Command: redistest.Dialing, Do: redistest.Refuse},
		redistest.Rule{Command: redistest.Dialing, Nth: 2, Do: redistest.Silence},
	)
	p := wire.Pool()
	_, err := p.Get().Do("PING")
	equal(t, "refused", errors.Is(err, syscall.ECONNREFUSED), true)
	_, err = redis.DoWithTimeout(get(t, p), time.Millisecond, "PING")
	equal(t, "silent", outcome(nil, err), "timeout")
	do(t, p, "PING")
}

func TestCutEndsOpenConnectionsAndCalmEndsFaults(t *testing.T) {
	w := redistest.New(t)
	wire := w.Wire(redistest.Rule{Do: redistest.Answer("ERR always"), Times: -1})
	p := wire.Pool()
	c := get(t, p)
	_, err := c.Do("PING")
	equal(t, "first", outcome(nil, err), "ERR always")
	wire.Calm()
	equal(t, "open", wire.Connections(), 1)
	wire.Cut()
	_, err = c.Do("PING")
	equal(t, "after Cut", err != nil, true)
	do(t, p, "PING")
}

func TestAwaitSeesACommandThatIsHeld(t *testing.T) {
	w := redistest.New(t)
	gate := redistest.NewGate()
	wire := w.Wire(redistest.Rule{Command: "GET", Nth: 2, Do: redistest.HoldRequest(gate)})
	p := wire.Pool()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c := p.Get()
		defer c.Close()
		for range 3 {
			c.Do("GET", "k")
		}
	}()
	wire.Await("get", 2)
	<-gate.Reached()
	equal(t, "crossed", len(wire.Crossed()), 1)
	gate.Open()
	wire.Await("get", 3)
	<-ended
}

func TestMessagesPassBetweenReplies(t *testing.T) {
	w := redistest.New(t)
	p := w.Wire().Pool()
	sub := redis.PubSubConn{Conn: get(t, p)}
	if err := sub.Subscribe("news"); err != nil {
		t.Fatal(err)
	}
	equal(t, "acknowledged", sub.Receive().(redis.Subscription).Count, 1)
	do(t, p, "PUBLISH", "news", "one")
	do(t, p, "PUBLISH", "news", "two")
	equal(t, "first", string(sub.Receive().(redis.Message).Data), "one")
	equal(t, "second", string(sub.Receive().(redis.Message).Data), "two")
}

func TestListenServesOtherProcesses(t *testing.T) {
	w := redistest.New(t)
	wire := w.Wire(redistest.Rule{Command: "SET", Do: redistest.CutAfter})
	c, err := redis.Dial("tcp", wire.Listen())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Do("SET", "k", "v")
	equal(t, "cut", err != nil, true)
	equal(t, "ran", w.Mini.Exists("k"), true)
}

func TestWireWorksInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := redistest.Bubble(t)
		gate := redistest.NewGate()
		p := w.FaultyPool(redistest.Rule{Command: "SET", Do: redistest.HoldRequest(gate)})
		c := get(t, p)
		began := w.Now()
		_, err := redis.DoWithTimeout(c, time.Hour, "SET", "k", "v")
		equal(t, "reply", outcome(nil, err), "timeout")
		equal(t, "waited", w.Now().Sub(began), time.Hour)
		gate.Open()
		equal(t, "ran", w.Mini.Exists("k"), true)
	})
}

// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"fmt"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

func TestRedirectionsAreRead(t *testing.T) {
	for text, want := range map[string]Redirect{
		"MOVED 3999 127.0.0.1:6381": {3999, "127.0.0.1:6381", false},
		"ASK 16383 fd00::1:6381":    {16383, "fd00::1:6381", true},
		"MOVED 0 :6381":             {0, ":6381", false},
	} {
		err := fmt.Errorf("modern: %w", Judged(redis.Error(text)))
		if got, ok := RedirectOf(err); !ok || got != want {
			t.Errorf("%q: %+v, %v", text, got, ok)
		}
		if !IsRedirect(err) {
			t.Errorf("%q is no redirection", text)
		}
	}
	for _, text := range []string{"MOVED", "MOVED x a:1", "ASK 1 a", "TRYAGAIN Multiple keys request",
		"ERR MOVED 1 a:1"} {
		if got, ok := RedirectOf(redis.Error(text)); ok {
			t.Errorf("%q: %+v", text, got)
		}
	}
	if _, ok := RedirectOf(nil); ok {
		t.Error("no error is a redirection")
	}
}

// A command after ASKING gets its own reply, also where ASKING is refused, and
// so do the commands after it.
func TestAskingGoesBeforeItsCommand(t *testing.T) {
	w := redistest.New(t)
	line := w.Wire()
	m, err := New(line.Pool(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	script := NewScript(1, "-- echo: key; text → text\nreturn ARGV[1]")
	for _, answer := range []redistest.Action{redistest.Reply("+OK\r\n"),
		redistest.Answer("ERR unknown command")} {
		line.Fault(redistest.Rule{Command: "ASKING", Times: 4, Do: answer})
		for range 2 { // the script is sent whole at first
			got, err := redis.String((Asking{m}).Eval(context.Background(), script, "k", "text"))
			if got != "text" {
				t.Errorf("script: %q, %v", got, err)
			}
		}
		if _, err := (Asking{m}).Do(context.Background(), "SET", "k", "v"); err != nil {
			t.Error(err)
		}
		if got, err := redis.String(m.Do(context.Background(), "GET", "k")); got != "v" {
			t.Errorf("the next command: %q, %v", got, err)
		}
		line.Calm()
	}
	var last redistest.Command
	for _, c := range line.Sent() {
		if c.Is("EVALSHA") && !last.Is("ASKING") {
			t.Errorf("%v was sent after %v", c, last)
		}
		last = c
	}
}

// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// Call is one command of a Java lock.
type Call struct {
	// ClockMillis is the JVM's clock when the command reached the gate: a
	// moment after the lock read the clock.
	ClockMillis int64
	Verb        string // setnx, get, getset or del
	Key         string
	Value       string // the value that the command sends; empty: none
	// Reply is an integer or a text. Nil is true for a nil reply; Exception is
	// the class of what was thrown. As the Java lock sees it, bytes that are
	// not UTF-8 are already replaced.
	Reply     string
	Nil       bool
	Exception string
	Replied   bool // false: the call is still held at the gate
	// SentMicros and RepliedMicros are instants of the JVM's wall clock, in µs
	// since 1970; 0: not yet.
	SentMicros, RepliedMicros int64
}

// String returns the call as a test's message shows it.
func (c Call) String() string {
	s := c.Verb + " " + c.Key
	if c.Value != "" {
		s += " " + c.Value
	}
	switch {
	case !c.Replied:
		return s
	case c.Exception != "":
		return s + " -> " + c.Exception
	case c.Nil:
		return s + " -> (nil)"
	}
	return s + " -> " + c.Reply
}

func parseCall(s string) (Call, error) {
	bad := fmt.Errorf("interop: not a call: %q", s)
	f := strings.Split(s, ",")
	if len(f) != 7 {
		return Call{}, bad
	}
	var key, value, reply word
	var err [6]error
	c := Call{Verb: f[1]}
	c.ClockMillis, err[0] = strconv.ParseInt(f[0], 10, 64)
	key, err[1] = decodeWord(f[2])
	value, err[2] = decodeWord(f[3])
	reply, err[3] = decodeWord(f[4])
	c.SentMicros, err[4] = strconv.ParseInt(f[5], 10, 64)
	c.RepliedMicros, err[5] = strconv.ParseInt(f[6], 10, 64)
	for _, e := range err {
		if e != nil {
			return Call{}, bad
		}
	}
	c.Key, c.Value = key.text, value.text
	c.Replied = c.RepliedMicros != 0
	if class, thrown := strings.CutPrefix(reply.text, "!"); thrown && c.Replied {
		c.Exception = class
	} else if c.Replied {
		c.Reply, c.Nil = reply.text, reply.null
	}
	return c, nil
}

// Step closes or opens the client's gate. While it is closed, every command of
// the client's lock is held until [Client.Go] sends it; commands on a loop's
// counter pass.
func (c *Client) Step(ctx context.Context, on bool) error {
	word := "off"
	if on {
		word = "on"
	}
	_, err := c.jvm.order(ctx, 0, "step", c.Name, word)
	return err
}

// Next waits until a command is held at the gate, and returns it with true, or
// until the client has nothing more to do, and returns false. The lock's sleeps
// of 100 ms between attempts pass in real time.
func (c *Client) Next(ctx context.Context) (Call, bool, error) {
	words, err := c.jvm.order(ctx, 0, "next", c.Name)
	if err != nil {
		return Call{}, false, err
	}
	switch {
	case len(words) == 1 && words[0].text == "idle":
		return Call{}, false, nil
	case len(words) == 2 && words[0].text == "gate":
		call, err := parseCall(words[1].text)
		return call, true, err
	}
	return Call{}, false, badAnswer("next", words)
}

// Go sends the command that is held at the gate and waits for its reply. It
// returns an error if none is held: call [Client.Next] before.
func (c *Client) Go(ctx context.Context) (Call, error) {
	words, err := c.jvm.order(ctx, 0, "go", c.Name)
	if err != nil {
		return Call{}, err
	}
	if len(words) != 1 {
		return Call{}, badAnswer("go", words)
	}
	return parseCall(words[0].text)
}

// Pass is [Client.Next] and [Client.Go] for a command that must have the given
// verb.
func (c *Client) Pass(ctx context.Context, verb string) (Call, error) {
	at, there, err := c.Next(ctx)
	if err != nil {
		return Call{}, err
	}
	if !there || at.Verb != verb {
		return at, fmt.Errorf("interop: %s wants to send %q, not %s", c.Name, at.String(), verb)
	}
	return c.Go(ctx)
}

// Trace returns the lock's calls since the last Trace, oldest first and at most
// the last 4,096, and forgets them. Calls of loops are not recorded.
func (c *Client) Trace(ctx context.Context) ([]Call, error) {
	words, err := c.jvm.order(ctx, 0, "trace", c.Name)
	if err != nil {
		return nil, err
	}
	calls := make([]Call, 0, len(words))
	for _, w := range words {
		call, err := parseCall(w.text)
		if err != nil {
			return nil, err
		}
		calls = append(calls, call)
	}
	return calls, nil
}

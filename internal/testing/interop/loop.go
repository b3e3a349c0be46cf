// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Loop is a client that repeats a contended critical section: acquire, read the
// counter, hold, write the counter plus one, release. The counter's two
// commands are plain ones, so only the lock prevents lost updates.
type Loop struct{ client *Client }

// Report is the result of a loop.
type Report struct {
	Acquired int
	Refused  int           // acquires that came back with false
	Took     time.Duration // in whole milliseconds, by the JVM's clock
}

// Span is one acquisition as the Java client saw it, in µs of the JVM's wall
// clock.
type Span struct {
	Asked    int64 // just before acquire was called
	Held     int64 // just after acquire returned
	Released int64 // just before release was called: until then the client believes that it holds

	Overwritten bool // the release found another value; only workers set this
}

// Refusal is one acquire that returned false, in µs of the JVM's wall clock.
type Refusal struct {
	Asked  int64 // just before acquire was called
	GaveUp int64 // just after acquire returned
}

// StartLoop begins a loop on the client's present lock object, with count
// acquisitions or, if count is 0, until [Loop.Stop]. The counter is a key of
// the same server; hold is cut to whole milliseconds.
func (c *Client) StartLoop(ctx context.Context, counter string, hold time.Duration, count int) (*Loop,
	error) {
	_, err := c.jvm.order(ctx, 0, "loop", c.Name, counter, millis(hold), strconv.Itoa(count))
	if err != nil {
		return nil, err
	}
	return &Loop{client: c}, nil
}

// Reach waits until the loop has made at least that many acquisitions or has
// ended, and returns how many it has made. With 0 it returns at once.
func (l *Loop) Reach(ctx context.Context, least int) (int, error) {
	return l.number(ctx, "reach", least)
}

// Refused waits until at least that many acquires of the loop have returned
// false, or the loop has ended, and returns their number. With 0 it returns at
// once.
func (l *Loop) Refused(ctx context.Context, least int) (int, error) {
	return l.number(ctx, "refused", least)
}

func (l *Loop) number(ctx context.Context, verb string, least int) (int, error) {
	words, err := l.client.jvm.order(ctx, 0, verb, l.client.Name, strconv.Itoa(least))
	if err != nil {
		return 0, err
	}
	if len(words) != 1 {
		return 0, badAnswer(verb, words)
	}
	return strconv.Atoi(words[0].text)
}

// Stop ends the loop after its present round and returns at once; [Loop.Wait]
// waits for the end.
func (l *Loop) Stop(ctx context.Context) error {
	_, err := l.client.jvm.order(ctx, 0, "stop", l.client.Name)
	return err
}

// Wait returns the result of the loop when it has ended: by its count, by Stop
// or by an exception. If the loop may take longer than the JVM's timeout plus
// one wait, use a context with a deadline.
func (l *Loop) Wait(ctx context.Context) (Report, error) {
	words, err := l.client.jvm.order(ctx, 2*l.client.wait, "finish", l.client.Name)
	if err != nil {
		return Report{}, err
	}
	var n [3]int
	if err := numbers(words, n[:]); err != nil {
		return Report{}, err
	}
	return Report{Acquired: n[0], Refused: n[1], Took: time.Duration(n[2]) * time.Millisecond}, nil
}

func numbers(words []word, into []int) error {
	if len(words) != len(into) {
		return badAnswer("finish", words)
	}
	for i, w := range words {
		n, err := strconv.Atoi(w.text)
		if err != nil {
			return badAnswer("finish", words)
		}
		into[i] = n
	}
	return nil
}

// Spans returns every acquisition of the loop so far, oldest first.
func (l *Loop) Spans(ctx context.Context) ([]Span, error) {
	return instants(ctx, l, "spans", func(s *Span) []any { return []any{&s.Asked, &s.Held, &s.Released} })
}

// Refusals returns every acquire of the loop so far that returned false, oldest
// first.
func (l *Loop) Refusals(ctx context.Context) ([]Refusal, error) {
	return instants(ctx, l, "refusals", func(r *Refusal) []any { return []any{&r.Asked, &r.GaveUp} })
}

// instants reads an answer whose words are T values, with their fields
// separated by commas.
func instants[T any](ctx context.Context, l *Loop, verb string, fields func(*T) []any) ([]T, error) {
	words, err := l.client.jvm.order(ctx, 0, verb, l.client.Name)
	if err != nil {
		return nil, err
	}
	all := make([]T, len(words))
	for i, w := range words {
		if _, err := fmt.Sscan(strings.ReplaceAll(w.text, ",", " "), fields(&all[i])...); err != nil {
			return nil, fmt.Errorf("interop: an answer to %s with an unreadable word: %q", verb, w.text)
		}
	}
	return all, nil
}

package interop

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Loop is a client at work in a contended critical section: acquire, read the counter, hold, write it back one higher,
// release. The counter's two commands are plain ones, so nothing but the lock keeps an update from being lost.
type Loop struct{ client *Client }

// Report is what a loop came to.
type Report struct {
	Acquired int
	Refused  int           // acquires that came back with false
	Took     time.Duration // in whole milliseconds, by the JVM's clock
}

// Span is one acquisition as the Java client saw it, in microseconds of the JVM's wall clock.
type Span struct {
	Asked    int64 // before acquire was called
	Held     int64 // after it had returned
	Released int64 // before release was called: the end of what the client itself believes

	Overwritten bool // the release found another value; only workers of ours report that
}

// Refusal is one acquire that came back with false, in microseconds of the JVM's wall clock.
type Refusal struct {
	Asked  int64 // before acquire was called
	GaveUp int64 // after it had returned
}

// StartLoop begins a loop on the client's present lock object, of count acquisitions or, with 0, until [Loop.Stop]. The
// counter is a key of the same server; hold is cut to whole milliseconds.
func (c *Client) StartLoop(ctx context.Context, counter string, hold time.Duration, count int) (*Loop, error) {
	_, err := c.jvm.order(ctx, 0, "loop", c.Name, counter, millis(hold), strconv.Itoa(count))
	if err != nil {
		return nil, err
	}
	return &Loop{client: c}, nil
}

// Reach waits until the loop has had at least so many acquisitions, or has ended, and returns how many it has had by
// then. With 0 it only asks.
func (l *Loop) Reach(ctx context.Context, least int) (int, error) {
	return l.number(ctx, "reach", least)
}

// Refused waits until at least so many acquires of the loop came back with false, or the loop has ended, and returns how
// many have by then. With 0 it only asks.
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

// Stop ends the loop after its present round and returns at once; [Loop.Wait] waits for the end.
func (l *Loop) Stop(ctx context.Context) error {
	_, err := l.client.jvm.order(ctx, 0, "stop", l.client.Name)
	return err
}

// Wait returns what the loop came to when it has ended, by its count, by Stop or by an exception. Give it a context with
// a deadline where the loop takes longer than the JVM's timeout and one wait.
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

// Refusals returns every acquire of the loop so far that came back with false, oldest first.
func (l *Loop) Refusals(ctx context.Context) ([]Refusal, error) {
	return instants(ctx, l, "refusals", func(r *Refusal) []any { return []any{&r.Asked, &r.GaveUp} })
}

// instants reads an answer each of whose words is a T, its fields parted by commas.
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

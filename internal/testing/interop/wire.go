// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
)

// ErrEnded is wrapped in every error of a call whose JVM has ended.
var ErrEnded = errors.New("interop: the JVM has ended")

// Exception is what a Java call threw.
type Exception struct {
	Class   string // full name, such as java.lang.NumberFormatException
	Message string
}

// Error returns the class and the message, like the first line of a Java stack
// trace.
func (e *Exception) Error() string { return "interop: " + e.Class + ": " + e.Message }

// word is a text or null; Redis, Java and the line protocol distinguish null
// from an empty text.
type word struct {
	text string
	null bool
}

const (
	emptyWord = "()"
	nilWord   = "(nil)"
)

// Both sides escape parentheses within a word, so data can never look like
// these two names.
func encodeWord(s string) string {
	if s == "" {
		return emptyWord
	}
	return url.QueryEscape(s)
}

func decodeWord(s string) (word, error) {
	switch s {
	case emptyWord:
		return word{}, nil
	case nilWord:
		return word{null: true}, nil
	}
	text, err := url.QueryUnescape(s)
	return word{text: text}, err
}

type answer struct {
	words []word
	err   error
}

func parseAnswer(line string) (id string, a answer, err error) {
	fields := strings.Fields(line)
	if len(fields) < 2 {
		return "", answer{}, fmt.Errorf("interop: not an answer: %q", line)
	}
	words := make([]word, 0, len(fields)-2)
	for _, f := range fields[2:] {
		w, err := decodeWord(f)
		if err != nil {
			return "", answer{}, fmt.Errorf("interop: not a word: %q", f)
		}
		words = append(words, w)
	}
	switch {
	case fields[1] == "ok":
		return fields[0], answer{words: words}, nil
	case fields[1] == "err" && len(words) == 2:
		return fields[0], answer{err: &Exception{Class: words[0].text, Message: words[1].text}}, nil
	}
	return "", answer{}, fmt.Errorf("interop: not an answer: %q", line)
}

// order sends one line and waits for its answer: if ctx has no deadline, for at
// most the JVM's timeout plus extra.
func (j *JVM) order(ctx context.Context, extra time.Duration, words ...string) ([]word, error) {
	ch, err := j.send(words...)
	if err != nil {
		return nil, err
	}
	return j.await(ctx, extra, words[0], ch)
}

// send writes the line in one piece under the mutex: orders are executed in the
// order of the calls of send.
func (j *JVM) send(words ...string) (<-chan answer, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.calls == nil {
		return nil, j.endErr
	}
	j.nextID++
	id := fmt.Sprint(j.nextID)
	line := id
	for _, w := range words {
		line += " " + encodeWord(w)
	}
	ch := make(chan answer, 1)
	j.calls[id] = ch
	// A JVM that is ending no longer reads. The reason of its end says more
	// than a broken pipe.
	if _, err := fmt.Fprintln(j.stdin, line); errors.Is(err, os.ErrClosed) {
		delete(j.calls, id)
		return nil, fmt.Errorf("%w: %w", ErrEnded, err)
	}
	return ch, nil
}

func (j *JVM) await(ctx context.Context, extra time.Duration, verb string, ch <-chan answer) ([]word, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, j.timeout+extra)
		defer cancel()
	}
	select {
	case a := <-ch:
		return a.words, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("interop: no answer to %s: %w%s", verb, context.Cause(ctx), j.stderr.text())
	case <-j.ended:
	}
	// The answer may have arrived together with the end; prefer it to the
	// error.
	select {
	case a := <-ch:
		return a.words, a.err
	default:
		return nil, j.endErr
	}
}

func badAnswer(verb string, words []word) error {
	return fmt.Errorf("interop: an unreadable answer to %s: %v", verb, words)
}

// tail keeps the last 4 KiB of the JVM's stderr, where it reports its troubles.
type tail struct {
	mu   sync.Mutex
	last []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, p...)
	if over := len(t.last) - 4096; over > 0 {
		t.last = t.last[over:]
	}
	return len(p), nil
}

func (t *tail) note(s string) { _, _ = t.Write([]byte(s + "\n")) }

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.last) == 0 {
		return ""
	}
	return "; its stderr ends: " + strings.TrimSpace(string(t.last))
}

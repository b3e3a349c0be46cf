// SPDX-License-Identifier: Apache-2.0

package out

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"
)

// warner is a slog.Handler that prints log records as all other lines on stderr
// are printed: `getsetlock: warning: lease not renewed (key "k", until
// 12:00:05, error …)`. It names flags where the library names fields.
type warner struct {
	env   *Env
	attrs []slog.Attr
}

// Logger returns the logger for a library. With quiet it drops every record.
func (e *Env) Logger(quiet bool) *slog.Logger {
	if quiet {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(&warner{env: e})
}

func (w *warner) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (w *warner) Handle(_ context.Context, r slog.Record) error {
	var parts []string
	add := func(a slog.Attr) bool {
		v := a.Value.Resolve()
		err, failed := v.Any().(error)
		switch {
		case failed:
			parts = append(parts, a.Key+" "+inFlags.Replace(unprefixed{err}.Error()))
		case v.Kind() == slog.KindString:
			parts = append(parts, fmt.Sprintf("%s %q", a.Key, v.String()))
		case v.Kind() == slog.KindTime:
			parts = append(parts, a.Key+" "+v.Time().Format(time.TimeOnly))
		default:
			parts = append(parts, fmt.Sprintf("%s %v", a.Key, v.Any()))
		}
		return true
	}
	for _, a := range w.attrs {
		add(a)
	}
	r.Attrs(add)
	text := inFlags.Replace(r.Message)
	if len(parts) > 0 {
		text = fmt.Sprintf("%s (%s)", text, strings.Join(parts, ", "))
	}
	if w.env.told.first(text) {
		w.env.Say(false, "warning: %s", text)
	}
	return nil
}

// told are the warnings that one run of the command has printed, in their
// order, and how often each came again. Nil remembers nothing.
type told struct {
	mu    sync.Mutex
	texts []string
	again map[string]int
}

// mostTold bounds the memory of a command that runs for months. Further texts
// are printed each time.
const mostTold = 256

// localPort is the part of a network error that differs from one connection to
// the next.
var localPort = regexp.MustCompile(`[^\s"]+:[0-9]+->`)

// first reports whether to print a warning: it was not printed before.
func (t *told) first(text string) bool {
	if t == nil {
		return true
	}
	text = localPort.ReplaceAllString(text, "")
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.again[text]; known {
		t.again[text]++
		return false
	}
	if len(t.texts) < mostTold {
		if t.again == nil {
			t.again = map[string]int{}
		}
		t.texts, t.again[text] = append(t.texts, text), 0
	}
	return true
}

// sum prints which warnings came again, and how often.
func (t *told) sum(e *Env) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, text := range t.texts {
		if n := t.again[text]; n > 0 {
			e.Say(false, "warning: %d more times: %s", n, text)
		}
	}
}

func (w *warner) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &warner{w.env, append(append([]slog.Attr{}, w.attrs...), attrs...)}
}

// WithGroup ignores the group: no library used here logs groups, and a name
// would only lengthen the line.
func (w *warner) WithGroup(string) slog.Handler { return w }

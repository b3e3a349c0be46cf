package out

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// warner is a slog.Handler that says what goes on in the background as every other line on stderr is
// said: `getsetlock: warning: lease not renewed (key "k", until 12:00:05, error …)`.
type warner struct {
	env   *Env
	attrs []slog.Attr
}

// Logger is nil-safe to give to a library: with quiet it drops everything.
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
		switch {
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
	if len(parts) == 0 {
		w.env.Say(false, "warning: %s", r.Message)
		return nil
	}
	w.env.Say(false, "warning: %s (%s)", r.Message, strings.Join(parts, ", "))
	return nil
}

func (w *warner) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &warner{w.env, append(append([]slog.Attr{}, w.attrs...), attrs...)}
}

// WithGroup is not used by what logs here; a group's name would only lengthen the line.
func (w *warner) WithGroup(string) slog.Handler { return w }

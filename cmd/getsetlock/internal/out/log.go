package out

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// warner is a slog.Handler that prints log records as all other lines on stderr
// are printed: `getsetlock: warning: lease not renewed (key "k", until
// 12:00:05, error …)`.
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

// WithGroup ignores the group: no library used here logs groups, and a name
// would only lengthen the line.
func (w *warner) WithGroup(string) slog.Handler { return w }

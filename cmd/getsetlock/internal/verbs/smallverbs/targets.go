// SPDX-License-Identifier: Apache-2.0

package smallverbs

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/backing"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/legacy"
)

// stored are the locks of a store other than Redis.
type stored struct {
	e    *out.Env
	t    *out.Target
	conn backing.Conn
}

// look returns all locks where arg is empty. They are sorted by name.
func (s *stored) look(ctx context.Context, _ *lsFlags, arg string, p *out.Progress) ([]lockLine, error) {
	what, isPattern := keyOrPattern(arg)
	var found []backing.Lock
	var err error
	if what != "" && !isPattern {
		var one *backing.Lock
		if one, err = s.conn.Look(ctx, what); one != nil {
			found = []backing.Lock{*one}
		}
	} else {
		found, err = s.conn.List(ctx, literal(what))
	}
	if isPattern {
		meant := scope.Matching(what)
		found = slices.DeleteFunc(found, func(l backing.Lock) bool {
			return !meant.Covers(meant.Database(), l.Name)
		})
	}
	slices.SortFunc(found, func(a, b backing.Lock) int { return cmp.Compare(a.Name, b.Name) })
	var lines []lockLine
	for _, l := range found {
		lines = append(lines, s.line(l))
	}
	p.Set(int64(len(lines)))
	return lines, err
}

// literal is the part of a pattern in front of the first character with a
// meaning.
func literal(pattern string) string {
	if at := strings.IndexAny(pattern, `*?[\`); at >= 0 {
		return pattern[:at]
	}
	return pattern
}

// line describes a lock as ls shows it.
func (s *stored) line(l backing.Lock) lockLine {
	now := s.e.Clock.Now()
	line := lockLine{
		shown: shown{Key: out.Escaped(l.Name), Type: l.Type, State: StateHeld, Protocol: s.t.Address.Scheme,
			Encoding: string(dialect.Plain), Owner: out.Escaped(l.Owner), Note: out.Escaped(l.Note),
			Value: new(out.Escaped(l.Value)), Waiters: &l.Waiters},
		compared: compared{raw: l.Name, held: l.Value}, kind: kind{session: true}, now: now,
	}
	if l.Fence != 0 {
		line.Fence = &l.Fence
	}
	if l.Left >= 0 {
		line.TTL = &l.Left
		line.setUntil(now.Add(l.Left), now)
	}
	return line
}

func (s *stored) where() string { return s.t.Where() }

func (s *stored) close() { _ = s.conn.Close() }

func (s *stored) told(err error) error { return out.ToldBy(s.conn, err) }

func (s *stored) find(ctx context.Context, name string) (lockLine, error) {
	l, err := s.conn.Look(ctx, name)
	if l == nil || err != nil {
		return lockLine{}, err
	}
	return s.line(*l), nil
}

// force takes the value as ls shows it, or the owner's token.
func (s *stored) force(ctx context.Context, name, value string) (legacy.Deleted, error) {
	l, err := s.conn.Look(ctx, name)
	if l == nil || err != nil || value != l.Value && value != l.Owner {
		return legacy.Deleted{}, err
	}
	deleted, err := s.conn.Free(ctx, name, l.Value)
	return legacy.Deleted{Lock: deleted}, err
}

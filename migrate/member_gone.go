package migrate

import (
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/migrate/internal/record"
)

const (
	goneAfter  = 7 * 24 * time.Hour
	mostNames  = 20
	foldEvery  = 10 // rounds
	foldCount  = 32 // fields that are looked at in one
	mostFolded = 8  // members in one
)

// gone adds a member to those that are gone for long.
func (s MemberState) gone(g record.Gone) record.Gone {
	low, err := ParsePhase(g.Phase)
	if g.Count == 0 {
		g = record.Gone{First: s.Seen, Last: s.Seen}
		low, err = s.Phase, nil
	}
	g.Count++
	if s.Seen.Before(g.First) {
		g.First = s.Seen
	}
	if s.Seen.After(g.Last) {
		g.Last = s.Seen
	}
	if err != nil {
		low = NoPhase
	}
	g.Phase = min(low, s.Phase).String()
	name := s.Name
	if name == "" {
		name = s.ID
	}
	g.Names = append(append([]string{}, g.Names...), name)
	g.Names = g.Names[max(0, len(g.Names)-mostNames):]
	return g
}

func (s MemberState) outlived(serverNow time.Time) bool {
	return serverNow.After(record.Over(s.Seen, s.Leaving, s.Renews, s.TTL))
}

// folding is how far a member has gone through the roster in search of the long
// gone.
type folding struct {
	rounds int
	cursor string
}

// fold looks at some fields of the roster now and then. It takes out members
// that have left, and counts the long gone in one field, so that processes that
// are killed every day do not make the roster grow. Nothing depends on it: what
// fails is done by a later round.
func (m *Member) fold(ctx context.Context) {
	f := &m.folds
	if f.rounds++; f.rounds%foldEvery != 1 {
		return
	}
	if f.cursor == "" {
		f.cursor = "0"
	}
	roster := record.RosterKey(m.cfg.Namespace)
	reply, err := redis.Values(m.mux.Do(ctx, "HSCAN", roster, f.cursor, "COUNT", foldCount))
	if err != nil || len(reply) != 2 {
		return
	}
	f.cursor, _ = redis.String(reply[0], nil)
	fields, _ := redis.Strings(reply[1], nil)
	now, err := m.serverNow(ctx, fields)
	if err != nil {
		return
	}
	for i, done := 0, 0; i+1 < len(fields) && done < mostFolded; i += 2 {
		s, err := ParseMember(fields[i+1])
		switch {
		case err != nil || s.ID != fields[i] || s.ID == m.id:
		case !s.Leaving.IsZero() && s.outlived(now):
			_, _ = m.mux.Eval(ctx, record.Forget, roster, s.ID, fields[i+1])
			done++
		case now.Sub(s.Seen) > goneAfter && s.outlived(now):
			m.foldOne(ctx, s, fields[i+1])
			done++
		}
	}
}

// serverNow asks for the time if there is anybody to judge by it.
func (m *Member) serverNow(ctx context.Context, fields []string) (time.Time, error) {
	if len(fields) == 0 {
		return time.Time{}, nil
	}
	t, err := redis.Int64s(m.mux.Do(ctx, "TIME"))
	if err != nil || len(t) != 2 {
		return time.Time{}, fmt.Errorf("migrate: asking for the time: %w", err)
	}
	return time.Unix(t[0], t[1]*1000).UTC(), nil
}

func (m *Member) foldOne(ctx context.Context, s MemberState, bytes string) {
	roster := record.RosterKey(m.cfg.Namespace)
	was, err := record.TextOf(m.mux.Do(ctx, "HGET", roster, record.GoneField))
	if err != nil {
		return
	}
	var gone record.Gone
	if was != "" {
		if gone, err = record.ParseGone(was); err != nil {
			return // of another version: nobody's to change
		}
	}
	_, _ = m.mux.Eval(ctx, record.Fold, roster, s.ID, bytes, was, s.gone(gone).String())
}

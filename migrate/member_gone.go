// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"cmp"
	"context"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/internal/wire"
)

const (
	goneAfter  = 7 * 24 * time.Hour
	mostNames  = 20
	foldEvery  = 10 // rounds between two searches
	foldCount  = 32 // fields that one search looks at, about
	mostFolded = 8  // members that one search removes at most
)

// gone adds a member to the count of those that are gone for long.
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

// folding is how far a member has searched the roster for members gone for
// long.
type folding struct {
	rounds int
	cursor string
}

// fold looks at some fields of the roster now and then. It removes members that
// have left, and moves members gone for long into one field that counts them.
// So the roster does not grow where processes are killed every day. What fails
// is done by a later round.
func (m *Member) fold(ctx context.Context) {
	f := &m.folds
	if f.rounds++; f.rounds%foldEvery != 1 {
		return
	}
	f.cursor = cmp.Or(f.cursor, "0")
	roster := record.RosterKey(m.cfg.Namespace)
	reply, err := redis.Values(m.mux.Do(ctx, "HSCAN", roster, f.cursor, "COUNT", foldCount))
	if err != nil || len(reply) != 2 {
		return
	}
	f.cursor, _ = redis.String(reply[0], nil)
	fields, _ := redis.Strings(reply[1], nil)
	if len(fields) == 0 {
		return
	}
	now, err := wire.Time(m.mux.Do(ctx, "TIME"))
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

func (m *Member) foldOne(ctx context.Context, s MemberState, bytes string) {
	roster := record.RosterKey(m.cfg.Namespace)
	was, err := record.TextOf(m.mux.Do(ctx, "HGET", roster, record.GoneField))
	if err != nil {
		return
	}
	var gone record.Gone
	if was != "" {
		if gone, err = record.ParseGone(was); err != nil {
			return // another version's, which this one may not change
		}
	}
	_, _ = m.mux.Eval(ctx, record.Fold, roster, s.ID, bytes, was, s.gone(gone).String())
}

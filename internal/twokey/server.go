// SPDX-License-Identifier: Apache-2.0

package twokey

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/clocks"
	"github.com/getsetlock/getsetlock/internal/watches"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// Server is what takes no lock: connection, dialect, looks at both keys, and
// deletion by an operator.
type Server struct {
	Settings Settings
	Clock    Clock
	Mux      *wire.Mux
	Count    Counters

	tomb  any           // bytes of the tombstone, boxed once for all commands
	armed watches.Armed // watches of held keys

	// oldServer says that this connection's server forbids a script to write
	// after it has called TIME. It is reset with the connection, since another
	// server may answer the next one.
	oldServer atomic.Bool
}

// NewServer returns a Server on what pool dials. It sends nothing.
func NewServer(pool *redis.Pool, settings Settings) (*Server, error) {
	settings, err := settings.Complete()
	if err != nil {
		return nil, err
	}
	s := &Server{Settings: settings, Clock: Clock{clocks.New(settings.Clock)}}
	tomb, err := settings.Dialect.EncodeValue(settings.Dialect.Tombstone())
	if err != nil {
		return nil, settings.errorf("Dialect: %w", err)
	}
	s.tomb = tomb
	s.Mux, err = wire.New(pool, wire.Options{Timeout: settings.Timeout,
		Lost: func(error) { s.oldServer.Store(false) }})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", settings.Package, err)
	}
	return s, nil
}

// Timeout returns how long a Release waits for the server at most: one reply.
func (s *Server) Timeout() time.Duration { return s.Mux.Timeout() }

// Tombstone returns the bytes of the tombstone.
func (s *Server) Tombstone() string { return s.tomb.(string) }

// Unwatch ends the watch of a grant.
func (s *Server) Unwatch(g backend.Grant) { s.armed.Unwatch(g) }

// Close ends the connections and waits for their goroutines.
func (s *Server) Close() error { return s.Mux.Close() }

// Observe looks at a lock in one round trip and takes nothing.
func (s *Server) Observe(ctx context.Context, key string) (Observation, error) {
	k, err := s.Keys(key)
	if err != nil {
		return Observation{}, err
	}
	at := s.Clock.begin()
	reply, err := s.Mux.Eval(ctx, observeScript, k.ArgL, k.M())
	if err != nil {
		return Observation{}, s.Trouble(k, "look at", err)
	}
	return s.look(k, reply, s.Clock.end(at))
}

// observeBatch is how many keys one message asks about: enough to share its
// cost, and few enough not to delay the server's other clients.
const observeBatch = 256

// ObserveRaw looks at many keys with few messages. The names are those on the
// server. Both results have the length of raw.
func (s *Server) ObserveRaw(ctx context.Context, raw []string) ([]Observation, []error) {
	seen, errs := make([]Observation, len(raw)), make([]error, len(raw))
	for from := 0; from < len(raw); from += observeBatch {
		part := raw[from:min(from+observeBatch, len(raw))]
		cmds := make([]wire.Command, len(part))
		for i, l := range part {
			cmds[i] = observeScript.Cmd(l, MarkKey(l))
		}
		at := s.Clock.begin()
		replies := s.Mux.Batch(ctx, cmds)
		at = s.Clock.end(at)
		for i, r := range replies {
			k := newKeys(part[i], part[i], true)
			if r.Err != nil {
				errs[from+i] = s.Trouble(k, "look at", r.Err)
				continue
			}
			seen[from+i], errs[from+i] = s.look(k, r.Value, at)
		}
	}
	return seen, errs
}

// Deleted says which keys CompareAndDelete deleted.
type Deleted struct {
	Lock bool // L, the old clients' key
	Mark bool // M, the getsetlock clients' key
}

// Any reports whether any key was deleted.
func (d Deleted) Any() bool { return d.Lock || d.Mark }

// CompareAndDelete deletes L if it holds value, and with it M if its holder
// wrote those bytes. value may also be that holder's token.
func (s *Server) CompareAndDelete(ctx context.Context, key, value string) (Deleted, error) {
	k, err := s.Keys(key)
	if err != nil {
		return Deleted{}, err
	}
	reply, err := s.Mux.Eval(ctx, deleteScript, k.ArgL, k.M(), value, s.tomb)
	if err != nil {
		return Deleted{}, s.Trouble(k, "delete", err)
	}
	f, _ := reply.([]any)
	if len(f) != 2 {
		return Deleted{}, s.Trouble(k, "delete", errOddReply)
	}
	return Deleted{Number(f[0]) == 1, Number(f[1]) == 1}, nil
}

// ForceRelease is CompareAndDelete for [lock.Client.ForceRelease].
func (s *Server) ForceRelease(ctx context.Context, key, value string) (bool, error) {
	if value == "" {
		return false, fmt.Errorf("%s: key %q: the value to compare with is empty", s.Settings.Package, key)
	}
	deleted, err := s.CompareAndDelete(ctx, key, value)
	return deleted.Any(), err
}

// Free releases a getsetlock client's lock as its holder would, if M still has
// exactly value. A tombstone stays, and is left where the strategy leaves one.
// If value is what an old client wrote, it deletes that from L.
func (s *Server) Free(ctx context.Context, key, value string, by Strategy) (bool, error) {
	token, rest, _ := strings.Cut(value, " ")
	switch {
	case any(value) == s.tomb:
		return false, fmt.Errorf(
			"%s: key %q: its tombstone keeps old clients out, and no client holds it; getsetlock migrate deletes tombstones when the phase allows it",
			s.Settings.Package, key)
	case len(token) != tokenLength:
		return s.ForceRelease(ctx, key, value)
	}
	k, err := s.Keys(key)
	if err != nil {
		return false, err
	}
	on, _, _ := strings.Cut(rest, " ")
	args := []any{k.ArgL, k.ArgM, value, on, s.tomb}
	if by >= Tombstone && on != "" && any(on) != s.tomb {
		args = append(args, s.tomb, argTombPX)
	}
	reply, err := s.Mux.Eval(ctx, guardRelease, args...)
	if err != nil {
		return false, s.Trouble(k, "free", err)
	}
	f, _ := reply.([]any)
	switch {
	case reply == any(int64(1)):
		return true, nil
	case len(f) != 2:
		return false, s.Trouble(k, "free", errOddReply)
	}
	return Number(f[0]) == 2, nil // M was deleted; L was another client's
}

// Describe is Observe for [lock.Client.Inspect]. Its Detail is an Observation.
func (s *Server) Describe(ctx context.Context, key string) (backend.Info, error) {
	return s.describe(ctx, key, func(name string, o Observation) error {
		e := &backend.HeldError{Key: name, Protocol: s.Settings.Dialect.Name, Owner: o.Stamp.ID,
			Stamp: o.Stamp.Expiry}
		if o.HasTTL {
			e.Left, e.Until = o.PTTL, o.Local.Add(o.PTTL)
		}
		if o.Err != nil {
			e.Protocol = o.Err.Error()
		}
		return e
	})
}

func (s *Server) describe(ctx context.Context, key string, held func(string, Observation) error,
) (backend.Info, error) {
	o, err := s.Observe(ctx, key)
	if err != nil {
		return backend.Info{}, err
	}
	info := backend.Info{Key: key, Value: o.Value, Detail: o}
	if !o.Exists {
		info.Value, _, _ = o.Token()
	}
	if o.Exists || o.MarkExists {
		info.Held = held(key, o)
	}
	return info, nil
}

// Counters count since New.
type Counters struct {
	Acquired  atomic.Int64 // grants, including those after a takeover
	Takeovers atomic.Int64 // expired stamps of other clients that were replaced
	Clobbered atomic.Int64 // acquisitions that another client undid before the settle ended

	// Losses, each grant counted once.
	Overwritten atomic.Int64 // L held another client's value
	Deleted     atomic.Int64 // L was empty
	Taken       atomic.Int64 // M no longer held the token

	Shortened    atomic.Int64 // renewals that found a TTL cut by another client's EXPIRE
	Foreign      atomic.Int64 // attempts that found a value which is not a plausible stamp of the dialect
	Steps        atomic.Int64 // steps of the server's clock that were noticed
	Sparse       atomic.Int64 // looks that came too late after the one before to judge by unchanged bytes
	Unsure       atomic.Int64 // attempts whose outcome was not known
	Unremembered atomic.Int64 // looks at an expired stamp that the server could not remember
}

// lost counts a loss by what the key holds.
func (c *Counters) lost(e *LostError) {
	switch {
	case e.Mark:
		c.Taken.Add(1)
	case e.Seen.Exists:
		c.Overwritten.Add(1)
	default:
		c.Deleted.Add(1)
	}
}

// Lost returns the number of losses of every kind.
func (c *Counters) Lost() int64 { return c.Overwritten.Load() + c.Deleted.Load() + c.Taken.Load() }

// timed runs a script that needs the server's clock, which it reads itself. A
// server before 3.2 lets no script write after TIME; there TIME is a command of
// its own, and its reading is given as two arguments from the index at on. That
// reading is old by one round trip: stamps end earlier, and trust counts from
// before TIME was sent, so both err to the safe side. A script that never needs
// the clock has at 0.
func (s *Server) timed(ctx context.Context, script *wire.Script, at int, args ...any) (any, error) {
	if at == 0 {
		return s.Mux.Eval(ctx, script, args...)
	}
	if !s.oldServer.Load() {
		reply, err := s.Mux.Eval(ctx, script, args...)
		if !wire.RefusesTime(err) {
			return reply, err
		}
		s.oldServer.Store(true)
	}
	sec, usec, err := s.time(ctx)
	if err != nil {
		return nil, err
	}
	for len(args) < at+2 {
		args = append(args, argNone)
	}
	args[at], args[at+1] = sec, usec
	return s.Mux.Eval(ctx, script, args...)
}

// time asks the server for its clock. If the outcome of TIME is unknown, the
// attempt's outcome is still known: TIME takes nothing.
func (s *Server) time(ctx context.Context) (sec, usec any, err error) {
	seconds, micros, err := wire.Clock(s.Mux.Do(ctx, "TIME"))
	if unknown, ok := wire.MayBeSent(err); ok {
		err = unknown.Err
	}
	if err != nil {
		return nil, nil, fmt.Errorf("TIME: %w", err)
	}
	return seconds, micros, nil
}

// lossOf finds the loss in an error; nil if there is none.
func lossOf(err error) *LostError {
	var lost *LostError
	errors.As(err, &lost)
	return lost
}

// roundUp rounds d up to a multiple of step.
func roundUp(d, step time.Duration) time.Duration { return (d + step - 1) / step * step }

// least returns the lesser of those durations that are positive, or the other
// one.
func least(a, b time.Duration) time.Duration {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}

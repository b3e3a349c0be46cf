// SPDX-License-Identifier: Apache-2.0

package twokey

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/getsetlock/getsetlock/internal/fencing"
	"github.com/getsetlock/getsetlock/internal/polite"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// holding is what stays the same while a lock goes from grant to grant inside
// the process.
type holding struct {
	e        *Engine
	k        Keys
	strategy Strategy
	account  Account
	stamp    *stamp // the mark of strategy Stamp
	guard    *guard // the mark of the others

	settled bool          // no old client can still overwrite the mark because of an earlier look
	server  time.Time     // the server's clock when it took the key; zero if that was not read
	since   time.Duration // elapsed time when the mark was known to be on L
	turn    *polite.Turn  // this holding of the key, for politeness; nil until the key is known to be taken
}

// Grant is one acquisition. The value of M repeats on the server what the grant
// depends on, also where a reply was lost.
type Grant struct {
	*holding
	token string
	term  backend.Term
	fence int64

	watched atomic.Int32  // watches that are armed
	pending *wire.Pending // the reply of an attempt of unknown outcome, until it is known

	mu    sync.Mutex
	spare int8  // reserved fencing numbers after fence, for holders it is shared with
	lost  error // what the first look found after a loss; from then on the grant is not renewed (rule 8)
	asked bool  // a release was sent whose outcome is unknown
	over  bool  // nothing is held for certain, or it was handed over

	gap *polite.Watch // watch of the key that was left to old clients; nil before
}

func (e *Engine) newGrant(k Keys, a Attempt) (*Grant, error) {
	both := &struct {
		grant   Grant
		holding holding
	}{holding: holding{e: e, k: k, strategy: a.Strategy, account: a.Account}}
	g := &both.grant
	g.holding = &both.holding
	if g.account == nil {
		g.account = unaccounted{}
	}
	var err error
	if a.Strategy == Stamp {
		g.token = string(appendToken(nil))
		g.stamp, err = e.newStamp(g.token, a.TTL)
	} else {
		g.guard, g.token, err = e.newGuard(a.Strategy)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: key %q: %w", e.Settings.Package, k.Name, err)
	}
	return g, nil
}

// appendToken draws 128 bits: 22 characters of base64url. Every attempt gets a
// new token, which is never used again, so no delayed command can hit another
// grant.
func appendToken(to []byte) []byte {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.AppendEncode(to, b[:])
}

// tokenLength is the length of a token in bytes.
const tokenLength = 22

// acquisition is the script of an attempt, with its keys and arguments appended
// to args. A seen that is not empty is the value on L that it may replace.
// clockAt is the index of the server's clock, for [Server.timed].
func (g *Grant) acquisition(args []any, ttl time.Duration, seen string) (s *wire.Script, clockAt int,
	whole []any) {
	if g.stamp != nil {
		return stampAcquire, stampAcquireClock, g.stamp.acquisition(args, g, seen)
	}
	return g.guard.acquisition(args, g, ttl, seen)
}

// checking is a look whether both keys are still the grant's.
func (g *Grant) checking(args []any) (*wire.Script, []any) {
	args = append(args, g.k.ArgL, g.k.ArgM)
	if g.stamp != nil {
		return stampCheck, append(args, g.stamp.token, g.stamp.t.gap)
	}
	return guardCheck, append(args, g.token)
}

// ending is a release. A gap that is not 0 leaves the key to old clients for
// that time.
func (g *Grant) ending(args []any, gap time.Duration) (s *wire.Script, clockAt int, whole []any,
	err error) {
	if g.stamp != nil {
		return g.stamp.ending(args, g, gap)
	}
	s, whole = g.guard.ending(args, g, gap)
	return s, 0, whole, nil
}

// taken reads the acquire script's reply. It returns:
//   - took > 0, how the lock was taken
//   - look, the holder as the script saw it, where the lock was not taken
//   - neither, where the reply is malformed
func (g *Grant) taken(reply any) (took int64, look any) {
	if f, _ := reply.([]any); len(f) == 2 && Number(f[0]) == 0 {
		return 0, f[1]
	}
	if g.stamp != nil {
		took = g.stamp.taken(g, reply)
	} else {
		took = g.guard.taken(g, reply)
	}
	if took > 0 {
		g.since = g.e.Clock.Elapsed()
	}
	return took, nil
}

// numbered gives the grant the first of a block of fencing numbers.
func (g *Grant) numbered(first int64) {
	if g.e.Settings.Counters != "" {
		g.fence, g.spare = first, fencing.Block-1
	}
}

// Key returns the caller's name for the lock.
func (g *Grant) Key() string { return g.k.Name }

// Token is new for every attempt.
func (g *Grant) Token() string { return g.token }

// Term is what the server has granted.
func (g *Grant) Term() backend.Term { return g.term }

// Fence is the fencing number; 0 where the settings have no counters.
func (g *Grant) Fence() int64 { return g.fence }

// Account returns the Account of the attempt.
func (g *Grant) Account() Account { return g.account }

// Held returns for how long the mark was known to be on L.
func (g *Grant) Held() time.Duration { return g.e.Clock.Elapsed() - g.since }

// Share gives the lock to the next holder in this process, under the same
// token. A stamp is not shared: its holders pass the lock on over the server.
// Where the key means "done", nobody gets it (rule 10).
func (g *Grant) Share() (backend.Grant, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	fences := g.e.Settings.Counters != ""
	switch {
	case g.strategy == Stamp, g.e.Settings.Dialect.NeverReleases(), g.over, g.asked, g.account.Outdated(),
		g.lost != nil, fences && g.spare == 0:
		return nil, false
	}
	g.over = true
	next := &Grant{holding: g.holding, token: g.token, term: g.term}
	if fences {
		next.fence, next.spare = g.fence+1, g.spare-1
	}
	return next, true
}

// lesser returns the lesser of two PTTL replies: trust never goes beyond what
// the server keeps (rule 9).
func (g *Grant) lesser(l, m any) time.Duration {
	left := Number(m)
	if g.strategy != Nothing {
		left = min(left, Number(l))
	}
	return time.Duration(max(left, 0)) * time.Millisecond
}

// cut counts a TTL that another client shortened since it was set (rule 9).
func (g *Grant) cut(l, m any) {
	cut := false
	if g.stamp != nil {
		cut = Number(l) < Number(m)+g.stamp.t.beyond-jitter
	} else {
		cut = g.guard.cut(Number(l), Number(m))
	}
	if cut {
		g.e.Count.Shortened.Add(1)
	}
}

// jitter is by how much, in ms, TTLs that belong together may differ: a
// script's two commands may run in different milliseconds.
const jitter = 100

// lose reads which key changed and what it held instead. From then on the grant
// is not renewed. M stays until Release or its own end, so that the next
// getsetlock client does not start while the job is still being stopped (rule
// 8).
func (g *Grant) lose(f []any) error {
	clock := g.e.Clock
	seen, err := g.e.look(g.k, f[1], clock.end(clock.begin()))
	if err != nil {
		return err
	}
	seen.Seen = g.e.watch.contradictions()
	lost := &LostError{Key: g.k.Name, Mark: Number(f[0]) == 0, Seen: seen}
	if !lost.Mark && !seen.Exists && g.strategy != Nothing || seen.OfOldClient() {
		g.e.polite().Saw(g.k.L, g.e.Clock.Elapsed())
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lost == nil {
		g.lost = lost
		g.e.Count.lost(lost)
		g.account.Orphan()
	}
	return lost
}

// Gone returns why the grant must not be renewed, or nil.
func (g *Grant) Gone() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lost == nil && g.over {
		return Released(g.k)
	}
	return g.lost
}

// Released returns the error for a grant whose release was already answered.
func Released(k Keys) error {
	return fmt.Errorf("%w: key %q was already released", backend.ErrLost, k.Name)
}

// check looks whether both keys still belong to the grant. The term never
// reaches beyond the TTLs read (rule 9).
func (g *Grant) check(ctx context.Context) error {
	at := backend.ReadClock(ctx)
	var room [4]any
	script, args := g.checking(room[:0])
	reply, err := g.e.Mux.Eval(ctx, script, args...)
	if err != nil {
		return g.e.Trouble(g.k, "look again at", err)
	}
	f, _ := reply.([]any)
	switch len(f) {
	case 2:
		return g.lose(f)
	case 3:
	default:
		return g.e.Trouble(g.k, "look again at", errOddReply)
	}
	g.cut(f[1], f[2])
	g.term.TTL = min(g.term.TTL, at.Elapsed-g.term.Sent.Elapsed+g.lesser(f[1], f[2]))
	return nil
}

var (
	_ backend.Fenced  = (*Grant)(nil)
	_ backend.Sharer  = (*Grant)(nil)
	_ backend.Yielder = (*Grant)(nil)
)

package modern

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock"
)

// grant is one acquisition of one key.
type grant struct {
	b     *Backend
	key   string
	token string // the whole value of the key
	place string // its member of the line; "" when it never stands there
	waits bool   // it stands in the line, or may: its release leaves that as well
	fence int64
	spare int64 // fencing numbers after fence that are reserved for those it is shared with
	term  lock.Term

	pending *wire.Pending // of an attempt whose outcome is not known

	mu     sync.Mutex
	over   bool          // the server said for certain that nothing is held
	seen   time.Duration // PTTL that the last renewal set, by which a foreign touch shows
	sentAt lock.Instant  // when it was sent
}

func (g *grant) Token() string   { return g.token }
func (g *grant) Term() lock.Term { return g.term }
func (g *grant) Fence() int64    { return g.fence }

// Share gives the key to the next holder of this process under the same token, with the next of the
// reserved fencing numbers. A grant that was released or may be is never shared.
func (g *grant) Share() (lock.Grant, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over || g.pending != nil || g.b.cfg.Fence && g.spare == 0 {
		return nil, false
	}
	g.over = true
	next := &grant{b: g.b, key: g.key, token: g.token, term: g.term}
	if g.b.cfg.Fence {
		next.fence, next.spare = g.fence+1, g.spare-1
	}
	return next, true
}

// LostError says what was found on a key that is not ours any more. It unwraps to [lock.ErrLost].
type LostError struct {
	Key string

	// Seen is what stands on the key now, nil when not looked at or when nothing does.
	Seen *Info
}

func (e *LostError) Error() string {
	s := fmt.Sprintf("%v: key %q", lock.ErrLost, e.Key)
	switch {
	case e.Seen == nil:
		return s + " does not carry our token any more"
	case !e.Seen.Exists:
		return s + " is gone: it expired, or somebody deleted it"
	}
	return s + " is held by another: " + e.Seen.who()
}

func (e *LostError) Unwrap() error { return lock.ErrLost }

// gone reports the grant as lost, with what stands on its key now.
func (g *grant) gone(ctx context.Context) error {
	e := &LostError{Key: g.key}
	if info, err := g.b.Inspect(ctx, g.key); err == nil {
		e.Seen = &info
		if !info.Exists {
			g.b.habits.deleted(g.key)
		}
	}
	return e
}

// Extend sets the key's TTL anew if it still carries our token.
func (g *grant) Extend(ctx context.Context, ttl time.Duration) (lock.Term, error) {
	terms, errs := g.b.ExtendAll(ctx, []lock.Grant{g}, ttl)
	return terms[0], errs[0]
}

// Release deletes the key if it still carries our token.
func (g *grant) Release(ctx context.Context) error {
	g.mu.Lock()
	over := g.over
	g.mu.Unlock()
	if over {
		return &LostError{Key: g.key}
	}
	if g.pending != nil && !g.waits && g.refused(ctx) {
		g.end()
		return nil
	}
	deleted, err := g.delete(ctx)
	switch {
	case err != nil:
		return trouble("release", g.key, err)
	case !deleted:
		if g.pending != nil {
			return &LostError{Key: g.key} // perhaps not yet: the late command may still arrive
		}
		g.end()
		return g.gone(ctx)
	}
	g.end()
	return nil
}

func (g *grant) delete(ctx context.Context) (bool, error) {
	if g.b.cfg.Fair || g.waits {
		return g.b.leaveLine(ctx, g)
	}
	return g.b.native.compareAndDelete(ctx, g.b.user, g.key, g.token)
}

// refused reads the late reply of an attempt, if its connection still brings it, and reports whether
// the key was certainly not taken: then nothing need be released.
func (g *grant) refused(ctx context.Context) bool {
	reply, err, known := g.pending.Wait(ctx)
	n, isFence := reply.(int64)
	return known && (err != nil || reply == nil || isFence && n <= 0)
}

func (g *grant) end() {
	g.mu.Lock()
	g.over = true
	g.mu.Unlock()
}

var errForeignGrant = errors.New("modern: a grant of another backend")

package migrate

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
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// bridgeMark is what L holds, and what else stays the same while the lock goes
// from grant to grant inside the process. The grant that took the lock writes
// it, before the lock is handed over.
type bridgeMark struct {
	b       *bridgeEngine
	k       bridgeKeys
	phase   Phase // of all grants of this mark
	account *account
	guard   any           // bytes for L where there is no tombstone; empty: none
	on      any           // bytes on L; after a lost reply a guess that scripts check
	settled bool          // no old client can still overwrite it because of an earlier look
	onTomb  bool          // on is the tombstone
	server  time.Time     // the server's clock when the key was taken
	since   time.Duration // elapsed time when the mark was known to be on L
	turn    *polite.Turn  // turn that it counts for; nil while the mark is not known to be on L
}

// bridgeGrant is one acquisition in the phases from dual on. The value of M
// repeats on the server what the grant depends on, also where a reply was lost.
type bridgeGrant struct {
	*bridgeMark
	token string
	value any // value of M; after a lost reply a guess
	term  backend.Term
	fence int64

	watched atomic.Int32  // number of armed watches
	pending *wire.Pending // reply of an attempt whose outcome is unknown; nil otherwise

	mu    sync.Mutex
	spare int8  // reserved fencing numbers after fence, for holders it is shared with
	lost  error // why it was lost; a lost grant is not renewed (rule 8)
	asked bool  // a release was sent whose outcome is unknown
	over  bool  // it holds nothing any more, or was handed over

	gap *polite.Watch // watch of the key that it left to old clients; nil before
}

// tokenLength is the length of a token in bytes.
const tokenLength = 22

func (b *bridgeEngine) newGrant(k bridgeKeys, p Phase, a *account) (*bridgeGrant, error) {
	both := &struct {
		grant bridgeGrant
		mark  bridgeMark
	}{mark: bridgeMark{b: b, k: k, phase: p, account: a, guard: argNone}}
	g := &both.grant
	g.bridgeMark = &both.mark
	if p != Clean {
		guard, err := b.draw()
		if err != nil {
			return nil, err
		}
		g.guard = guard
	}
	g.on = g.guard
	g.marked()
	return g, nil
}

// marked gives the grant a new token, and sets the value of M from it and the
// bytes on L.
func (g *bridgeGrant) marked() {
	var raw [16]byte
	var room [128]byte
	// Every attempt has a new token, so that a delayed command cannot hit
	// another grant.
	rand.Read(raw[:]) // never fails
	value := base64.RawURLEncoding.AppendEncode(room[:0], raw[:])
	if g.phase != Clean {
		value = append(append(append(value, ' '), g.on.(string)...), g.b.tag...)
	}
	whole := string(value)
	g.token, g.value = whole[:tokenLength], whole
}

// taken reads the acquire script's reply. It returns:
//   - took > 0, how the lock was taken
//   - look, the holder as the script saw it, where the lock was not taken
//   - neither, where the reply is malformed
func (g *bridgeGrant) taken(reply any) (took int64, look any) {
	var number int64
	switch f := reply.(type) {
	case int64:
		took, number = tookFree, f
		if f < 0 {
			took, number = tookTomb, -f
		}
	case []any:
		if len(f) == 2 && integer(f[0]) == 0 {
			return 0, f[1]
		}
		if len(f) != 4 {
			return 0, nil
		}
		took, number = integer(f[0]), integer(f[3])
		if sec := integer(f[1]); sec > 0 {
			g.server = time.Unix(sec, integer(f[2])*1000)
		}
	}
	if took == 0 || number == 0 {
		return 0, nil
	}
	if g.onTomb = took == tookTomb; g.onTomb {
		g.on = g.b.tomb
		g.value = g.token + " " + g.b.tomb.(string) + g.b.tag
	}
	g.since = g.b.clock.Elapsed()
	g.numbered(number)
	return took, nil
}

// numbered gives the grant the first of a block of fencing numbers.
func (g *bridgeGrant) numbered(first int64) {
	if g.b.cfg.Fence {
		g.fence, g.spare = first, fencing.Block-1
	}
}

func (g *bridgeGrant) Token() string      { return g.token }
func (g *bridgeGrant) Term() backend.Term { return g.term }
func (g *bridgeGrant) Fence() int64       { return g.fence }

// Share gives the lock to the next holder in this process, under the same
// token. Where the key means "done", nobody gets it (rule 10).
func (g *bridgeGrant) Share() (backend.Grant, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.b.dialect.NeverReleases(), g.over, g.asked, g.account.outdated(), g.lost != nil,
		g.b.cfg.Fence && g.spare == 0:
		return nil, false
	}
	g.over = true
	next := &bridgeGrant{bridgeMark: g.bridgeMark, token: g.token, value: g.value, term: g.term}
	if g.b.cfg.Fence {
		next.fence, next.spare = g.fence+1, g.spare-1
	}
	return next, true
}

// Extend sets the TTLs of both keys anew if both are still this grant's.
func (g *bridgeGrant) Extend(ctx context.Context, ttl time.Duration) (backend.Term, error) {
	terms, errs := g.b.ExtendAll(ctx, []backend.Grant{g}, ttl)
	return terms[0], errs[0]
}

// ExtendAll renews grants in messages that are sent together.
func (b *bridgeEngine) ExtendAll(ctx context.Context, grants []backend.Grant, ttl time.Duration,
) ([]backend.Term, []error) {
	terms, errs := make([]backend.Term, len(grants)), make([]error, len(grants))
	var members keeping
	var old, live []int
	for i := range grants {
		if errs[i] = members.keeps(ctx, grants[i], ttl); errs[i] != nil {
			continue
		}
		switch g := grants[i].(type) {
		case *bridgeGrant:
			if errs[i] = g.gone(); errs[i] == nil {
				live = append(live, i)
			}
		case *observeGrant:
			old = append(old, i)
		default:
			errs[i] = fmt.Errorf("migrate: a grant of another backend (%T)", grants[i])
		}
	}
	if len(live) > 0 {
		b.renew(ctx, grants, live, ttl, terms, errs)
	}
	if len(old) > 0 {
		b.renewObserve(ctx, grants, old, ttl, terms, errs)
	}
	return terms, errs
}

// renew sends the renewals of the grants with the given indices.
func (b *bridgeEngine) renew(ctx context.Context, grants []backend.Grant, live []int, ttl time.Duration,
	terms []backend.Term, errs []error) {
	sentAt, now := backend.ReadClock(ctx), b.clock.Elapsed()
	cmds, sent := make([]wire.Command, 0, len(live)), make([]int, 0, len(live))
	for _, i := range live {
		g := grants[i].(*bridgeGrant)
		asked, err := b.lease(g.phase, ttl, now-g.since)
		if err != nil {
			errs[i] = fmt.Errorf("migrate: key %q: %w", g.k.name, err)
			continue
		}
		g.account.sending(b, asked)
		cmd := renewScript.Cmd(g.k.argL, g.k.argM, g.token, b.px(asked), b.tomb, argTombPX)
		// The script's writes make the server forget who watches the keys. Its
		// reads afterwards, under tracking, register them again.
		cmd.Track = g.watched.Load() > 0
		cmds, sent = append(cmds, cmd), append(sent, i)
	}
	for n, r := range b.mux.Batch(ctx, cmds) {
		i := sent[n]
		terms[i], errs[i] = grants[i].(*bridgeGrant).renewed(r, sentAt)
	}
}

// renewed reads a renewal's reply.
func (g *bridgeGrant) renewed(r wire.Reply, at backend.Instant) (backend.Term, error) {
	if r.Err != nil {
		return backend.Term{}, bridgeTrouble(g.k, "renew", r.Err)
	}
	f, _ := r.Value.([]any)
	switch {
	case len(f) == 2:
		return backend.Term{}, g.lose(f)
	case len(f) != 5:
		return backend.Term{}, bridgeTrouble(g.k, "renew", errOddReply)
	}
	g.cut(f[1], f[2])
	return backend.Term{Sent: at, TTL: g.lesser(f[3], f[4])}, nil
}

// lesser is the lesser of the two TTLs, since trust never exceeds what the
// server keeps (rule 9).
func (g *bridgeGrant) lesser(l, m any) time.Duration {
	left := integer(m)
	if g.phase != Clean {
		left = min(left, integer(l))
	}
	return time.Duration(max(left, 0)) * time.Millisecond
}

// cut counts a TTL that another client shortened (rule 9). For a guard that is
// a TTL below M's. For a tombstone it is one far below its 30 days, which days
// of ageing do not explain.
func (g *bridgeGrant) cut(l, m any) {
	const jitter = 100 // a script's two commands may fall into different milliseconds
	left := integer(l)
	guard := !g.onTomb && left < integer(m)-jitter
	if g.phase != Clean && left >= 0 && (guard || g.onTomb && left < tombstonePX/4) {
		g.b.count.touched.Add(1)
	}
}

// lose reads from a reply which key is no longer the grant's, and what it
// holds. The grant is not renewed from then on. M stays until Release or its
// own end, so that no other getsetlock client starts while a job is still being
// stopped (rule 8).
func (g *bridgeGrant) lose(f []any) error {
	at := g.b.judge.Begin()
	seen, err := g.b.judge.Read(g.k.name, g.k.l, f[1], at)
	if err != nil {
		return err
	}
	lost := &legacy.LostError{Key: g.k.name, Mark: integer(f[0]) == 0, Seen: seen}
	if !lost.Mark && !seen.Exists && g.phase != Clean || seen.OfOldClient() {
		g.b.judge.Polite().Saw(g.k.l, g.b.clock.Elapsed())
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lost == nil {
		g.lost = lost
		g.b.count.lost(lost)
		g.b.orphan(g.account)
	}
	return lost
}

// gone returns why the grant may not be renewed.
func (g *bridgeGrant) gone() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lost == nil && g.over {
		return givenBefore(g.k.name)
	}
	return g.lost
}

func givenBefore(key string) error {
	return fmt.Errorf("%w: key %q was released before", backend.ErrLost, key)
}

// check looks whether both keys are still the grant's. The term then ends no
// later than the TTLs that were read (rule 9).
func (g *bridgeGrant) check(ctx context.Context) error {
	at := backend.ReadClock(ctx)
	reply, err := g.b.mux.Eval(ctx, checkScript, g.k.argL, g.k.argM, g.token)
	if err != nil {
		return bridgeTrouble(g.k, "look again at", err)
	}
	f, _ := reply.([]any)
	switch len(f) {
	case 2:
		return g.lose(f)
	case 3:
	default:
		return bridgeTrouble(g.k, "look again at", errOddReply)
	}
	g.cut(f[1], f[2])
	g.term.TTL = min(g.term.TTL, at.Elapsed-g.term.Sent.Elapsed+g.lesser(f[1], f[2]))
	return nil
}

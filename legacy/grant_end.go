package legacy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/polite"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// LostError describes how a grant was lost. It unwraps to backend.ErrLost.
type LostError struct {
	Key string

	// Mark is true when the grant's token is gone from M. Otherwise M had the
	// token, but another client deleted or overwrote the bytes on L.
	Mark bool

	// Seen is what both keys held instead.
	Seen Observation
}

func (e *LostError) Error() string {
	text := fmt.Sprintf("%v: key %q ", backend.ErrLost, e.Key)
	o := e.Seen
	switch {
	case e.Mark:
		return text + "no longer has this holder's token: its lease has ended"
	case !o.Exists:
		return text + "was deleted by another client"
	case o.Type != "string":
		return text + "was replaced by a " + o.Type
	}
	if _, bytes, ok := o.Token(); ok && bytes == o.Value {
		return text + "still has this holder's value, but another client removed or changed its TTL"
	}
	looks := dialect.Identify(o.Value, o.now(), dialect.Hints{Prefer: o.Dialect.Name})
	return text + fmt.Sprintf("was overwritten by another client: %.80q, %s", o.Value, looks[0])
}

func (e *LostError) Unwrap() error { return backend.ErrLost }

// byOldClient reports whether an old client overwrote or deleted the grant's
// bytes.
func (e *LostError) byOldClient() bool { return !e.Mark && !e.Seen.Exists || e.Seen.OfOldClient() }

// errUncertain is the reason why an attempt cannot be undone for certain: its
// command may still reach the server.
var errUncertain = errors.New(
	"the connection ended before the server said whether it took the key; it may still do so")

// renewReply is the length of the reply to a successful renewal.
const renewReply = 7

// renewed reads a renewal's reply, which was under way during took.
func (g *grant) renewed(r wire.Reply, at backend.Instant, took roundTrip) (backend.Term, error) {
	if r.Err != nil {
		return backend.Term{}, trouble(g.k, "renew", r.Err)
	}
	f, _ := r.Value.([]any)
	switch {
	case len(f) == 2:
		return backend.Term{}, g.lose(f)
	case len(f) != renewReply:
		return backend.Term{}, trouble(g.k, "renew", errOddReply)
	}
	g.cut(f[1], f[2])
	g.h.sawClock(took, number(f[5])*1e6+number(f[6]))
	return backend.Term{Sent: at, TTL: shorter(f[3], f[4])}, nil
}

// cut counts a TTL of L that another client shortened since it was set (rule
// 9).
func (g *grant) cut(l, m any) {
	const jitter = 100 // a script's two commands may run in different milliseconds
	if number(l) < number(m)+g.t.beyond-jitter {
		g.h.count.shortened.Add(1)
	}
}

// lose reads which key changed and what it held instead. From then on the grant
// is not renewed. M stays until Release or its own end, so that the next
// getsetlock client does not start while the job is still being stopped (rule
// 8).
func (g *grant) lose(f []any) error {
	seen, err := g.h.look(g.k, f[1], roundTrip{wall: g.h.clock.Now()})
	if err != nil {
		return err
	}
	lost := &LostError{Key: g.k.name, Mark: number(f[0]) == 0, Seen: seen}
	if lost.byOldClient() {
		g.h.watch.polite.Saw(g.k.l, g.h.clock.Elapsed())
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lost == nil {
		g.lost = lost
		g.h.count.lost.Add(1)
	}
	return lost
}

// gone returns why the grant must not be renewed, or nil.
func (g *grant) gone() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lost == nil && g.over {
		return released(g.k)
	}
	return g.lost
}

// released returns the error for a grant whose release was already answered.
func released(k keys) error {
	return fmt.Errorf("%w: key %q was already released", backend.ErrLost, k.name)
}

// check looks whether both keys still belong to the grant. The term never
// reaches beyond the TTLs read (rule 9).
func (g *grant) check(ctx context.Context) error {
	at := backend.ReadClock(ctx)
	reply, err := g.h.mux.Eval(ctx, checkScript, g.k.argL, g.k.argM, g.tokenArg, g.t.gap)
	if err != nil {
		return trouble(g.k, "look again at", err)
	}
	f, _ := reply.([]any)
	switch len(f) {
	case 2:
		return g.lose(f)
	case 3:
	default:
		return trouble(g.k, "look again at", errOddReply)
	}
	g.cut(f[1], f[2])
	g.term.TTL = min(g.term.TTL, at.Elapsed-g.term.Sent.Elapsed+shorter(f[1], f[2]))
	return nil
}

// Release deletes both keys, each only if it is still the grant's (rule 10).
// If the reply to the grant's attempt has not come, the release follows the
// attempt on the same connection and does not wait for that reply. The server
// executes the two in their order, so its answer is certain. It returns:
//   - nil: nothing is held any more;
//   - an error that wraps backend.ErrLost: nothing is held, and the lock had
//     been lost or released before;
//   - another error: the outcome is unknown, and Release can be called again.
func (g *grant) Release(ctx context.Context) error { return g.release(ctx, 0) }

// release is Release. If gap is not 0, it leaves the key to old clients for
// that time.
func (g *grant) release(ctx context.Context, gap time.Duration) error {
	g.mu.Lock()
	over, pending := g.over, g.pending
	g.mu.Unlock()
	if over {
		return released(g.k)
	}
	var reply any
	var err error
	behind, uncertain := false, false
	if pending != nil {
		late, failed, known := pending.Reply()
		switch {
		case known && !tookIt(late, failed):
			return g.end(nil)
		case known:
			g.settled(late)
		default:
			reply, err = pending.Behind().Eval(ctx, releaseScript, g.k.argL, g.k.argM, g.tokenArg, g.t.gap)
			behind = !wire.IsNotSent(err)
			uncertain = !behind // the attempt's connection has ended
		}
	}
	if !behind {
		reply, err = g.giveBack(ctx, gap)
	}
	if err != nil {
		if _, may := wire.MayBeSent(err); may {
			g.mu.Lock()
			g.asked = true
			g.mu.Unlock()
		}
		return trouble(g.k, "give back", err)
	}
	if behind {
		g.mu.Lock()
		g.asked = true // what the attempt took is given back, or it took nothing
		g.mu.Unlock()
	}
	return g.givenBack(reply, uncertain)
}

// tookIt reports whether an attempt's late reply says that the key was taken.
func tookIt(reply any, err error) bool {
	f, _ := reply.([]any)
	return err == nil && len(f) == tookReply
}

// settled notes that an attempt of unknown outcome has taken the key.
func (g *grant) settled(reply any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pending != nil {
		g.pending = nil
		g.taken(reply.([]any))
	}
}

func (g *grant) giveBack(ctx context.Context, gap time.Duration) (any, error) {
	d := g.h.dialect
	g.mu.Lock()
	took := g.server
	g.mu.Unlock()
	if gap > 0 {
		return g.h.mux.Eval(ctx, releaseScript, g.k.argL, g.k.argM, g.tokenArg, g.t.gap, polite.Millis(gap))
	}
	if !d.NeverReleases() || took.IsZero() {
		return g.h.mux.Eval(ctx, releaseScript, g.k.argL, g.k.argM, g.tokenArg, g.t.gap)
	}
	// The key means "done". What stays is what an old client would have written
	// when this grant took the key, until that stamp ends (rule 10).
	lease := max(g.h.cfg.Terms.Lease, d.Unit.Step())
	id, _ := g.head.(string)
	stamp, err := d.Stamp(took, lease, trimColon(id))
	if err == nil {
		stamp, err = d.EncodeValue(stamp)
	}
	if err != nil {
		return nil, err
	}
	end := took.Add(lease + d.Slack)
	return g.h.stamping(ctx, finishScript, finishClock,
		g.k.argL, g.k.argM, g.tokenArg, g.t.gap, stamp, end.Unix(), end.Nanosecond()/int(time.Microsecond),
		"", "")
}

func trimColon(id string) string {
	if n := len(id); n > 0 && id[n-1] == ':' {
		return id[:n-1]
	}
	return id
}

// givenBack reads a release's reply. uncertain says that the attempt's command
// may still arrive.
func (g *grant) givenBack(reply any, uncertain bool) error {
	f, _ := reply.([]any)
	g.mu.Lock()
	asked := g.asked
	g.mu.Unlock()
	switch {
	case len(f) == 1:
		return g.end(nil)
	case len(f) != 2:
		return trouble(g.k, "give back", errOddReply)
	case number(f[0]) == 0 && asked:
		return g.end(nil) // an earlier release arrived, or the grant had ended: nothing is held
	case number(f[0]) == 0 && uncertain:
		// M does not have the token, yet: the attempt's command may still
		// arrive.
		return trouble(g.k, "give back", errUncertain)
	}
	err := g.lose(f)
	var lost *LostError
	if !errors.As(err, &lost) {
		return err
	}
	return g.end(lost)
}

// end notes that for certain nothing is held any more. It returns err.
func (g *grant) end(err error) error {
	g.turn.Ended(g.h.clock.Elapsed())
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
	return err
}

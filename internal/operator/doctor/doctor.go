// SPDX-License-Identifier: Apache-2.0

// Package doctor says what is wrong with a server and its locks, and frees dead
// locks. Most programs need [Examine] and [Apply].
//
// # What it changes on the server
//
// [Examine] changes no lock. With Remember it stores its looks in keys of their
// own. [Apply] makes the changes that Examine offers, each only if the key
// still holds what was looked at.
//
// # What it cannot promise
//
// It knows only what the server shows at one moment, what an earlier look
// remembered there, and what is claimed of old clients. HAZARD: a lock that is
// called dead by a wrong claim may be held.
package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/clocks"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/operator/keys"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
	"github.com/getsetlock/getsetlock/internal/polite"
	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/lock"
)

// Config says what to examine. The zero value examines the server and every key
// whose value contains a time.
type Config struct {
	// Match is a pattern as SCAN takes it. Without a pattern, a lock cannot be
	// told from a time that another program stores, so Doctor offers no fixes.
	Match string
	DB    int
	// Dialects are the dialects that the fleet is known to speak, the likeliest
	// first.
	Dialects []dialect.Dialect
	// Lease and Greatest are the smallest and the greatest lease of any old
	// client. Greatest defaults to Lease. The lease that a dialect ships with
	// is not used in their place, since a fleet may have changed it. Without
	// Lease and Greatest, no remembered look proves a lock dead, and no stamp
	// is moved.
	Lease, Greatest time.Duration
	// Spread, Behind and Ahead are claims in the form of [dialect.Terms]: 0
	// claims nothing, and [dialect.Zero] claims zero. Spread defaults to the
	// dialect's terms or 1 s. Evidence raises it, and voids what it
	// contradicts.
	//
	// Behind counts only with a dialect in Dialects. A named dialect states
	// that the time in a value is the end of a lease. Where it is the start,
	// every lock that a client holds looks like one whose lease is over.
	Spread, Behind, Ahead time.Duration
	// Remember stores on the server, alongside each lock whose stamp is past,
	// when Doctor saw its bytes. A later call can then tell how long the bytes
	// have stayed the same. Doctor writes nothing else.
	Remember bool
	// Evidence is the result of a watch on the same server; Doctor recognizes
	// ghosts by it. May be nil.
	Evidence *census.Evidence
	Progress func(looked int64) // called after each slice of keys; may be nil
	Timeout  time.Duration      // of each reply; defaults to 2 s
	Hurry    bool               // do not pause between slices

	assumes bool // true: Spread is not claimed
	node    bool // the server is one of the cluster that ExamineCluster examines
	// Clock is this machine's clock, which Doctor compares with the server's.
	// Defaults to lock.Machine.
	Clock lock.Clock
}

// Complaint is a finding and, if there is one, its fix.
type Complaint struct {
	census.Finding
	Fix *Fix `json:"fix"` // null: a person must act
	// Wait is how long after this look the same call can offer a fix, if
	// nothing changes; null: waiting does not help, or the time is unknown.
	Wait time.Duration `json:"wait_ms" answer:"null"`
}

// Diagnosis is what an examination found.
type Diagnosis struct {
	Keys       int64 // keys looked at
	Complaints []Complaint
	// More counts the complaints about keys beyond the first 1000, which are
	// dropped.
	More int64
	// Fixes are those of all complaints, dropped ones included. There are at
	// most 100,000; when they have been applied, another call finds the rest.
	Fixes []Fix
	// Facts are what the server reports about itself, as sentences for people,
	// the most important first.
	Facts []string
}

// longestComplaint is how many bytes of a key's name are kept.
const longestComplaint = 4096

// The greatest numbers of complaints about keys, and of fixes.
const (
	mostComplaints = 1000
	mostFixes      = 100_000
)

// Examine examines a server and its locks. It changes no lock: each change that
// it proposes is in a [Fix].
//
// A dead lock is one whose holder, if honest, has ended. Its stamp is past by
// the server's clock by more than the spread, and by more than the slowest
// client's clock is behind. If that last amount is unknown, a look remembered
// on the server must have shown the same bytes longer ago than the greatest
// lease. The lock is not dead if an old client read the value during the watch
// of Evidence and did not take it over: that client found it live.
//
// If ctx ends, or the server fails during the examination, Doctor returns what
// it has found so far together with the error.
func Examine(ctx context.Context, pool *redis.Pool, cfg Config) (*Diagnosis, error) {
	cfg.fill()
	out := &Diagnosis{}
	mux, err := wire.New(pool, wire.Options{Timeout: cfg.Timeout, Setup: keys.Setup})
	if err != nil {
		return out, err
	}
	defer mux.Close()
	x := &examiner{cfg: cfg, clock: clocks.New(cfg.Clock), mux: mux, out: out, ghosts: ghostsOf(cfg.Evidence),
		live: foundLive(cfg.Evidence), past: map[string]pastStamp{}, doubt: cfg.doubt()}
	facts, err := askServer(ctx, mux, pool, cfg.Match, x.clock)
	if err == nil {
		x.run, facts.node = facts.info["run_id"], cfg.node
		for _, f := range facts.judge() {
			out.Complaints = append(out.Complaints, Complaint{Finding: f})
		}
		out.Facts = facts.words()
		err = x.keys(ctx)
	}
	if ended := context.Cause(ctx); ended != nil {
		err = ended
	}
	slices.SortStableFunc(out.Complaints, func(a, b Complaint) int { return a.Compare(b.Finding) })
	return out, err
}

func (c *Config) fill() {
	_, claimed := dialect.Claimed(c.Spread)
	c.assumes = !claimed
	c.Spread = c.spread()
}

// greatest returns the greatest lease; 0: unknown.
func (c *Config) greatest() time.Duration { return max(c.Lease, c.Greatest) }

// spread returns the upper bound of how far the clocks are apart, as far as it
// is known. What Evidence saw is a lower bound: it raises what is claimed or
// assumed and never replaces it.
func (c *Config) spread() time.Duration {
	spread, claimed := dialect.Claimed(c.Spread)
	if !claimed {
		spread = c.assumed()
	}
	if c.Evidence != nil {
		spread = max(spread, c.Evidence.Spread.Apart)
	}
	return spread
}

// assumed returns the spread to use if nothing is known about it.
func (c *Config) assumed() time.Duration {
	if len(c.Dialects) > 0 {
		terms, err := c.Dialects[0].Terms(dialect.Terms{Lease: c.Lease})
		if spread, _ := dialect.Claimed(terms.Spread); err == nil && spread > 0 {
			return spread
		}
	}
	return time.Second
}

// assumed returns a remark if d is the assumed spread, and nothing otherwise.
func (x *examiner) assumed(d time.Duration) string {
	if x.cfg.assumes && d == x.cfg.Spread {
		return " (assumed)"
	}
	return ""
}

// all reports whether no pattern says which keys are locks.
func (c *Config) all() bool { return c.Match == "" || c.Match == "*" }

// examiner looks at keys and collects complaints.
type examiner struct {
	cfg    Config
	clock  clocks.Clock
	mux    *wire.Mux
	out    *Diagnosis
	found  []Complaint             // those about the keys of this slice
	ghosts map[string]string       // values that no client holds, by key
	live   map[string]census.Found // values that clients read and did not take over, by key
	past   map[string]pastStamp
	doubt  string // why a claimed Behind does not count; empty: nothing contradicts it
	listed int    // complaints about keys in out
	run    string // the server's run id; empty if unknown
	denied int64  // keys that this user may not read
}

// ghostsOf returns, by key, the values that a losing GETSET left behind during
// the watch, if no later command changed the key. If a client of another
// dialect would have won with that GETSET, the value is no ghost: its writer
// may hold the lock.
func ghostsOf(e *census.Evidence) map[string]string {
	out := map[string]string{}
	if e == nil {
		return out
	}
	for _, k := range e.Keys {
		if n := len(k.Timeline); n > 0 && k.Timeline[n-1].What == census.ActGhost &&
			!k.Timeline[n-1].Perhaps {
			out[k.Key] = k.Timeline[n-1].Value
		}
	}
	return out
}

func (x *examiner) keys(ctx context.Context) error {
	r := &keys.Reader{Mux: x.mux, Scope: scope.Matching(x.cfg.Match).In(x.cfg.DB), Types: true,
		Clock: x.clock, Pauses: !x.cfg.Hurry, Node: x.cfg.node}
	err := r.Each(ctx, x.look, func() error {
		if x.cfg.Progress != nil {
			x.cfg.Progress(r.Looks)
		}
		return x.judgeSlice(ctx)
	})
	x.out.Keys = r.Looks
	if again := x.judgeSlice(ctx); err == nil {
		err = again
	}
	// Deletions come first: they need no clock, so that each is one command.
	slices.SortFunc(x.out.Fixes, func(a, b Fix) int {
		return cmp.Or(strings.Compare(string(a.Do), string(b.Do)), strings.Compare(a.Key, b.Key))
	})
	if f := keys.DeniedFinding(x.denied, x.out.Keys); x.denied > 0 {
		f.DB = x.cfg.DB
		x.out.Complaints = append(x.out.Complaints, Complaint{Finding: f})
	}
	return err
}

// judgeSlice completes the complaints about the keys of a slice. What is
// listed is bounded, and fixes are not bounded by that: the keys of one scan
// come in the same order at each call, so that those at its end would never be
// freed.
func (x *examiner) judgeSlice(ctx context.Context) error {
	err := x.leaveOurs(ctx)
	if again := x.judgePast(ctx); err == nil {
		err = again
	}
	for _, c := range x.found {
		if c.Fix != nil && len(x.out.Fixes) < mostFixes {
			x.out.Fixes = append(x.out.Fixes, *c.Fix)
		}
		if x.listed == mostComplaints {
			x.out.More++
			continue
		}
		x.listed++
		x.out.Complaints = append(x.out.Complaints, c)
	}
	x.found, x.past = nil, map[string]pastStamp{}
	return err
}

// complain adds a complaint about a key.
func (x *examiner) complain(p *keys.Key, s census.Severity, kind, what, advice string, fix *Fix) {
	key := p.Name
	if len(key) > longestComplaint {
		// No lock has such a name, and a thousand such names would take too
		// much memory.
		key, fix, advice = key[:longestComplaint], nil,
			"its name is too long for any lock: find out who writes it"
	}
	x.found = append(x.found, Complaint{
		Finding: census.Finding{Severity: s, Kind: kind, DB: x.cfg.DB, Key: key, What: what, Advice: advice},
		Fix:     fix,
	})
}

// look examines one key.
func (x *examiner) look(p *keys.Key) {
	switch role := reading.RoleOf(p.Name, p.Value); {
	case p.Denied != nil:
		x.denied++
	case role == reading.Left:
		x.lookAtLeft(p)
	case role != reading.Lock:
	case p.Type == "string" && p.Whole():
		x.lookAtValue(p)
	case x.cfg.all(): // it need not be a lock
	case p.Type != "string":
		x.complain(p, census.SeverityWarning, "type",
			"is a "+p.Type+": no lock of this kind, and an old client's GET on it fails",
			"find out which program owns it; give it, or the locks, other names", nil)
	default:
		x.complain(p, census.SeverityWarning, "large",
			fmt.Sprintf("has a value of %d bytes, which is too long for a lock", p.Size),
			"find out who writes it", nil)
	}
}

// lookAtLeft examines an M that a release left to old clients. It needs no
// action, but people want to know why no waiter holds the lock.
func (x *examiner) lookAtLeft(p *keys.Key) {
	x.complain(p, census.SeverityNote, "left",
		fmt.Sprintf("nobody holds the lock; left to old clients for %d ms", p.TTL.Milliseconds()),
		"none is needed: getsetlock clients wait until then, so that old clients get a turn", nil)
}

// timeless are the forms of values that never expire by themselves.
var timeless = []dialect.Look{dialect.LookConstant, dialect.LookToken, dialect.LookUUID, dialect.LookForever}

// lookAtValue examines a key by the form of its value.
func (x *examiner) lookAtValue(p *keys.Key) {
	form, names, _ := reading.ReadForm(p.Value, p.Now, x.cfg.Dialects)
	switch {
	case form.Look == dialect.LookStamp &&
		!dialect.Ambiguous(dialect.Identify(p.Value, p.Now, dialect.Hints{})):
		x.lookAtStamp(p, form, names)
	case x.cfg.all(): // it need not be a lock
	case form.Unreadable():
		x.complain(p, census.SeverityWarning, "unreadable",
			fmt.Sprintf("holds %s, which no dialect writes%s", reading.ShortQuote(p.Value), x.harm(p)),
			x.unlockAdvice(p), nil)
	case !p.HasTTL && slices.Contains(timeless, form.Look):
		x.complain(p, census.SeverityWarning, "no_ttl",
			fmt.Sprintf("holds %s with no time in it and no TTL: nothing frees it if its holder has crashed",
				reading.ShortQuote(p.Value)),
			x.unlockAdvice(p), nil)
	}
}

// harm says what clients of the first named dialect do with a value that they
// cannot read.
func (x *examiner) harm(p *keys.Key) string {
	if len(x.cfg.Dialects) == 0 {
		return ""
	}
	d := x.cfg.Dialects[0]
	return "; a client of " + d.Name + " " + reading.ConductOf(d, p.Value, p.Now).Says()
}

func (x *examiner) unlockAdvice(p *keys.Key) string {
	return fmt.Sprintf("if its holder is dead: getsetlock unlock %s --value V", strconv.Quote(reading.CutKey(p.Name)))
}

// longestLeft is more than the length of what a release leaves on M for old
// clients.
const longestLeft = 63

// leaveOurs drops the complaints about locks whose M carries a getsetlock
// token: for those, getsetlock's rules decide.
func (x *examiner) leaveOurs(ctx context.Context) error {
	var cmds []wire.Command
	for _, c := range x.found {
		m := legacy.MarkKey(c.Key)
		cmds = append(cmds, wire.Cmd("EXISTS", m), wire.Cmd("GETRANGE", m, 0, longestLeft))
	}
	if len(cmds) == 0 {
		return nil
	}
	var kept []Complaint
	var failed error
	replies := x.mux.Batch(ctx, cmds)
	for i := range x.found {
		n, err := redis.Int(replies[2*i].Value, replies[2*i].Err)
		if err != nil && !wire.IsNoPerm(err) && !wire.IsRedirect(err) {
			failed = fmt.Errorf("looking for keys of getsetlock clients: %w", err)
		}
		value, _ := redis.String(replies[2*i+1].Value, replies[2*i+1].Err)
		_, left := polite.Token(value) // no client holds the key by this value
		if c := x.found[i]; n == 0 || left {
			if err != nil {
				c.Fix = nil // a getsetlock client could hold it
				if p, ok := x.past[c.Key]; ok {
					p.denied = true
					x.past[c.Key] = p
				}
			}
			kept = append(kept, c)
		}
	}
	x.found = kept
	return failed
}

// roughly formats a duration for people.
func roughly(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	case d >= time.Minute:
		return d.Round(time.Second).String()
	}
	return d.Round(time.Millisecond).String()
}

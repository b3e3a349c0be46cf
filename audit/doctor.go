package audit

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/lock"
)

// DoctorConfig says what to examine. The zero value examines the server and every key that carries
// a time.
type DoctorConfig struct {
	// Match is a pattern as SCAN takes it. Without one there is no telling a lock from a time that
	// another program keeps, so nothing is offered to be fixed.
	Match string
	DB    int
	// Dialects are those that the fleet speaks, as far as it is known, the first the likeliest.
	Dialects []dialect.Dialect
	// Lease is the longest that the fleet adds to its clocks. Defaults to that of Dialects[0], and is
	// unknown without one.
	Lease time.Duration
	// Spread is how far the fleet's clocks are apart, measured or claimed. Defaults to what the dialect's
	// terms assume, or 1 s.
	Spread time.Duration
	// Evidence of a watch on the same server, by which ghosts are known. May be nil.
	Evidence *Evidence
	Progress func(looked int64) // told after each slice of keys; may be nil
	Timeout  time.Duration      // of each reply; defaults to 2 s
	Hurry    bool               // leaves no rests between slices
	// Clock is this machine's, which is compared with the server's. Defaults to lock.Machine.
	Clock lock.Clock
}

// Complaint is a finding and what could be done about it here.
type Complaint struct {
	Finding
	Fix *Fix // nil where a person must act
}

// Diagnosis is what an examination found.
type Diagnosis struct {
	Keys       int64 // looked at
	Complaints []Complaint
	// More counts complaints of the same kinds beyond MostComplaints.
	More int64
	// Facts are what the server says of itself, for people, in the order in which they matter.
	Facts []string
}

// longestComplaint is how much of a key's name is remembered.
const longestComplaint = 4096

// MostComplaints bounds the complaints about keys.
const MostComplaints = 1000

// Doctor examines a server and its locks. It changes nothing: what it would change is in the fixes.
//
// A dead lock is one whose stamp is past by more than the spread of the clocks, by the server's clock: every
// client takes it for expired, and none has come. That its holder works on is possible, if it has overrun its
// lease; then it had lost the lock anyway.
//
// When ctx ends, or the server fails in mid-work, it returns what it has found so far beside the error.
func Doctor(ctx context.Context, pool *redis.Pool, cfg DoctorConfig) (*Diagnosis, error) {
	cfg.fill()
	out := &Diagnosis{}
	mux, err := wire.New(pool, wire.Options{Timeout: cfg.Timeout, Setup: setup})
	if err != nil {
		return out, err
	}
	defer mux.Close()
	x := &examiner{cfg: cfg, mux: mux, out: out, ghosts: ghostsOf(cfg.Evidence)}
	facts, err := askServer(ctx, mux, pool, cfg)
	if err == nil {
		for _, f := range facts.judge() {
			out.Complaints = append(out.Complaints, Complaint{Finding: f})
		}
		out.Facts = facts.words()
		err = x.keys(ctx)
	}
	if ended := context.Cause(ctx); ended != nil {
		err = ended
	}
	slices.SortStableFunc(out.Complaints, func(a, b Complaint) int { return compareFindings(a.Finding, b.Finding) })
	return out, err
}

func (c *DoctorConfig) fill() {
	if c.Clock == nil {
		c.Clock = lock.Machine
	}
	var d dialect.Dialect
	if len(c.Dialects) > 0 {
		d = c.Dialects[0]
	}
	if c.Lease == 0 {
		c.Lease = d.Lease
	}
	if c.Spread == 0 {
		c.Spread = time.Second
		if terms, err := d.Terms(dialect.Terms{Lease: c.Lease}); err == nil && terms.Spread > 0 {
			c.Spread = terms.Spread
		}
	}
}

// all reports that no pattern says which keys are locks.
func (c *DoctorConfig) all() bool { return c.Match == "" || c.Match == "*" }

// examiner looks at keys.
type examiner struct {
	cfg    DoctorConfig
	mux    *wire.Mux
	out    *Diagnosis
	found  []Complaint
	ghosts map[string]string // values that nobody holds, by key
	denied int64             // keys that this user may not read
}

// ghostsOf are the values that a watch saw left behind by a GETSET that won nothing, where nothing has come
// since.
func ghostsOf(e *Evidence) map[string]string {
	out := map[string]string{}
	if e == nil {
		return out
	}
	for _, k := range e.Keys {
		if n := len(k.Timeline); n > 0 && k.Timeline[n-1].What == ActGhost {
			out[k.Key] = k.Timeline[n-1].Value
		}
	}
	return out
}

func (x *examiner) keys(ctx context.Context) error {
	progress := x.cfg.Progress
	if progress == nil {
		progress = func(int64) {}
	}
	r := newProbeReader(x.mux, x.cfg.Clock, x.cfg.Hurry)
	r.scope = scope.Matching(x.cfg.Match).In(x.cfg.DB)
	err := r.each(ctx, x.look, progress)
	x.out.Keys = r.looks
	if again := x.leaveOurs(ctx); err == nil {
		err = again
	}
	x.out.Complaints = append(x.out.Complaints, x.found...)
	if f := deniedFinding(x.denied, x.out.Keys); x.denied > 0 {
		f.DB = x.cfg.DB
		x.out.Complaints = append(x.out.Complaints, Complaint{Finding: f})
	}
	return err
}

// deniedFinding says that some of the keys may not be read by this user. Where that is all of them, nothing
// good can be said of the rest.
func deniedFinding(denied, keys int64) Finding {
	f := Finding{
		Severity: SeverityNote, Kind: "denied",
		What:   keysWord(denied) + " may not be read by this user, and were left out",
		Advice: "let its ACL read them (GETRANGE, PTTL, TYPE, STRLEN), or narrow --match",
	}
	if denied == keys {
		f.Severity, f.What = SeverityWarning, f.What+": that is all there are, so nothing is known of them"
	}
	return f
}

// complain keeps a complaint about a key.
func (x *examiner) complain(p *probedKey, s Severity, kind, what, advice string, fix *Fix) {
	if len(x.found) == MostComplaints {
		x.out.More++
		return
	}
	key := p.key
	if len(key) > longestComplaint {
		// No lock is named so, and a thousand of them would not fit.
		key, fix, advice = key[:longestComplaint], nil, "its name is too long for any lock: find out who writes it"
	}
	x.found = append(x.found, Complaint{
		Finding: Finding{Severity: s, Kind: kind, DB: x.cfg.DB, Key: key, What: what, Advice: advice},
		Fix:     fix,
	})
}

// look judges one key.
func (x *examiner) look(p *probedKey) {
	if p.denied {
		x.denied++
		return
	}
	if isMark(p) || strings.HasPrefix(p.key, "gsl:") {
		return
	}
	if p.kind != "string" {
		if !x.cfg.all() {
			x.complain(p, SeverityWarning, "type", "is a "+p.kind+": no lock of this kind, and an old client's GET on it fails",
				"find out whose it is; give it, or the locks, other names", nil)
		}
		return
	}
	if !p.whole() {
		if !x.cfg.all() {
			x.complain(p, SeverityWarning, "large", fmt.Sprintf("has a value of %d bytes, which is no lock's", p.size), "find out who writes it", nil)
		}
		return
	}
	form, names, _ := ReadForm(p.value, p.now, x.cfg.Dialects)
	switch {
	case form.Look == dialect.LookStamp && !dialect.Ambiguous(dialect.Identify(p.value, p.now, dialect.Hints{})):
		x.lookAtStamp(p, form, names)
	case x.cfg.all():
	case form.unreadable():
		x.complain(p, SeverityWarning, "unreadable", fmt.Sprintf("holds %s, which no dialect writes%s", shortQuote(p.value), x.harm(p)),
			x.unlockAdvice(p), nil)
	case !p.hasTTL && (form.Look == dialect.LookConstant || form.Look == dialect.LookToken || form.Look == dialect.LookUUID || form.Look == dialect.LookForever):
		x.complain(p, SeverityWarning, "no_ttl", fmt.Sprintf("holds %s with no time in it and no TTL: nothing frees it if its holder has crashed", shortQuote(p.value)),
			x.unlockAdvice(p), nil)
	}
}

// harm is what clients of the named dialect do with a value that they cannot read.
func (x *examiner) harm(p *probedKey) string {
	if len(x.cfg.Dialects) == 0 {
		return ""
	}
	d := x.cfg.Dialects[0]
	switch conduct(d, p.value, p.now) {
	case ConductTakes:
		return "; a client of " + d.Name + " takes it for expired"
	case ConductThrows:
		return "; a client of " + d.Name + " throws out of its acquire"
	case ConductClobbers:
		return "; a client of " + d.Name + " overwrites it and never wins"
	}
	return "; a client of " + d.Name + " waits for ever"
}

func (x *examiner) unlockAdvice(p *probedKey) string {
	return fmt.Sprintf("if its holder is dead: getsetlock unlock %s --value V", strconv.Quote(cutKey(p.key)))
}

// lookAtStamp judges a lock by its time.
func (x *examiner) lookAtStamp(p *probedKey, form Form, names []string) {
	d, stamp, ok := x.read(p, form, names)
	if !ok || d.NeverReleases() {
		return // there the key means "done", and is left to run out
	}
	ahead := stamp.Expiry.Sub(p.now)
	var fix *Fix
	if x.ghosts[p.key] == p.value {
		x.complain(p, SeverityWarning, "ghost", fmt.Sprintf("is a ghost: a late GETSET left the value on a free key, nobody holds it, and everybody waits for it%s", untilWords(ahead)),
			"delete it by --fix, or wait", x.offer(p, FixDelete, d, stamp))
		return
	}
	switch {
	case ahead < -x.cfg.Spread:
		if p.hasTTL {
			return // the server frees it
		}
		fix = x.offer(p, FixDelete, d, stamp)
		x.complain(p, SeverityWarning, "dead", fmt.Sprintf("ended %s ago by the server's clock and still stands: its holder crashed, or a ghost is left; an old client that asks takes it over, one that knows only SET NX waits for ever", roughly(-ahead)),
			"nothing, if old clients alone use it; else delete it by --fix", fix)
	case ahead >= 0 && ahead <= x.cfg.Spread:
		x.complain(p, SeverityWarning, "stolen_soon", fmt.Sprintf("ends in %s by the server's clock, and the clocks are up to %s apart: the client furthest ahead takes it for expired already", roughly(ahead), roughly(x.cfg.Spread)),
			"a longer lease or shorter jobs; getsetlock skew says by how much", nil)
	case tooFar(ahead, x.cfg.Lease):
		what := fmt.Sprintf("ends only in %s: written by a clock that is far ahead, with a much longer lease, or forged; if the holder has crashed it blocks until then", roughly(ahead))
		advice := "give --lease, and --fix can move it to end one lease from now"
		if x.cfg.Lease > 0 {
			fix, advice = x.offer(p, FixShorten, d, stamp), "move it to end one lease from now by --fix: its holder, if it lives, keeps all of a lease"
		}
		x.complain(p, SeverityWarning, "far", what, advice, fix)
	}
}

func untilWords(ahead time.Duration) string {
	if ahead <= 0 {
		return ""
	}
	return " for another " + roughly(ahead)
}

// read decodes a stamp by the likeliest dialect.
func (x *examiner) read(p *probedKey, form Form, names []string) (dialect.Dialect, dialect.Stamp, bool) {
	for _, name := range names {
		d, err := dialect.Lookup(name)
		for _, own := range x.cfg.Dialects {
			if own.Name == name {
				d, err = own, nil
			}
		}
		if err != nil {
			continue
		}
		d.ValueEncoding = form.Encoding
		if s, err := d.Decode(p.value, p.now); err == nil {
			return d, s, true
		}
	}
	return dialect.Dialect{}, dialect.Stamp{}, false
}

// leaveOurs drops what was said of locks beside which a token of ours stands: their rules are ours.
func (x *examiner) leaveOurs(ctx context.Context) error {
	var cmds []wire.Command
	for _, c := range x.found {
		cmds = append(cmds, wire.Cmd("EXISTS", legacy.MarkKey(c.Key)))
	}
	if len(cmds) == 0 {
		return nil
	}
	var kept []Complaint
	var failed error
	for i, reply := range x.mux.Batch(ctx, cmds) {
		n, err := redis.Int(reply.Value, reply.Err)
		if err != nil && !wire.IsNoPerm(err) {
			failed = fmt.Errorf("looking for keys of ours: %w", err)
		}
		if c := x.found[i]; n == 0 {
			if err != nil {
				c.Fix = nil // it could be ours
			}
			kept = append(kept, c)
		}
	}
	x.found = kept
	return failed
}

// roughly is a duration for people.
func roughly(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	case d >= time.Minute:
		return d.Round(time.Second).String()
	}
	return d.Round(time.Millisecond).String()
}

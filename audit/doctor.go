package audit

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/audit/census"
	"github.com/getsetlock/getsetlock/audit/internal/reading"
	"github.com/getsetlock/getsetlock/internal/polite"
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
	// Lease and Greatest are the smallest and the greatest lease of any old client.
	// Greatest defaults to Lease. What a dialect ships is no lease that a fleet must
	// have: without either of the two nothing rests on an old look, and no stamp is
	// moved.
	Lease, Greatest time.Duration
	// Spread, Behind and Ahead are claims, in the form of [dialect.Terms]: 0 claims
	// nothing, [dialect.Zero] claims zero. Spread defaults to what Evidence
	// guarantees, else to the dialect's terms or 1 s, and to no less than
	// Evidence shows. Behind and Ahead default to what Evidence measured on the same server,
	// else they are unknown.
	Spread, Behind, Ahead time.Duration
	// Remember writes down, alongside each lock whose stamp is past, when its bytes
	// were seen, so that a later call can tell how long they have stood there. It is
	// all that Doctor ever writes.
	Remember bool
	// Evidence of a watch on the same server, by which ghosts are known. May be nil.
	Evidence *census.Evidence
	Progress func(looked int64) // told after each slice of keys; may be nil
	Timeout  time.Duration      // of each reply; defaults to 2 s
	Hurry    bool               // leaves no rests between slices

	assumes bool // Spread is neither claimed nor measured
	// Clock is this machine's, which is compared with the server's. Defaults to lock.Machine.
	Clock lock.Clock
}

// Complaint is a finding and what could be done about it here.
type Complaint struct {
	census.Finding
	Fix *Fix // nil where a person must act
	// Wait is how long after this look the same call can have a fix, if nothing
	// changes; 0 where waiting does not help, or that is unknown.
	Wait time.Duration
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

// mostComplaints bounds the complaints about keys.
const mostComplaints = 1000

// Doctor examines a server and its locks. It changes no lock: what it would
// change is in the fixes.
//
// A dead lock is one whose holder, if honest, has ended. Its stamp is past by the
// server's clock, by more than the spread and by more than the slowest client's
// clock is behind. Where the latter is unknown, a look remembered on the server
// must have shown the same bytes more than the greatest lease ago. A client that
// read the value during the watch and let it stand found it live, and then the
// lock is not dead.
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
	x := &examiner{cfg: cfg, mux: mux, out: out, ghosts: ghostsOf(cfg.Evidence), live: foundLive(cfg.Evidence), past: map[string]pastStamp{}}
	facts, err := askServer(ctx, mux, pool, cfg)
	if err == nil {
		x.run = facts.info["run_id"]
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

func (c *DoctorConfig) fill() {
	if c.Clock == nil {
		c.Clock = lock.Machine
	}
	_, claimed := dialect.Claimed(c.Spread)
	c.assumes = !claimed && (c.Evidence == nil || !c.Evidence.Spread.Sound())
	c.Spread = c.spread()
}

// greatest is the greatest lease, 0 where none is known.
func (c *DoctorConfig) greatest() time.Duration { return max(c.Lease, c.Greatest) }

// spread is how far the clocks are apart at most, as far as that is known. What
// was seen is a lower bound: it raises what is assumed and never replaces it, also
// where it goes by a guessed lease or a usual gap.
func (c *DoctorConfig) spread() time.Duration {
	claim, claimed := dialect.Claimed(c.Spread)
	if e := c.Evidence; e != nil {
		switch {
		case claimed:
			return max(claim, e.Spread.Apart)
		case e.Spread.Sound():
			return e.Spread.Guaranteed
		}
		return max(c.assumed(), e.Spread.Apart)
	}
	if claimed {
		return claim
	}
	return c.assumed()
}

// assumed is the spread where nothing is known of it.
func (c *DoctorConfig) assumed() time.Duration {
	if len(c.Dialects) > 0 {
		terms, err := c.Dialects[0].Terms(dialect.Terms{Lease: c.Lease})
		if spread, _ := dialect.Claimed(terms.Spread); err == nil && spread > 0 {
			return spread
		}
	}
	return time.Second
}

// assumed marks a time that is the assumed spread.
func (x *examiner) assumed(d time.Duration) string {
	if x.cfg.assumes && d == x.cfg.Spread {
		return " (assumed)"
	}
	return ""
}

// all reports that no pattern says which keys are locks.
func (c *DoctorConfig) all() bool { return c.Match == "" || c.Match == "*" }

// examiner looks at keys.
type examiner struct {
	cfg    DoctorConfig
	mux    *wire.Mux
	out    *Diagnosis
	found  []Complaint
	ghosts map[string]string       // values that nobody holds, by key
	live   map[string]census.Found // values that clients read and let stand, by key
	past   map[string]pastStamp
	run    string // the server's run id; empty if unknown
	denied int64  // keys that this user may not read
}

// ghostsOf are the values that a watch saw left behind by a GETSET that won nothing, where nothing has come
// since. A GETSET by which a client of another dialect would have won left no ghost: its writer may hold.
func ghostsOf(e *census.Evidence) map[string]string {
	out := map[string]string{}
	if e == nil {
		return out
	}
	for _, k := range e.Keys {
		if n := len(k.Timeline); n > 0 && k.Timeline[n-1].What == census.ActGhost && !k.Timeline[n-1].Perhaps {
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
	if again := x.judgePast(ctx); err == nil {
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
func deniedFinding(denied, keys int64) census.Finding {
	f := census.Finding{
		Severity: census.SeverityNote, Kind: "denied",
		What:   keysWord(denied) + " may not be read by this user, and were left out",
		Advice: "let its ACL read them (GETRANGE, PTTL, TYPE, STRLEN), or narrow --match",
	}
	if denied == keys {
		f.Severity, f.What = census.SeverityWarning, f.What+": that is all there are, so nothing is known of them"
	}
	return f
}

// complain keeps a complaint about a key.
func (x *examiner) complain(p *probedKey, s census.Severity, kind, what, advice string, fix *Fix) {
	if len(x.found) == mostComplaints {
		x.out.More++
		return
	}
	key := p.key
	if len(key) > longestComplaint {
		// No lock is named so, and a thousand of them would not fit.
		key, fix, advice = key[:longestComplaint], nil, "its name is too long for any lock: find out who writes it"
	}
	x.found = append(x.found, Complaint{
		Finding: census.Finding{Severity: s, Kind: kind, DB: x.cfg.DB, Key: key, What: what, Advice: advice},
		Fix:     fix,
	})
}

// look judges one key.
func (x *examiner) look(p *probedKey) {
	switch {
	case p.denied:
		x.denied++
	case isMark(p):
		x.lookAtMark(p)
	case isLookAtOurs(p), strings.HasPrefix(p.key, "gsl:"):
	case p.kind == "string" && p.whole():
		x.lookAtValue(p)
	case x.cfg.all(): // it need not be a lock
	case p.kind != "string":
		x.complain(p, census.SeverityWarning, "type", "is a "+p.kind+": no lock of this kind, and an old client's GET on it fails",
			"find out whose it is; give it, or the locks, other names", nil)
	default:
		x.complain(p, census.SeverityWarning, "large", fmt.Sprintf("has a value of %d bytes, which is no lock's", p.size), "find out who writes it", nil)
	}
}

// lookAtMark looks at a key of ours beside an old one. It needs nobody's help, but
// whoever waits for the lock wants to know why nobody has it.
func (x *examiner) lookAtMark(p *probedKey) {
	if _, left := polite.Token(p.value); left {
		x.complain(p, census.SeverityNote, "left", fmt.Sprintf("nobody holds the lock; left to old clients for %d ms", p.ttl.Milliseconds()),
			"none is needed: getsetlock clients wait until then, so that old clients get a turn", nil)
	}
}

// timeless are the forms of locks whose values never end by themselves.
var timeless = []dialect.Look{dialect.LookConstant, dialect.LookToken, dialect.LookUUID, dialect.LookForever}

// lookAtValue judges a key by the form of its value.
func (x *examiner) lookAtValue(p *probedKey) {
	form, names, _ := readForm(p.value, p.now, x.cfg.Dialects)
	switch {
	case form.Look == dialect.LookStamp && !dialect.Ambiguous(dialect.Identify(p.value, p.now, dialect.Hints{})):
		x.lookAtStamp(p, form, names)
	case x.cfg.all(): // it need not be a lock
	case form.unreadable():
		x.complain(p, census.SeverityWarning, "unreadable", fmt.Sprintf("holds %s, which no dialect writes%s", reading.ShortQuote(p.value), x.harm(p)),
			x.unlockAdvice(p), nil)
	case !p.hasTTL && slices.Contains(timeless, form.Look):
		x.complain(p, census.SeverityWarning, "no_ttl", fmt.Sprintf("holds %s with no time in it and no TTL: nothing frees it if its holder has crashed", reading.ShortQuote(p.value)),
			x.unlockAdvice(p), nil)
	}
}

// harm is what clients of the named dialect do with a value that they cannot read.
func (x *examiner) harm(p *probedKey) string {
	if len(x.cfg.Dialects) == 0 {
		return ""
	}
	d := x.cfg.Dialects[0]
	switch conductOf(d, p.value, p.now) {
	case conductTakes:
		return "; a client of " + d.Name + " takes it for expired"
	case conductThrows:
		return "; a client of " + d.Name + " throws out of its acquire"
	case conductClobbers:
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
	left := stamp.Expiry.Sub(p.now)
	fits := reading.Fitting(p.value, p.now, x.cfg.Dialects)
	if p.ours(x.cfg.Dialects) {
		return // a getsetlock client's: its TTL frees it
	}
	ahead, _ := x.aheadOf()
	switch soon := max(x.cfg.Spread, ahead); {
	case left < 0:
		if !p.hasTTL { // else the server frees it
			x.lookAtPast(p, -left, fits)
		}
	case x.ghosts[p.key] == p.value:
		x.complain(p, census.SeverityWarning, "ghost", fmt.Sprintf("is a ghost: a late GETSET left the value on a free key, nobody holds it, and everybody waits for it%s", untilWords(left)),
			"wait; once its stamp is past it is judged as any other", nil)
	case left <= soon:
		x.complain(p, census.SeverityWarning, "stolen_soon", fmt.Sprintf("ends in %s by the server's clock, and a clock may be %s ahead%s: the client furthest ahead takes it for expired already", roughly(left), roughly(soon), x.assumed(soon)),
			"a longer lease or shorter jobs; getsetlock skew says by how much", nil)
	case !p.hasTTL && reading.PerhapsOurs(left, x.cfg.greatest(), ahead):
		x.complain(p, census.SeverityWarning, "perhaps_ours", fmt.Sprintf("holds %s, %s", reading.ShortQuote(p.value), reading.PerhapsOursIs), reading.PerhapsOursAdvice, nil)
	case tooFar(left-ahead, x.leaseOrShipped(d)):
		x.complainFar(p, left, x.shorten(p, d, stamp, fits))
	}
}

// leaseOrShipped is the greatest lease, or what the dialect ships, where it was
// named: good enough to say that a stamp is far, and not to move it.
func (x *examiner) leaseOrShipped(d dialect.Dialect) time.Duration {
	if greatest := x.cfg.greatest(); greatest > 0 || len(x.cfg.Dialects) == 0 {
		return greatest
	}
	return d.Lease
}

// complainFar names a stamp that lies further ahead than a lease explains.
func (x *examiner) complainFar(p *probedKey, left time.Duration, fix *Fix) {
	what := fmt.Sprintf("ends only in %s: written by a clock that is far ahead, with a much longer lease, or forged; if the holder has crashed it blocks until then", roughly(left))
	advice := "its holder may live, by a clock that is far ahead: say how far the fastest clock is ahead of the server's (--ahead) and the greatest lease (--lease or --greatest), and --fix can move it"
	switch _, known := x.aheadOf(); {
	case fix != nil:
		advice = fmt.Sprintf("--fix moves it to end in %s: its holder, if it lives, keeps a whole lease by every clock", roughly(fix.lease))
	case known && x.cfg.greatest() > 0:
		advice = "a client whose clock is as far ahead as it may be could have written it: wait"
	}
	x.complain(p, census.SeverityWarning, "far", what, advice, fix)
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

// longestLeft is more than what a release leaves on M for old clients.
const longestLeft = 63

// leaveOurs drops what was said of locks beside which a token of ours stands: their rules are ours.
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
		if err != nil && !wire.IsNoPerm(err) {
			failed = fmt.Errorf("looking for keys of ours: %w", err)
		}
		value, _ := redis.String(replies[2*i+1].Value, replies[2*i+1].Err)
		_, left := polite.Token(value) // by which nobody holds the key
		if c := x.found[i]; n == 0 || left {
			if err != nil {
				c.Fix = nil // it could be ours
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

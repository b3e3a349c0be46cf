package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/audit/census"
	"github.com/getsetlock/getsetlock/audit/internal/reading"
	"github.com/getsetlock/getsetlock/internal/look"
	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/lock"
)

// ProbeConfig says what to look at. The zero value looks at every key.
type ProbeConfig struct {
	// Match is a pattern as SCAN takes it. Without one every key is looked at, and only values that carry
	// a time are taken for locks: any short text could be one.
	Match string
	DB    int // the database that the pool selects, for findings
	// Dialects are those that the fleet speaks, as far as it is known, the first the likeliest. They
	// may be one's own.
	Dialects []dialect.Dialect
	// Lease is what the fleet adds to its clocks. Defaults to the dialect's own where Dialects names one.
	Lease time.Duration
	// Progress is told, after each slice, how many keys have been looked at. May be nil.
	Progress func(looked int64)
	Timeout  time.Duration // of each reply; defaults to 2 s
	// Hurry leaves no rests between slices.
	Hurry bool
	// Clock measures what it costs, and the rests. Defaults to lock.Machine.
	Clock lock.Clock
}

// ProbeResult is what a probe found.
type ProbeResult struct {
	Keys     int64 // looked at; one that SCAN returns twice counts twice
	Denied   int64 // of them, not to be read by this user
	Prefixes []PrefixResult
	// Forgotten counts keys under prefixes beyond MostPrefixes. Only their number is known.
	Forgotten int64
	// Refused is why not all keys could be gone through, where the server refuses that to this user; the rest says what was
	// found until then.
	Refused  string
	Findings []census.Finding // sorted
	Cost     ProbeCost        // zero in a replay

	tally *probeTally // what a record has of it
}

// PrefixResult is what keys of one prefix hold.
type PrefixResult struct {
	Prefix string // all up to the last of : / . | #
	Keys   int64
	Forms  []FormCount      // the most frequent first
	Types  map[string]int64 // of what is no string; "Redisson hash" is told from a hash
}

// FormCount is how often a form was found.
type FormCount struct {
	Form
	Dialects []string // that write it, the likeliest first
	Also     []Form   // what the same values could be instead
	Keys     int64
	NoTTL    int64
	Expired  int64    // stamps that are past by the server's clock
	Far      int64    // stamps further ahead than a lease reaches
	Examples []string // keys, at most three
	Value    string   // of the first example
}

// ProbeCost is what a probe asked of the server.
type ProbeCost struct {
	Elapsed time.Duration
	Work    time.Duration // of it, waiting for replies: the rest was rest
	Slowest time.Duration // the slowest slice, both of its messages
}

// mostPrefixes bounds what a probe remembers.
const mostPrefixes = 1000

// Probe goes through the keys of a server in slices, never by KEYS, and says how they are written. It
// reads at most the first kilobyte of a value, and its memory does not grow with the number of keys. It
// changes nothing.
//
// When ctx ends, or the server fails in mid-work, it returns what it has found so far beside the error.
func Probe(ctx context.Context, pool *redis.Pool, cfg ProbeConfig) (*ProbeResult, error) {
	tally := newProbeTally(cfg)
	mux, err := wire.New(pool, wire.Options{Timeout: cfg.Timeout, Setup: setup})
	if err != nil {
		return tally.result(), err
	}
	defer mux.Close()
	r := newProbeReader(mux, cfg.Clock, cfg.Hurry)
	begun := r.elapsed()
	tally.replica = isReplica(ctx, mux)
	err = r.all(ctx, cfg, tally)
	if err == nil {
		err = tally.compareNames(ctx, mux)
	}
	if ended := context.Cause(ctx); ended != nil {
		err = ended
	}
	if wire.IsNoPerm(err) || wire.IsUnknownCommand(err) {
		tally.refused = err.Error()
	}
	out := tally.result()
	tally.owners, tally.wrapped = nil, nil // as many as there are keys, and in no record
	out.Cost = ProbeCost{Elapsed: r.elapsed() - begun, Work: r.work, Slowest: r.slow}
	return out, err
}

// isReplica asks the server for its role. One that does not say is taken for a primary.
func isReplica(ctx context.Context, mux *wire.Mux) bool {
	info, err := redis.String(mux.Do(ctx, "INFO", "replication"))
	return err == nil && parseInfo(info)["role"] == "slave"
}

// all goes through the keys that match, in whatever spelling.
func (r *probeReader) all(ctx context.Context, cfg ProbeConfig, tally *probeTally) error {
	progress := cfg.Progress
	if progress == nil {
		progress = func(int64) {}
	}
	r.scope = scope.Matching(cfg.Match).In(cfg.DB)
	return r.each(ctx, tally.add, progress)
}

// probeTally counts what was found, in bounded memory.
type probeTally struct {
	cfg      ProbeConfig
	known    map[string]dialect.Dialect // by name, one's own among them
	now      time.Time                  // server's clock, of the last slice
	keys     int64
	denied   int64
	lost     int64
	refused  string
	prefixes map[string]*prefixTally
	owners   map[uint64]string   // hash of an identity, and the first key it stood on
	shared   map[string][]string // identities that stand on several keys, and those
	wrapped  map[string]dialect.Encoding
	replica  bool
	twice    []twin // names that exist in two encodings
	// everything: no pattern says which keys are locks.
	everything bool
}

type prefixTally struct {
	keys  int64
	forms map[Form]*FormCount
	types map[string]int64
	odd   map[string]string // an example for a type
	large []string          // keys with values beyond probeBytes, at most three
	huge  int64             // how many they are
	most  int64             // the largest
}

func newPrefixTally() *prefixTally {
	return &prefixTally{forms: map[Form]*FormCount{}, types: map[string]int64{}, odd: map[string]string{}}
}

func newProbeTally(cfg ProbeConfig) *probeTally {
	t := &probeTally{
		cfg: cfg, known: map[string]dialect.Dialect{}, prefixes: map[string]*prefixTally{},
		owners: map[uint64]string{}, shared: map[string][]string{}, wrapped: map[string]dialect.Encoding{},
		everything: cfg.Match == "" || cfg.Match == "*",
	}
	for _, d := range append(dialect.Presets(), cfg.Dialects...) {
		t.known[d.Name] = d
	}
	return t
}

// all reports that no pattern says which keys are locks.
func (t *probeTally) all() bool { return t.everything }

func (t *probeTally) add(p *probedKey) {
	t.keys++
	t.now = p.now
	if p.denied {
		t.denied++
		return
	}
	if isMark(p) || isLookAtOurs(p) {
		return // it belongs to a lock that is counted itself
	}
	at := probePrefix(p.key)
	prefix := t.prefixes[at]
	if prefix == nil {
		if len(t.prefixes) == mostPrefixes {
			t.lost++
			return
		}
		prefix = newPrefixTally()
		t.prefixes[at] = prefix
	}
	prefix.keys++
	if p.kind != "string" {
		prefix.types[p.kind]++
		if prefix.odd[p.kind] == "" {
			prefix.odd[p.kind] = cutKey(p.key)
		}
		return
	}
	form := t.count(prefix, p)
	if form.lock() {
		t.remember(p, form)
	}
}

// isMark reports that a key is ours beside an old client's.
func isMark(p *probedKey) bool {
	return reading.MarkOfOurs(p.key, p.value)
}

// isLookAtOurs reports that a key remembers looks at an old client's key.
func isLookAtOurs(p *probedKey) bool {
	return p.kind == "hash" && strings.HasSuffix(p.key, ":gsl"+look.Suffix)
}

// count adds a string to its form.
func (t *probeTally) count(prefix *prefixTally, p *probedKey) Form {
	if !p.whole() {
		prefix.huge++
		prefix.most = max(prefix.most, p.size)
		if len(prefix.large) < 3 {
			prefix.large = append(prefix.large, cutKey(p.key))
		}
		return Form{Look: dialect.LookText}
	}
	form, names, also := readForm(p.value, p.now, t.cfg.Dialects)
	c := prefix.forms[form]
	if c == nil {
		c = &FormCount{Form: form, Dialects: names, Also: also, Value: p.value}
		prefix.forms[form] = c
	}
	c.Keys++
	if len(c.Examples) < 3 {
		c.Examples = append(c.Examples, cutKey(p.key))
	}
	if !p.hasTTL {
		c.NoTTL++
	}
	if expiry, ok := t.expiry(form, names, p); ok && !p.ours(t.cfg.Dialects) {
		if expiry.Before(p.now) {
			c.Expired++
		}
		if tooFar(expiry.Sub(p.now), t.leaseOf(names)) {
			c.Far++
		}
	}
	return form
}

// ours reports that the stamp is a getsetlock client's, whose end is its TTL.
func (p *probedKey) ours(own []dialect.Dialect) bool {
	return p.hasTTL && reading.StampOfOurs(p.value, p.now, p.ttl, own)
}

// expiry reads the stamp in a value by the likeliest dialect.
func (t *probeTally) expiry(form Form, names []string, p *probedKey) (time.Time, bool) {
	if form.Look != dialect.LookStamp {
		return time.Time{}, false
	}
	if len(names) > 0 {
		d := t.known[names[0]]
		d.ValueEncoding = form.Encoding
		if s, err := d.Decode(p.value, p.now); err == nil {
			return s.Expiry, true
		}
	}
	for _, m := range dialect.Identify(p.value, p.now, dialect.Hints{}) {
		if m.Look == dialect.LookStamp && m.Unit == form.Unit {
			return m.Expiry, true
		}
	}
	return time.Time{}, false
}

// leaseOf is the lease that is known of a form's writers: given, or that of a dialect that was named. What
// a preset ships is no lease that a fleet must have.
func (t *probeTally) leaseOf(names []string) time.Duration {
	if t.cfg.Lease > 0 {
		return t.cfg.Lease
	}
	for _, d := range t.cfg.Dialects {
		if slices.Contains(names, d.Name) {
			return d.Lease
		}
	}
	return 0
}

// tooFar reports that a stamp lies further ahead than a lease explains: two leases, or a day where
// none is known.
func tooFar(ahead, lease time.Duration) bool {
	if lease <= 0 {
		return ahead > 24*time.Hour
	}
	return ahead > 2*lease
}

// mostRemembered bounds the identities that are compared, and the names in serializers' spellings.
const (
	mostRemembered = 50_000
	mostWrapped    = 1_000
)

// remember keeps what only a second key can show: an identity on two of them, a name in two spellings.
func (t *probeTally) remember(p *probedKey, form Form) {
	if name, encoding := plainKey(p.key); encoding != dialect.Plain && len(t.wrapped) < mostWrapped {
		t.wrapped[name] = encoding
	}
	owner := ownerOf(p.value, form)
	if owner == "" || t.all() && form.Look != dialect.LookStamp {
		return
	}
	hash := hashOf(owner)
	first, known := t.owners[hash]
	switch {
	case !known && len(t.owners) < mostRemembered:
		t.owners[hash] = cutKey(p.key)
	case known && first != cutKey(p.key):
		on := t.shared[owner]
		if on == nil && len(t.shared) == 100 {
			return
		}
		if len(on) == 0 {
			on = []string{first}
		}
		if len(on) < 3 && !slices.Contains(on, cutKey(p.key)) {
			on = append(on, cutKey(p.key))
		}
		t.shared[owner] = on
	}
}

// compareNames asks whether locks that a serializer named exist under their plain names too.
func (t *probeTally) compareNames(ctx context.Context, mux *wire.Mux) error {
	var names []string
	for name := range t.wrapped {
		names = append(names, name)
	}
	slices.Sort(names)
	cmds := make([]wire.Command, len(names))
	for i, name := range names {
		cmds[i] = wire.Cmd("EXISTS", name)
	}
	if len(cmds) == 0 {
		return nil
	}
	for i, reply := range mux.Batch(ctx, cmds) {
		n, err := redis.Int(reply.Value, reply.Err)
		var refused redis.Error
		if err != nil && !errors.As(err, &refused) {
			return fmt.Errorf("comparing names: %w", err)
		}
		if n > 0 && len(t.twice) < 20 {
			t.twice = append(t.twice, twin{names[i], t.wrapped[names[i]]})
		}
	}
	return nil
}

func (t *probeTally) result() *ProbeResult {
	out := &ProbeResult{Keys: t.keys, Denied: t.denied, Forgotten: t.lost, Refused: t.refused}
	for name, p := range t.prefixes {
		if t.all() && !p.hasStamps() {
			continue
		}
		r := PrefixResult{Prefix: name, Keys: p.keys, Types: p.types}
		for _, c := range p.forms {
			r.Forms = append(r.Forms, *c)
		}
		slices.SortFunc(r.Forms, func(a, b FormCount) int {
			return cmp.Or(cmp.Compare(b.Keys, a.Keys), cmp.Compare(a.String(), b.String()))
		})
		out.Prefixes = append(out.Prefixes, r)
		out.Findings = append(out.Findings, t.judge(r, p)...)
	}
	slices.SortFunc(out.Prefixes, func(a, b PrefixResult) int { return cmp.Compare(a.Prefix, b.Prefix) })
	out.Findings = append(out.Findings, t.judgeTwins()...)
	out.Findings = append(out.Findings, t.judgeOwners()...)
	if t.replica {
		out.Findings = append(out.Findings, census.Finding{
			Severity: census.SeverityError, Kind: "role", What: "this server is a replica: no client takes its locks here, and what stands here is late", Advice: "point the address at the primary",
		})
	}
	if t.refused != "" {
		out.Findings = append(out.Findings, census.Finding{
			Severity: census.SeverityWarning, Kind: "right", What: "the keys could not be gone through: " + t.refused,
			Advice: "let this user's ACL allow SCAN, TIME, GETRANGE, PTTL, TYPE and STRLEN",
		})
	}
	if t.denied > 0 {
		out.Findings = append(out.Findings, deniedFinding(t.denied, out.Keys))
	}
	for i := range out.Findings {
		out.Findings[i].DB = t.cfg.DB
	}
	slices.SortStableFunc(out.Findings, census.Finding.Compare)
	out.tally = t
	return out
}

func (p *prefixTally) hasStamps() bool {
	for f := range p.forms {
		if f.Look == dialect.LookStamp || f.Look == dialect.LookForever || f.Look == dialect.LookTombstone {
			return true
		}
	}
	return p.types[probeRedisson] > 0
}

// hashOf is FNV-1a.
func hashOf(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// cutKey is a key as it is remembered.
func cutKey(key string) string { return key[:min(len(key), probeLongKey)] }

func keysWord(n int64) string {
	if n == 1 {
		return "1 key"
	}
	return fmt.Sprintf("%d keys", n)
}

// StampOfOurs reports that a getsetlock client wrote the stamp in a value on a key
// with a TTL: what ends it is the TTL, and not the stamp. now is the server's
// clock; own are dialects to try beside the presets. It says false for a value
// that no dialect reads as a stamp.
func StampOfOurs(value string, now time.Time, ttl time.Duration, own []dialect.Dialect) bool {
	return reading.StampOfOurs(value, now, ttl, own)
}

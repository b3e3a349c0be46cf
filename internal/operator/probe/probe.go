// SPDX-License-Identifier: Apache-2.0

// Package probe reads every key of a server once and says how the values are
// written: in which form, by which dialects, and which of them do not exclude
// each other. [Run] is all that most programs need. It changes nothing.
//
// It judges values, not clients: a form that nobody holds a lock in at that
// moment is not seen.
package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/clocks"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/operator/keys"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock"
)

// Config says which keys to look at. The zero value looks at every key.
type Config struct {
	// Match is a pattern as SCAN takes it. Without a pattern, every key is
	// read, and only values that contain a time count as locks: any short text
	// could be one.
	Match string
	DB    int // the database that the pool's connections use; findings name it
	// Dialects are the dialects that the fleet is known to speak, the likeliest
	// first. They need not be presets.
	Dialects []dialect.Dialect
	// Lease is the lease that the fleet adds to its clocks. Defaults to the
	// lease of the dialect in Dialects that writes the value.
	Lease time.Duration
	// Progress is called after each slice with the number of keys read so far.
	// May be nil.
	Progress func(looked int64)
	Timeout  time.Duration // of each reply; defaults to 2 s
	// Hurry turns off the pauses between slices.
	Hurry bool
	// Clock measures the cost and the pauses. Defaults to lock.Machine.
	Clock lock.Clock
}

// Result is what a probe found.
type Result struct {
	Keys     int64 // keys looked at; a key that SCAN returns twice counts twice
	Denied   int64 // those of them that this user may not read
	Prefixes []PrefixResult
	// Forgotten counts keys under prefixes beyond the first 1000. Only their
	// number is known.
	Forgotten int64
	// Refused is why the probe could not read all keys, if the server refuses
	// that to this user. The other fields hold what it found until then.
	Refused  string
	Findings []census.Finding // sorted
	Cost     Cost
}

// PrefixResult is what the keys of one prefix contain.
type PrefixResult struct {
	Prefix string      `json:"prefix" answer:"bytes"` // the name up to its last separator, one of : / . | #
	Keys   int64       `json:"keys"`                  // number of keys
	Forms  []FormCount `json:"forms"`                 // the most frequent first
	// Types counts the keys that are no strings by type. "Redisson hash" is a
	// type of its own.
	Types map[string]int64 `json:"types"`
}

// FormCount counts the values of one form.
type FormCount struct {
	reading.Form
	Dialects []string       `json:"dialects"`                // dialects that write this form, the likeliest first
	Also     []reading.Form `json:"also" answer:"text"`      // other forms that the same values could have
	Keys     int64          `json:"keys"`                    // number of keys
	NoTTL    int64          `json:"no_ttl"`                  // keys without a TTL
	Expired  int64          `json:"expired"`                 // stamps that are past by the server's clock, without those of getsetlock clients
	Far      int64          `json:"far"`                     // stamps further ahead than a lease reaches
	Examples []string       `json:"examples" answer:"bytes"` // keys, at most three
	Value    string         // of the first example
}

// JSON returns the counts with the name of the form.
func (f FormCount) JSON() any {
	type counts FormCount
	if f.Unit == dialect.UnitNone {
		f.Unit = ""
	}
	return struct {
		Form string `json:"form"` // in words
		counts
	}{f.String(), counts(f)}
}

// Cost is how long a probe took.
type Cost struct {
	Elapsed time.Duration
	Work    time.Duration // the part of Elapsed spent on replies; the remainder was pauses
	Slowest time.Duration // the slowest slice: its SCAN and its reads
}

// mostPrefixes bounds how many prefixes a probe remembers.
const mostPrefixes = 1000

// Run reads all keys of a server in slices, never by KEYS, and reports how
// their values are written. It reads at most the first kilobyte of a value, and
// its memory does not grow with the number of keys. It changes nothing.
//
// If ctx ends, or the server fails during the probe, it returns what it has
// found so far together with the error.
func Run(ctx context.Context, pool *redis.Pool, cfg Config) (*Result, error) {
	tally := newTally(cfg)
	mux, err := wire.New(pool, wire.Options{Timeout: cfg.Timeout, Setup: keys.Setup})
	if err != nil {
		return tally.result(), err
	}
	defer mux.Close()
	r := &keys.Reader{Mux: mux, Scope: scope.Matching(cfg.Match).In(cfg.DB), Types: true,
		Clock: clocks.New(cfg.Clock), Pauses: !cfg.Hurry}
	begun := r.Clock.Elapsed()
	tally.replica = isReplica(ctx, mux)
	err = r.Each(ctx, tally.add, func() error {
		if cfg.Progress != nil {
			cfg.Progress(r.Looks)
		}
		return nil
	})
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
	out.Cost = Cost{Elapsed: r.Clock.Elapsed() - begun, Work: r.Work, Slowest: r.Slowest}
	return out, err
}

// isReplica reports whether the server calls itself a replica. If it does not
// answer, it counts as a primary.
func isReplica(ctx context.Context, mux *wire.Mux) bool {
	info, _ := wire.Info(mux.Do(ctx, "INFO", "replication"))
	return info["role"] == "slave"
}

// tally holds the counts of a probe, in bounded memory.
type tally struct {
	cfg      Config
	known    map[string]dialect.Dialect // dialects by name: the presets and the caller's
	now      time.Time                  // instant of the last slice, by the server's clock
	keys     int64
	denied   int64
	lost     int64
	refused  string
	prefixes map[string]*prefixTally
	owners   map[uint64]string // the first key that held an identity, by the identity's hash
	seed     maphash.Seed
	shared   map[string][]string // the keys of each identity that several keys hold
	wrapped  map[string]dialect.Encoding
	replica  bool
	twice    []twin // locks whose key exists in two encodings
	// everything: no pattern says which keys are locks.
	everything bool
}

type prefixTally struct {
	keys  int64
	forms map[reading.Form]*FormCount
	types map[string]int64
	odd   map[string]string // an example key of each type
	large []string          // keys with values beyond keys.Longest, at most three
	huge  int64             // the number of such keys
	most  int64             // the length of the largest value, in bytes
}

func newTally(cfg Config) *tally {
	t := &tally{
		cfg: cfg, known: map[string]dialect.Dialect{}, prefixes: map[string]*prefixTally{},
		owners: map[uint64]string{}, seed: maphash.MakeSeed(), shared: map[string][]string{},
		wrapped:    map[string]dialect.Encoding{},
		everything: cfg.Match == "" || cfg.Match == "*",
	}
	for _, d := range append(dialect.Presets(), cfg.Dialects...) {
		t.known[d.Name] = d
	}
	return t
}

func (t *tally) add(p *keys.Key) {
	t.keys++
	t.now = p.Now
	if p.Denied != nil {
		t.denied++
		return
	}
	if reading.RoleOf(p.Name, p.Value) != reading.Lock {
		return // it is getsetlock's, or belongs to a lock that is counted by its own key
	}
	at := reading.PrefixOf(p.Name)
	prefix := t.prefixes[at]
	if prefix == nil {
		if len(t.prefixes) == mostPrefixes {
			t.lost++
			return
		}
		prefix = &prefixTally{forms: map[reading.Form]*FormCount{}, types: map[string]int64{},
			odd: map[string]string{}}
		t.prefixes[at] = prefix
	}
	prefix.keys++
	if p.Type != "string" {
		prefix.types[p.Type]++
		if prefix.odd[p.Type] == "" {
			prefix.odd[p.Type] = reading.CutKey(p.Name)
		}
		return
	}
	form := t.count(prefix, p)
	if form.Lock() {
		t.remember(p, form)
	}
}

// count adds a string to the count of its form.
func (t *tally) count(prefix *prefixTally, p *keys.Key) reading.Form {
	if !p.Whole() {
		prefix.huge++
		prefix.most = max(prefix.most, p.Size)
		if len(prefix.large) < 3 {
			prefix.large = append(prefix.large, reading.CutKey(p.Name))
		}
		return reading.Form{Look: dialect.LookText}
	}
	form, names, also := reading.ReadForm(p.Value, p.Now, t.cfg.Dialects)
	c := prefix.forms[form]
	if c == nil {
		c = &FormCount{Form: form, Dialects: names, Also: also, Value: p.Value}
		prefix.forms[form] = c
	}
	c.Keys++
	if len(c.Examples) < 3 {
		c.Examples = append(c.Examples, reading.CutKey(p.Name))
	}
	if !p.HasTTL {
		c.NoTTL++
	}
	// The lock of a getsetlock client ends with its TTL.
	ours := p.HasTTL && reading.StampOfOurs(p.Value, p.Now, p.TTL, t.cfg.Dialects)
	if expiry, ok := t.expiry(form, names, p); ok && !ours {
		if expiry.Before(p.Now) {
			c.Expired++
		}
		if reading.TooFar(expiry.Sub(p.Now), t.leaseOf(names)) {
			c.Far++
		}
	}
	return form
}

// expiry decodes the expiry in a value, by the likeliest dialect.
func (t *tally) expiry(form reading.Form, names []string, p *keys.Key) (time.Time, bool) {
	if form.Look != dialect.LookStamp {
		return time.Time{}, false
	}
	if len(names) > 0 {
		d := t.known[names[0]]
		d.ValueEncoding = form.Encoding
		if s, err := d.Decode(p.Value, p.Now); err == nil {
			return s.Expiry, true
		}
	}
	for _, m := range dialect.Identify(p.Value, p.Now, dialect.Hints{}) {
		if m.Look == dialect.LookStamp && m.Unit == form.Unit {
			return m.Expiry, true
		}
	}
	return time.Time{}, false
}

// leaseOf returns the known lease of a form's writers: the given lease, or that
// of a named dialect. A preset's own lease does not count, since a fleet may
// have changed it.
func (t *tally) leaseOf(names []string) time.Duration {
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

// Bounds of the number of identities that are compared, and of names in the
// encodings of serializers.
const (
	mostRemembered = 50_000
	mostWrapped    = 1_000
)

// remember stores what only a second key can reveal: an identity that two keys
// hold, and a name in two encodings.
func (t *tally) remember(p *keys.Key, form reading.Form) {
	if name, encoding := reading.PlainKey(p.Name); encoding != dialect.Plain && len(t.wrapped) < mostWrapped {
		t.wrapped[name] = encoding
	}
	owner := reading.OwnerOf(p.Value, form)
	if owner == "" || t.everything && form.Look != dialect.LookStamp {
		return
	}
	hash := maphash.String(t.seed, owner)
	first, known := t.owners[hash]
	switch {
	case !known && len(t.owners) < mostRemembered:
		t.owners[hash] = reading.CutKey(p.Name)
	case known && first != reading.CutKey(p.Name):
		on := t.shared[owner]
		if on == nil && len(t.shared) == 100 {
			return
		}
		if len(on) == 0 {
			on = []string{first}
		}
		if len(on) < 3 && !slices.Contains(on, reading.CutKey(p.Name)) {
			on = append(on, reading.CutKey(p.Name))
		}
		t.shared[owner] = on
	}
}

// compareNames asks whether locks whose names a serializer encoded also exist
// under their plain names.
func (t *tally) compareNames(ctx context.Context, mux *wire.Mux) error {
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

func (t *tally) result() *Result {
	out := &Result{Keys: t.keys, Denied: t.denied, Forgotten: t.lost, Refused: t.refused}
	for name, p := range t.prefixes {
		if t.everything && !p.hasStamps() {
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
			Severity: census.SeverityError, Kind: "role",
			What:   "this server is a replica: no client takes locks here, and its keys lag behind its primary's",
			Advice: "point the address at the primary",
		})
	}
	if t.refused != "" {
		out.Findings = append(out.Findings, census.Finding{
			Severity: census.SeverityWarning, Kind: "right",
			What:   "the probe could not read all keys: " + t.refused,
			Advice: "let this user's ACL allow SCAN, TIME, GETRANGE, PTTL, TYPE and STRLEN",
		})
	}
	if t.denied > 0 {
		out.Findings = append(out.Findings, keys.DeniedFinding(t.denied, out.Keys))
	}
	for i := range out.Findings {
		out.Findings[i].DB = t.cfg.DB
	}
	slices.SortStableFunc(out.Findings, census.Finding.Compare)
	return out
}

func (p *prefixTally) hasStamps() bool {
	for f := range p.forms {
		if f.Look == dialect.LookStamp || f.Look == dialect.LookForever || f.Look == dialect.LookTombstone {
			return true
		}
	}
	return p.types[keys.Redisson] > 0
}

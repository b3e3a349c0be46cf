// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
)

// The lines by which a record stores a probe's counts. Each has one JSON
// document, in which a byte of a name or value is a character. sumKeys comes
// first. A record stores counts and not findings, so a replay judges them anew,
// by the dialects that it is given.
const (
	sumKeys   = "keys"   // keySums
	sumPrefix = "prefix" // prefixSums, for each prefix
	sumOwner  = "owner"  // ownerSums, for each identity that several keys hold
)

type keySums struct {
	Keys    int64  `json:"keys"`
	Denied  int64  `json:"denied"`
	Lost    int64  `json:"lost"` // under forgotten prefixes
	Replica bool   `json:"replica"`
	All     bool   `json:"all"`     // no pattern says which keys are locks
	Refused string `json:"refused"` // why not all keys could be read
	Twice   []twin `json:"twice"`
}

type prefixSums struct {
	Prefix  string             `json:"prefix"`
	Forms   []FormCount        `json:"forms"`
	Types   map[string]typeSum `json:"types"`
	Large   []string           `json:"large"` // examples
	Huge    int64              `json:"huge"`
	Longest int64              `json:"longest"`
}

type typeSum struct {
	Keys    int64  `json:"keys"`
	Example string `json:"example"`
}

type ownerSums struct {
	Owner string   `json:"owner"`
	Keys  []string `json:"keys"`
}

// twin is a lock whose key exists in two encodings.
type twin struct {
	Name     string           `json:"name"`
	Encoding dialect.Encoding `json:"encoding"` // in which it exists in addition to the plain one
}

// The methods mapped return the sums with other names and values.

func (s keySums) mapped(key, refusal func(string) string) keySums {
	s.Refused, s.Twice = refusal(s.Refused), slices.Clone(s.Twice)
	for i := range s.Twice {
		s.Twice[i].Name = key(s.Twice[i].Name)
	}
	return s
}

func (s prefixSums) mapped(key, value func(string) string) prefixSums {
	s.Prefix, s.Forms, s.Types = key(s.Prefix), slices.Clone(s.Forms), maps.Clone(s.Types)
	for i := range s.Forms {
		c := &s.Forms[i]
		c.Value, c.Examples = value(c.Value), each(c.Examples, key)
	}
	for kind, sum := range s.Types {
		s.Types[kind] = typeSum{sum.Keys, key(sum.Example)}
	}
	s.Large = each(s.Large, key)
	return s
}

func (s ownerSums) mapped(key, owner func(string) string) ownerSums {
	return ownerSums{owner(s.Owner), each(s.Keys, key)}
}

func each(list []string, f func(string) string) (out []string) {
	for _, s := range list {
		out = append(out, f(s))
	}
	return out
}

// Observed returns the lines that store the probe in a record; see
// [Config.Probed].
func (r *Result) Observed() []offset.Observed {
	t := r.tally
	if t == nil {
		return nil
	}
	at := t.now.UTC().Truncate(time.Microsecond)
	if t.now.IsZero() {
		at = time.Unix(0, 0).UTC() // no key was looked at
	}
	line := func(event string, sums any) offset.Observed {
		return offset.Observed{At: at, Kind: offset.ObservedProbe, Event: event,
			Args: []string{written(sums)}}
	}
	keys := keySums{t.keys, t.denied, t.lost, t.replica, t.everything, t.refused, t.twice}
	out := []offset.Observed{line(sumKeys, keys.mapped(offset.TextOf, offset.TextOf))}
	for _, name := range slices.Sorted(maps.Keys(t.prefixes)) {
		p := t.prefixes[name]
		s := prefixSums{Prefix: name, Large: p.large, Huge: p.huge, Longest: p.most,
			Types: map[string]typeSum{}}
		for _, c := range p.forms {
			s.Forms = append(s.Forms, *c)
		}
		slices.SortFunc(s.Forms, func(a, b FormCount) int {
			return cmp.Compare(fmt.Sprintf("%#v", a.Form), fmt.Sprintf("%#v", b.Form))
		})
		for kind, n := range p.types {
			s.Types[kind] = typeSum{n, p.odd[kind]}
		}
		out = append(out, line(sumPrefix, s.mapped(offset.TextOf, offset.TextOf)))
	}
	for _, owner := range slices.Sorted(maps.Keys(t.shared)) {
		s := ownerSums{owner, t.shared[owner]}
		out = append(out, line(sumOwner, s.mapped(offset.TextOf, offset.TextOf)))
	}
	return out
}

func written(sums any) string {
	text, _ := json.Marshal(sums) // numbers and texts: no error
	return string(text)
}

// readSums reads what written wrote, and refuses any other spelling of it.
func readSums[T any](o offset.Observed) (sums T, err error) {
	if len(o.Args) != 1 {
		return sums, fmt.Errorf("a line %s of a probe has one document", o.Event)
	}
	if err := json.Unmarshal([]byte(o.Args[0]), &sums); err != nil {
		return sums, err
	}
	if written(sums) != o.Args[0] {
		return sums, errors.New("the document is not as an audit writes it")
	}
	return sums, nil
}

// Recording collects the lines of a probe as a replay reads them.
type Recording struct{ tally *tally }

// Result returns the probe's result, or nil if the record contains no probe.
func (r *Recording) Result() *Result {
	if r.tally == nil {
		return nil
	}
	return r.tally.result()
}

// Take reads one line. What Observed would not write is an error, and ends the
// recording: an incomplete probe is not reported. The probe is judged by cfg.
func (r *Recording) Take(o offset.Observed, cfg Config) error {
	err := r.take(o, cfg)
	if err != nil {
		r.tally = nil
	}
	return err
}

func (r *Recording) take(o offset.Observed, cfg Config) error {
	if (r.tally == nil) != (o.Event == sumKeys) {
		return errors.New("the line of keys must come once, before the other lines of a probe")
	}
	switch o.Event {
	case sumKeys:
		s, err := readSums[keySums](o)
		s = s.mapped(offset.BytesOf, offset.BytesOf)
		t := newTally(cfg)
		t.now, t.keys, t.denied, t.lost, t.refused = o.At, s.Keys, s.Denied, s.Lost, s.Refused
		t.replica, t.everything, t.twice = s.Replica, s.All, s.Twice
		r.tally = t
		return cmp.Or(err, notBelow(0, s.Keys, s.Denied, s.Lost))
	case sumPrefix:
		s, err := readSums[prefixSums](o)
		return cmp.Or(err, r.tally.takePrefix(s.mapped(offset.BytesOf, offset.BytesOf)))
	case sumOwner:
		s, err := readSums[ownerSums](o)
		s = s.mapped(offset.BytesOf, offset.BytesOf)
		if len(s.Keys) < 2 || r.tally.shared[s.Owner] != nil {
			err = cmp.Or(err, errors.New("an identity on a single key, or a second line about one"))
		}
		r.tally.shared[s.Owner] = s.Keys
		return err
	}
	return fmt.Errorf("a probe has no line %s", strconv.Quote(o.Event))
}

func (t *tally) takePrefix(s prefixSums) error {
	if t.prefixes[s.Prefix] != nil || len(t.prefixes) == mostPrefixes {
		return errors.New("a second line about a prefix, or too many of them")
	}
	p := newPrefixTally()
	t.prefixes[s.Prefix] = p
	p.huge, p.most, p.large, p.keys = s.Huge, s.Longest, s.Large, s.Huge
	err := notBelow(0, s.Huge, s.Longest)
	for _, c := range s.Forms {
		if p.forms[c.Form] != nil || len(c.Examples) == 0 {
			err = errors.New("a form without an example, or a second sum of one")
		}
		p.forms[c.Form] = &c
		p.keys += c.Keys
		err = cmp.Or(err, notBelow(1, c.Keys), notBelow(0, c.NoTTL, c.Expired, c.Far))
	}
	for kind, sum := range s.Types {
		p.types[kind], p.odd[kind] = sum.Keys, sum.Example
		p.keys += sum.Keys
		err = cmp.Or(err, notBelow(1, sum.Keys))
	}
	return err
}

// notBelow refuses a number of keys that is less than least.
func notBelow(least int64, counts ...int64) error {
	if n := slices.Min(counts); n < least {
		return fmt.Errorf("%d is not a valid number of keys", n)
	}
	return nil
}

// Hidden returns the line of a probe with other names, values and identities,
// for a record that must hide them.
func Hidden(o offset.Observed, key, value, owner func(string) string) offset.Observed {
	hide := func(by func(string) string) func(string) string {
		return func(text string) string { return offset.TextOf(by(offset.BytesOf(text))) }
	}
	switch o.Event {
	case sumKeys:
		s, _ := readSums[keySums](o) // of Observed: no error
		o.Args = []string{written(s.mapped(hide(key), func(text string) string {
			// The server's message may quote the command, and with it the
			// pattern.
			text, _, _ = strings.Cut(text, ", with args")
			return text
		}))}
	case sumPrefix:
		s, _ := readSums[prefixSums](o)
		o.Args = []string{written(s.mapped(hide(key), hide(value)))}
	case sumOwner:
		s, _ := readSums[ownerSums](o)
		o.Args = []string{written(s.mapped(hide(key), hide(owner)))}
	}
	return o
}

// judgeTwins reports locks that exist in two encodings.
func (t *tally) judgeTwins() []census.Finding {
	var out []census.Finding
	for _, d := range t.twice {
		out = append(out, census.Finding{
			Severity: census.SeverityError, Kind: "two_names", Key: d.Name,
			What:   fmt.Sprintf("the lock exists twice: as a plain key, and in the %s encoding that a serializer of Spring puts around it; clients that use different ones do not exclude each other", cmp.Or(d.Encoding, dialect.Plain)),
			Advice: "give the RedisTemplate a StringRedisSerializer for keys and values, on all its hosts at once",
		})
	}
	return out
}

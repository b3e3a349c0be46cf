package audit

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
)

// The lines by which a record stores a probe's counts, and the words of each
// line. "keys" comes first; a list begins with its length. A record stores
// counts and not findings, so a replay judges them anew, by the dialects that
// it is given.
const (
	// keys looked at, denied, under forgotten prefixes, "primary" or "replica",
	// "pattern" or "all"
	sumKeys    = "keys"
	sumRefused = "refused" // why not all keys could be read
	// prefix, the form, keys, without TTL, past, far ahead, first value,
	// dialects, examples, other forms
	sumForm  = "form"
	sumType  = "type"  // prefix, type, keys, example
	sumLarge = "large" // prefix, keys, greatest length, examples
	sumOwner = "owner" // identity, keys that hold it
	sumTwice = "twice" // name, the encoding in which it exists in addition to the plain one
)

// Observed returns the lines that store the probe in a record; see
// [Config.Probed].
func (r *ProbeResult) Observed() []offset.Observed {
	t := r.tally
	if t == nil {
		return nil
	}
	at := t.now.UTC().Truncate(time.Microsecond)
	if t.now.IsZero() {
		at = time.Unix(0, 0).UTC() // no key was looked at
	}
	var out []offset.Observed
	line := func(sum string, words ...any) {
		o := offset.Observed{At: at, Kind: offset.ObservedProbe, Event: sum}
		for _, w := range words {
			o.Args = append(o.Args, wordsOf(w)...)
		}
		out = append(out, o)
	}
	line(sumKeys, t.keys, t.denied, t.lost,
		oneOf(t.replica, "replica", "primary"), oneOf(t.everything, "all", "pattern"))
	if t.refused != "" {
		line(sumRefused, t.refused)
	}
	for _, name := range sortedKeys(t.prefixes) {
		p := t.prefixes[name]
		for _, c := range sortedForms(p.forms) {
			line(sumForm, name, c.Form, c.Keys, c.NoTTL, c.Expired, c.Far, c.Value, c.Dialects, c.Examples,
				c.Also)
		}
		for _, kind := range sortedKeys(p.types) {
			line(sumType, name, kind, p.types[kind], p.odd[kind])
		}
		if p.huge > 0 {
			line(sumLarge, name, p.huge, p.most, p.large)
		}
	}
	for _, owner := range sortedKeys(t.shared) {
		line(sumOwner, owner, t.shared[owner])
	}
	for _, d := range t.twice {
		line(sumTwice, d.name, string(d.encoding))
	}
	return out
}

func oneOf(yes bool, a, b string) string {
	if yes {
		return a
	}
	return b
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func sortedForms(forms map[Form]*FormCount) []*FormCount {
	out := make([]*FormCount, 0, len(forms))
	for _, c := range forms {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b *FormCount) int {
		return slices.Compare(wordsOf(a.Form), wordsOf(b.Form))
	})
	return out
}

// wordsOf returns one part of a line as words.
func wordsOf(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case int64:
		return []string{strconv.FormatInt(v, 10)}
	case []string:
		return append([]string{strconv.Itoa(len(v))}, v...)
	case Form:
		return []string{string(v.Look), string(v.Unit), oneOf(v.UUID, "uuid", "-"), string(v.Encoding)}
	case []Form:
		out := []string{strconv.Itoa(len(v))}
		for _, f := range v {
			out = append(out, wordsOf(f)...)
		}
		return out
	}
	panic(fmt.Sprintf("audit: no words for %T", v))
}

// recordedProbe collects the lines of a probe as a replay reads them.
type recordedProbe struct{ tally *probeTally }

// result returns the probe's result, or nil if the record contains no probe.
func (r *recordedProbe) result() *ProbeResult {
	if r.tally == nil {
		return nil
	}
	return r.tally.result()
}

// take reads one line. Words that Observed would not write are an error.
func (r *recordedProbe) take(o offset.Observed, cfg Config) error {
	if (r.tally == nil) != (o.Event == sumKeys) {
		return errors.New("the line of keys must come once, before the other lines of a probe")
	}
	w := &sumWords{rest: o.Args}
	if o.Event == sumKeys {
		r.tally = newProbeTally(ProbeConfig{
			Match: cfg.Match, Dialects: cfg.Dialects, Lease: cfg.Lease, DB: cfg.DB})
		r.tally.now = o.At
	}
	if take := sumTakers[o.Event]; take != nil {
		take(w, r.tally)
	} else {
		w.fail("a probe has no line %s", strconv.Quote(o.Event))
	}
	if w.err == nil && len(w.rest) > 0 {
		w.fail("the line %s has too many words", o.Event)
	}
	return w.err
}

// sumTakers read the words of a line into a tally, by the line's name.
var sumTakers = map[string]func(*sumWords, *probeTally){
	sumKeys:    (*sumWords).keys,
	sumRefused: (*sumWords).refused,
	sumForm:    (*sumWords).form,
	sumType:    (*sumWords).oneType,
	sumLarge:   (*sumWords).large,
	sumOwner:   (*sumWords).owner,
	sumTwice:   (*sumWords).twice,
}

// sumWords takes words from the left of a line. It keeps the first error.
type sumWords struct {
	rest []string
	err  error
}

func (w *sumWords) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

func (w *sumWords) text() string {
	if len(w.rest) == 0 {
		w.fail("the line has too few words")
		return ""
	}
	word := w.rest[0]
	w.rest = w.rest[1:]
	return word
}

func (w *sumWords) count() int64 { return w.least(0) }

func (w *sumWords) least(least int64) int64 {
	word := w.text()
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil || n < least || strconv.FormatInt(n, 10) != word {
		w.fail("%s is not a valid number of keys", strconv.Quote(word))
		return least
	}
	return n
}

func (w *sumWords) either(yes, no string) bool {
	word := w.text()
	if word != yes && word != no {
		w.fail("%s is neither %s nor %s", strconv.Quote(word), yes, no)
	}
	return word == yes
}

func (w *sumWords) list(least, most int64) (out []string) {
	n := w.least(least)
	if n > most {
		w.fail("a list of %d entries; a record has at most %d", n, most)
	}
	for ; n > 0 && w.err == nil; n-- {
		out = append(out, w.text())
	}
	return out
}

func (w *sumWords) prefix(t *probeTally) *prefixTally {
	name := w.text()
	p := t.prefixes[name]
	if p == nil {
		if len(t.prefixes) == mostPrefixes {
			w.fail("more than %d prefixes", mostPrefixes)
		}
		p = newPrefixTally()
		t.prefixes[name] = p
	}
	return p
}

func (w *sumWords) keys(t *probeTally) {
	t.keys, t.denied, t.lost = w.count(), w.count(), w.count()
	t.replica, t.everything = w.either("replica", "primary"), w.either("all", "pattern")
}

func (w *sumWords) refused(t *probeTally) {
	if t.refused != "" {
		w.fail("a second line about the refusal")
	}
	if t.refused = w.text(); t.refused == "" {
		w.fail("a refusal without a text")
	}
}

// mostNamed bounds the list of dialects that write a form.
const mostNamed = 1000

func (w *sumWords) form(t *probeTally) {
	p := w.prefix(t)
	c := &FormCount{Form: w.oneForm()}
	if p.forms[c.Form] != nil {
		w.fail("a second line for the same form and prefix")
	}
	c.Keys, c.NoTTL, c.Expired, c.Far, c.Value = w.least(1), w.count(), w.count(), w.count(), w.text()
	c.Dialects, c.Examples = w.list(0, mostNamed), w.list(1, 3)
	for n := w.count(); n > 0 && w.err == nil; n-- {
		c.Also = append(c.Also, w.oneForm())
	}
	p.forms[c.Form] = c
	p.keys += c.Keys
}

func (w *sumWords) oneType(t *probeTally) {
	p := w.prefix(t)
	kind := w.text()
	if _, known := p.types[kind]; known || kind == "" {
		w.fail("a type without a name, or a second line for the same type and prefix")
	}
	p.types[kind], p.odd[kind] = w.least(1), w.text()
	p.keys += p.types[kind]
}

func (w *sumWords) large(t *probeTally) {
	p := w.prefix(t)
	if p.huge > 0 {
		w.fail("a second line about large values of the same prefix")
	}
	p.huge, p.most, p.large = w.least(1), w.count(), w.list(1, 3)
	p.keys += p.huge
}

func (w *sumWords) owner(t *probeTally) {
	owner := w.text()
	if t.shared[owner] != nil {
		w.fail("a second line about the same identity")
	}
	t.shared[owner] = w.list(2, 3)
}

func (w *sumWords) twice(t *probeTally) {
	t.twice = append(t.twice, twin{w.text(), w.encoding()})
}

// The words that a form may consist of.
var (
	formLooks = []dialect.Look{
		dialect.LookStamp, dialect.LookImplausible, dialect.LookTombstone, dialect.LookGuardLike,
		dialect.LookDecimal, dialect.LookUUID,
		dialect.LookToken, dialect.LookConstant, dialect.LookForever, dialect.LookEmpty, dialect.LookText,
		dialect.LookBinary,
	}
	formUnits = []dialect.Unit{
		"", dialect.UnitMillis, dialect.UnitSeconds, dialect.UnitFloatSeconds, dialect.UnitNanos,
		dialect.UnitTicks, dialect.UnitNone,
	}
	formEncodings = []dialect.Encoding{"", dialect.Plain, dialect.JDK, dialect.JSON}
)

func (w *sumWords) oneForm() (f Form) {
	f.Look, f.Unit = dialect.Look(w.text()), dialect.Unit(w.text())
	f.UUID = w.either("uuid", "-")
	f.Encoding = w.encoding()
	if !slices.Contains(formLooks, f.Look) || !slices.Contains(formUnits, f.Unit) {
		w.fail("%s is not a known form", strings.TrimSpace(string(f.Look)+" "+string(f.Unit)))
	}
	return f
}

func (w *sumWords) encoding() dialect.Encoding {
	e := dialect.Encoding(w.text())
	if !slices.Contains(formEncodings, e) {
		w.fail("%s is not a known encoding", strconv.Quote(string(e)))
	}
	return e
}

// probed returns the line of a probe without what the record must hide. As in
// all other lines, names and identities become keyed hashes, and so do values
// that are no stamps.
func (r *recorder) probed(o offset.Observed) offset.Observed {
	args := slices.Clone(o.Args)
	keys := func(from, n int) {
		for i := from; i < min(from+n, len(args)); i++ {
			args[i] = r.key(args[i])
		}
	}
	listed := func(at int) int { n, _ := strconv.Atoi(args[at]); return n }
	switch o.Event {
	case sumRefused:
		// The server's message may quote the command, and with it the pattern.
		args[0], _, _ = strings.Cut(args[0], ", with args")
	case sumForm:
		const value, dialects = 9, 10
		args[value] = r.value(args[value], o)
		examples := dialects + 1 + listed(dialects)
		keys(examples+1, listed(examples))
		keys(0, 1)
	case sumType:
		keys(0, 1)
		keys(3, 1)
	case sumLarge:
		keys(4, listed(3))
		keys(0, 1)
	case sumOwner:
		args[0] = "h:" + r.digest("owner", args[0])
		keys(2, listed(1))
	case sumTwice:
		keys(0, 1)
	}
	o.Args = args
	return o
}

// twin is a lock whose key exists in two encodings.
type twin struct {
	name     string
	encoding dialect.Encoding
}

// judgeTwins reports locks that exist in two encodings.
func (t *probeTally) judgeTwins() []census.Finding {
	var out []census.Finding
	for _, d := range t.twice {
		out = append(out, census.Finding{
			Severity: census.SeverityError, Kind: "two_names", Key: d.name,
			What:   fmt.Sprintf("the lock exists twice: as a plain key, and in the %s encoding that a serializer of Spring puts around it; clients that use different ones do not exclude each other", cmp.Or(d.encoding, dialect.Plain)),
			Advice: "give the RedisTemplate a StringRedisSerializer for keys and values, on all its hosts at once",
		})
	}
	return out
}

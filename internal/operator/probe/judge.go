// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/operator/keys"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
)

// judge returns the findings about the keys of a prefix.
func (t *tally) judge(r PrefixResult, p *prefixTally) []census.Finding {
	var out []census.Finding
	forms := slices.DeleteFunc(slices.Clone(r.Forms), func(c FormCount) bool {
		return !c.Lock() || t.everything && c.Look != dialect.LookStamp && c.Look != dialect.LookForever
	})
	for i, a := range forms {
		for _, b := range forms[i+1:] {
			if f, ok := t.mixture(r.Prefix, a, b); ok {
				out = append(out, f)
			}
		}
	}
	out = append(out, t.judgeUnit(r, forms)...)
	for _, c := range r.Forms {
		out = append(out, t.judgeForm(r.Prefix, c, forms)...)
	}
	return append(out, t.judgeTypes(r, p)...)
}

// readersOf returns the dialects that may read and write a form: the named ones
// among them if there are any, otherwise all.
func (t *tally) readersOf(c FormCount) []dialect.Dialect {
	var out, named []dialect.Dialect
	for _, name := range c.Dialects {
		d := t.known[name]
		d.ValueEncoding = c.Encoding
		out = append(out, d)
		if slices.ContainsFunc(t.cfg.Dialects, func(k dialect.Dialect) bool { return k.Name == name }) {
			named = append(named, d)
		}
	}
	if len(named) > 0 {
		return named
	}
	return out
}

// mixture says what the clients of two forms do to each other. ok is false if
// they get along.
func (t *tally) mixture(prefix string, a, b FormCount) (f census.Finding, ok bool) {
	inA, worseA, sureA := t.harms(a, b)
	inB, worseB, sureB := t.harms(b, a)
	if inA+inB == "" {
		return census.Finding{}, false
	}
	f = census.Finding{
		Severity: census.SeverityWarning, Kind: "mixture", Key: prefix,
		What: fmt.Sprintf("two kinds of locks share one prefix: %s, and %s.%s%s", described(a),
			described(b), inA, inB),
		Advice: "no client respects both: find out which programs write them (audit --monitor names the writers), then give each kind keys of its own or move both to one kind",
	}
	if (worseA && sureA || worseB && sureB) && !t.everything {
		f.Severity = census.SeverityError
	}
	return f, true
}

// harms says what readers of one form do to locks in the other. breaks: two
// clients can then hold one lock; sure: that is so for each dialect that the
// readers may speak.
func (t *tally) harms(written, read FormCount) (text string, breaks, sure bool) {
	writers, readers := t.readersOf(written), t.readersOf(read)
	if len(writers) == 0 {
		return "", false, false
	}
	by := map[string][]string{}
	count := 0
	for _, r := range readers {
		m, err := reading.Meet(writers[0], r, t.now)
		if err != nil || m.Harm() == "" {
			continue
		}
		if m.Breaks() {
			breaks, count = true, count+1
		}
		by[m.Harm()] = append(by[m.Harm()], r.Name)
	}
	var says []string
	for harm, names := range by {
		says = append(says, fmt.Sprintf("a client of %s %s", anyOf(names), harm))
	}
	if len(says) == 0 {
		return "", false, false
	}
	slices.Sort(says)
	return fmt.Sprintf(" At a lock in %s %s.", written.Form, strings.Join(says, ", ")), breaks,
		count == len(readers)
}

// described returns a form with its number of keys, an example and its
// dialects.
func described(c FormCount) string {
	text := fmt.Sprintf("%s (%s, such as %s", c.Form, keys.Count(c.Keys), strconv.Quote(c.Examples[0]))
	if len(c.Dialects) > 0 {
		text += ", as written by " + anyOf(c.Dialects)
	}
	return text + ")"
}

// anyOf lists all names for a sentence, since each reader looks for their own
// dialect.
func anyOf(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// judgeUnit compares the values with the first named dialect if none of them is
// in its unit. Then there is no mixture to see, and still no client of that
// dialect could share these locks.
func (t *tally) judgeUnit(r PrefixResult, forms []FormCount) []census.Finding {
	if len(t.cfg.Dialects) == 0 || !t.cfg.Dialects[0].HasStamp() || t.everything {
		return nil
	}
	d := t.cfg.Dialects[0]
	for _, c := range forms {
		if c.Look == dialect.LookStamp && slices.Contains(c.Dialects, d.Name) {
			return nil
		}
	}
	var out []census.Finding
	for _, c := range forms {
		if c.Look != dialect.LookStamp {
			continue
		}
		m := reading.Meeting{Live: reading.ConductOf(d, c.Value, t.now), Dead: reading.Takes}
		if writers := t.readersOf(c); len(writers) > 0 {
			var err error
			if m, err = reading.Meet(writers[0], d, t.now); err != nil {
				continue
			}
		}
		harm := m.Harm()
		if harm == "" {
			continue
		}
		out = append(out, census.Finding{
			Severity: census.SeverityError, Kind: "unit", Key: r.Prefix,
			What: fmt.Sprintf("%s: %s does not write such values. A client of %s that meets one %s.",
				described(c), d.Name, d.Name, harm),
			Advice: "name the dialect that these clients really speak by --dialect, and let no other use these keys",
		})
	}
	return out
}

// judgeForm returns the findings about the values of one form.
func (t *tally) judgeForm(prefix string, c FormCount, beside []FormCount) []census.Finding {
	var out []census.Finding
	add := func(s census.Severity, kind, what, advice string) {
		out = append(out, census.Finding{Severity: s, Kind: kind, Key: prefix, What: what, Advice: advice})
	}
	if c.Unreadable() && (!t.everything || len(beside) > 0) {
		what := fmt.Sprintf("%s that no dialect writes: %s", keys.Count(c.Keys), unreadableWords(c))
		add(census.SeverityWarning, "unreadable", what+t.unreadableHarm(c, beside), "look at them by getsetlock ls, and find out which program writes them; getsetlock clients treat them as held")
	}
	if c.Far > 0 {
		add(census.SeverityWarning, "far", fmt.Sprintf("%s of %s, further ahead than a lease: a wrong clock, a much longer lease, or forged; if the holder has crashed, they block until then", numberOf(c.Far), c.Form),
			"compare the writers' clocks; getsetlock doctor lists the keys, and moves them where the fastest clock (--ahead) and the greatest lease are known")
	}
	nothingEnds := c.Look == dialect.LookConstant || c.Look == dialect.LookToken ||
		c.Look == dialect.LookUUID || c.Look == dialect.LookForever
	if nothingEnds && c.NoTTL > 0 && !t.everything {
		add(census.SeverityWarning, "no_ttl",
			fmt.Sprintf("%s with %s and no TTL, such as %s: nothing frees them when their holder crashes",
				keys.Count(c.NoTTL), c.Form, strconv.Quote(c.Examples[0])),
			"if the holder is dead, free them by getsetlock unlock KEY --value V")
	}
	if c.Look == dialect.LookGuardLike || c.Look == dialect.LookTombstone {
		add(census.SeverityNote, "guards",
			fmt.Sprintf("%s with %s: a migration is under way, or these are random numbers", keys.Count(c.Keys),
				c.Form), "")
	}
	return out
}

func numberOf(n int64) string {
	if n == 1 {
		return "1 lock"
	}
	return fmt.Sprintf("%d locks", n)
}

// unreadableWords shows an example. If it is a number with 16 digits, it adds
// the time that it would be in microseconds, a unit that no dialect writes.
func unreadableWords(c FormCount) string {
	text := fmt.Sprintf("%s, such as %s = %s", c.Form, strconv.Quote(c.Examples[0]),
		reading.ShortQuote(c.Value))
	if n, err := strconv.ParseInt(c.Value, 10, 64); err == nil && len(c.Value) == 16 {
		text += fmt.Sprintf(", which in microseconds would be %s",
			time.UnixMicro(n).UTC().Format("2006-01-02 15:04:05"))
	}
	return text
}

// unreadableHarm says what clients do with such a value: clients of the named
// dialects, otherwise of those whose locks are under the same prefix.
func (t *tally) unreadableHarm(c FormCount, beside []FormCount) string {
	readers := slices.Clone(t.cfg.Dialects)
	if len(readers) == 0 && len(beside) > 0 {
		readers = t.readersOf(beside[0])
	}
	by := map[reading.Conduct][]string{}
	for _, r := range readers {
		does := reading.ConductOf(r, c.Value, t.now)
		by[does] = append(by[does], r.Name)
	}
	var says []string
	for does, names := range by {
		says = append(says, fmt.Sprintf("a client of %s %s", anyOf(names), does.Says()))
	}
	if len(says) == 0 {
		return ""
	}
	slices.Sort(says)
	return "; " + strings.Join(says, ", ")
}

// judgeTypes reports keys that are no strings, and values too long for a lock.
func (t *tally) judgeTypes(r PrefixResult, p *prefixTally) []census.Finding {
	var out []census.Finding
	if p.huge > 0 && !t.everything {
		out = append(out, census.Finding{
			Severity: census.SeverityWarning, Kind: "large", Key: r.Prefix,
			What:   fmt.Sprintf("%s with values of up to %d bytes, such as %s: too long for a lock; only the first kilobyte was read", keys.Count(p.huge), p.most, strconv.Quote(p.large[0])),
			Advice: "narrow --match to the locks, or find out which program writes them",
		})
	}
	kinds := make([]string, 0, len(r.Types))
	for kind := range r.Types {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	for _, kind := range kinds {
		f := census.Finding{
			Severity: census.SeverityWarning, Kind: "type", Key: r.Prefix,
			What: fmt.Sprintf(
				"%s of type %s, such as %s: they are no locks, and every GET and GETSET on them fails",
				keys.Count(r.Types[kind]), kind, strconv.Quote(p.odd[kind])),
			Advice: "find out which program owns these keys: an old client that wants one gets an exception",
		}
		if kind == keys.Redisson {
			f.What = fmt.Sprintf("%s that Redisson holds (a hash), such as %s: a different lock, which old clients cannot read; their GET on it fails", keys.Count(r.Types[kind]), strconv.Quote(p.odd[kind]))
			f.Advice = "give Redisson's locks other names: the two kinds of locks do not exclude each other"
		} else if t.everything {
			continue // without a pattern, keys of other programs are not judged
		}
		out = append(out, f)
	}
	return out
}

// judgeOwners reports identities that several keys hold.
func (t *tally) judgeOwners() []census.Finding {
	var out []census.Finding
	owners := make([]string, 0, len(t.shared))
	for owner := range t.shared {
		owners = append(owners, owner)
	}
	slices.SortFunc(owners, func(a, b string) int { return cmp.Compare(t.shared[a][0]+a, t.shared[b][0]+b) })
	for _, owner := range owners {
		on := t.shared[owner]
		quoted := make([]string, len(on))
		for i, key := range on {
			quoted[i] = strconv.Quote(key)
		}
		out = append(out, census.Finding{
			Severity: census.SeverityWarning, Kind: "shared_owner", Key: on[0],
			What:   fmt.Sprintf("one identity, %s, holds %s: a program draws it once instead of once per lock, or a value was copied; clients that share an identity take each other's locks for their own", reading.ShortQuote(owner), strings.Join(quoted, " and ")),
			Advice: "let each instance of the lock draw an identity of its own",
		})
	}
	return out
}

// twin is a lock whose key exists in two encodings.
type twin struct {
	name     string
	encoding dialect.Encoding // in which it exists in addition to the plain one
}

// judgeTwins reports locks that exist in two encodings.
func (t *tally) judgeTwins() []census.Finding {
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

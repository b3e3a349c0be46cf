package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/audit/census"
	"github.com/getsetlock/getsetlock/audit/internal/reading"
	"github.com/getsetlock/getsetlock/legacy/dialect"
)

// judge says what is wrong with the keys of a prefix.
func (t *probeTally) judge(r PrefixResult, p *prefixTally) []census.Finding {
	var out []census.Finding
	forms := slices.DeleteFunc(slices.Clone(r.Forms), func(c FormCount) bool {
		return !c.lock() || t.all() && c.Look != dialect.LookStamp && c.Look != dialect.LookForever
	})
	now := t.now
	for i, a := range forms {
		for _, b := range forms[i+1:] {
			if f, ok := t.mixture(r.Prefix, a, b, now); ok {
				out = append(out, f)
			}
		}
	}
	out = append(out, t.judgeUnit(r, forms, now)...)
	for _, c := range r.Forms {
		out = append(out, t.judgeForm(r.Prefix, c, forms, now)...)
	}
	return append(out, t.judgeTypes(r, p)...)
}

// readersOf are the dialects that may read and write a form: those that were named, if one of them
// does, else all.
func (t *probeTally) readersOf(c FormCount) []dialect.Dialect {
	var out, named []dialect.Dialect
	for _, name := range c.Dialects {
		d, ok := t.known[name]
		if !ok {
			continue // of a record by somebody who knew one more
		}
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

// mixture says what the clients of two forms do to each other; ok is false where they get along.
func (t *probeTally) mixture(prefix string, a, b FormCount, now time.Time) (f census.Finding, ok bool) {
	inA, worseA, sureA := t.harms(a, b, now)
	inB, worseB, sureB := t.harms(b, a, now)
	if inA+inB == "" {
		return census.Finding{}, false
	}
	f = census.Finding{
		Severity: census.SeverityWarning, Kind: "mixture", Key: prefix,
		What:   fmt.Sprintf("two kinds of lock under one name: %s, and %s.%s%s", described(a), described(b), inA, inB),
		Advice: "no value is held for both: find out who writes which (audit --monitor names them) and give each kind keys of its own, or move both to one lock",
	}
	if (worseA && sureA || worseB && sureB) && !t.all() {
		f.Severity = census.SeverityError
	}
	return f, true
}

// harms is what readers of one form do with locks in the other. breaks: two can hold; sure: whichever
// of the possible dialects it is.
func (t *probeTally) harms(written, read FormCount, now time.Time) (text string, breaks, sure bool) {
	writers, readers := t.readersOf(written), t.readersOf(read)
	if len(writers) == 0 {
		return "", false, false
	}
	by := map[string][]string{}
	count := 0
	for _, r := range readers {
		m, err := meet(writers[0], r, now)
		if err != nil || m.harm() == "" {
			continue
		}
		if m.breaks() {
			breaks, count = true, count+1
		}
		by[m.harm()] = append(by[m.harm()], r.Name)
	}
	var says []string
	for harm, names := range by {
		says = append(says, fmt.Sprintf("a client of %s %s", anyOf(names), harm))
	}
	if len(says) == 0 {
		return "", false, false
	}
	slices.Sort(says)
	return fmt.Sprintf(" At a lock in %s %s.", written.Form, strings.Join(says, ", ")), breaks, count == len(readers)
}

// described is a form with its number, an example and its writers.
func described(c FormCount) string {
	text := fmt.Sprintf("%s (%s, such as %s", c.Form, keysWord(c.Keys), strconv.Quote(c.Examples[0]))
	if len(c.Dialects) > 0 {
		text += ", as of " + anyOf(c.Dialects)
	}
	return text + ")"
}

// anyOf lists names for a sentence, all of them: who reads it looks for his own.
func anyOf(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// judgeUnit compares with the dialect that was named, where nobody under the prefix writes its unit: then
// there is no mixture to see, and yet nobody of that dialect could share these locks.
func (t *probeTally) judgeUnit(r PrefixResult, forms []FormCount, now time.Time) []census.Finding {
	if len(t.cfg.Dialects) == 0 || !t.cfg.Dialects[0].HasStamp() || t.all() {
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
		m := meeting{Live: conductOf(d, c.Value, now), Dead: conductTakes}
		if writers := t.readersOf(c); len(writers) > 0 {
			var err error
			if m, err = meet(writers[0], d, now); err != nil {
				continue
			}
		}
		harm := m.harm()
		if harm == "" {
			continue
		}
		out = append(out, census.Finding{
			Severity: census.SeverityError, Kind: "unit", Key: r.Prefix,
			What:   fmt.Sprintf("%s: not what %s writes. A client of %s that meets one %s.", described(c), d.Name, d.Name, harm),
			Advice: "name the dialect that these clients really speak by --dialect, and let no other use these keys",
		})
	}
	return out
}

// judgeForm says what is wrong with one form's values.
func (t *probeTally) judgeForm(prefix string, c FormCount, beside []FormCount, now time.Time) []census.Finding {
	var out []census.Finding
	add := func(s census.Severity, kind, what, advice string) {
		out = append(out, census.Finding{Severity: s, Kind: kind, Key: prefix, What: what, Advice: advice})
	}
	if c.unreadable() && (!t.all() || len(beside) > 0) {
		what := fmt.Sprintf("%s that no dialect writes: %s", keysWord(c.Keys), unreadableWords(c))
		add(census.SeverityWarning, "unreadable", what+t.unreadableHarm(c, beside, now), "look at them by getsetlock ls, and find out who writes there; getsetlock itself takes them for held")
	}
	if c.Far > 0 {
		add(census.SeverityWarning, "far", fmt.Sprintf("%s of %s, further ahead than a lease: a wrong clock, a much longer lease, or forged; if the holder has crashed, they block until then", numberOf(c.Far), c.Form),
			"compare the writers' clocks; getsetlock doctor lists the keys, and moves them where the fastest clock (--ahead) and the greatest lease are known")
	}
	nothingEnds := c.Look == dialect.LookConstant || c.Look == dialect.LookToken || c.Look == dialect.LookUUID || c.Look == dialect.LookForever
	if nothingEnds && c.NoTTL > 0 && !t.all() {
		add(census.SeverityWarning, "no_ttl", fmt.Sprintf("%s with %s and no TTL, such as %s: nothing frees them when their holder crashes", keysWord(c.NoTTL), c.Form, strconv.Quote(c.Examples[0])),
			"if the holder is dead, free them by getsetlock unlock KEY --value V")
	}
	if c.Look == dialect.LookGuardLike || c.Look == dialect.LookTombstone {
		add(census.SeverityNote, "guards", fmt.Sprintf("%s with %s: a migration stands there, or random numbers do", keysWord(c.Keys), c.Form), "")
	}
	return out
}

func numberOf(n int64) string {
	if n == 1 {
		return "1 lock"
	}
	return fmt.Sprintf("%d locks", n)
}

// unreadableWords shows an example, and what a number of no plausible time would be in units that nobody
// writes.
func unreadableWords(c FormCount) string {
	text := fmt.Sprintf("%s, such as %s = %s", c.Form, strconv.Quote(c.Examples[0]), reading.ShortQuote(c.Value))
	if n, err := strconv.ParseInt(c.Value, 10, 64); err == nil && len(c.Value) == 16 {
		text += fmt.Sprintf(", which in microseconds would be %s", time.UnixMicro(n).UTC().Format("2006-01-02 15:04:05"))
	}
	return text
}

// unreadableHarm says what clients do with such a value: those that were named, else those whose
// locks stand beside it.
func (t *probeTally) unreadableHarm(c FormCount, beside []FormCount, now time.Time) string {
	readers := slices.Clone(t.cfg.Dialects)
	if len(readers) == 0 && len(beside) > 0 {
		readers = t.readersOf(beside[0])
	}
	by := map[conduct][]string{}
	for _, r := range readers {
		does := conductOf(r, c.Value, now)
		by[does] = append(by[does], r.Name)
	}
	words := map[conduct]string{
		conductTakes: "takes it for expired", conductClobbers: "overwrites it and never wins", conductThrows: "throws out of its acquire",
		conductWaits: "waits for ever", conductGivesUp: "gives up",
	}
	var says []string
	for does, names := range by {
		says = append(says, fmt.Sprintf("a client of %s %s", anyOf(names), words[does]))
	}
	if len(says) == 0 {
		return ""
	}
	slices.Sort(says)
	return "; " + strings.Join(says, ", ")
}

// judgeTypes names what is no string, and values too long for any lock.
func (t *probeTally) judgeTypes(r PrefixResult, p *prefixTally) []census.Finding {
	var out []census.Finding
	if p.huge > 0 && !t.all() {
		out = append(out, census.Finding{
			Severity: census.SeverityWarning, Kind: "large", Key: r.Prefix,
			What:   fmt.Sprintf("%s with values of up to %d bytes, such as %s: no lock's; only their first kilobyte was read", keysWord(p.huge), p.most, strconv.Quote(p.large[0])),
			Advice: "narrow --match to the locks, or find out who writes there",
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
			What:   fmt.Sprintf("%s of type %s, such as %s: no lock of this kind, and every GET and GETSET on them fails", keysWord(r.Types[kind]), kind, strconv.Quote(p.odd[kind])),
			Advice: "whose keys these are must be found out: an old client that wants one throws",
		}
		if kind == probeRedisson {
			f.What = fmt.Sprintf("%s that Redisson holds (a hash), such as %s: another lock, which the old clients cannot read; their GET on it fails", keysWord(r.Types[kind]), strconv.Quote(p.odd[kind]))
			f.Advice = "give Redisson names of its own: the two share nothing but the name"
		} else if t.all() {
			continue // of other programs' keys nothing was asked
		}
		out = append(out, f)
	}
	return out
}

// judgeOwners names identities on several keys.
func (t *probeTally) judgeOwners() []census.Finding {
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
			What:   fmt.Sprintf("one identity, %s, holds %s: it is drawn once for a program and not for each lock, or a value was copied; clients that share one take each other's locks for their own", reading.ShortQuote(owner), strings.Join(quoted, " and ")),
			Advice: "let each instance of the lock draw an identity of its own",
		})
	}
	return out
}

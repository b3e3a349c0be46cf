// SPDX-License-Identifier: Apache-2.0

package smallverbs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
	"github.com/getsetlock/getsetlock/internal/polite"
	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/legacy"
)

// States of a lock.
const (
	StateHeld       = "held"
	StateExpired    = "expired"
	StateUnreadable = "unreadable"
	StateLeft       = "left" // nobody holds it; a release left it to old clients for a moment
)

// withoutMarks drops each key M whose lock is listed itself, and each
// duplicate.
func withoutMarks(lines []lockLine) []lockLine {
	shown := map[string]bool{}
	for _, l := range lines {
		if l.marked || l.vacant {
			shown[legacy.MarkKey(l.raw)] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(lines), func(l lockLine) bool {
		again := l.mark && shown[l.raw]
		shown[l.raw] = true
		return again
	})
}

// readLock turns an observation of a key into a line. likely reports whether to
// show the line to a user who did not name the key. A line with an empty Type
// stands for nothing at all.
func readLock(o legacy.Observation, prefer string) (line lockLine, likely bool) {
	token, _, marked := o.Token()
	marked = marked && scope.IsToken(token)
	_, left := polite.Token(o.MarkValue)
	switch {
	case !o.Exists && o.MarkExists && left:
		return leftAlone(o), true
	case !o.Exists && marked:
		return markAlone(o, token), true
	case !o.Exists, reading.IsMark(o.Key, o.Value), isBookkeeping(o):
		return lockLine{}, false
	}
	line = lockLine{
		shown: shown{Key: out.Escaped(o.Key), Type: o.Type, State: StateUnreadable,
			Encoding: string(dialect.Plain)},
		compared: compared{raw: o.Key, held: o.Value}, kind: kind{marked: marked, vacant: left},
		now: o.ServerNow(),
	}
	line.unwrapKey()
	if o.Size > len(o.Value) {
		line.long = o.Size
	}
	if o.HasTTL {
		line.TTL = &o.PTTL
	}
	if marked {
		line.Protocol, line.Owner = out.ProtocolDual, token
	}
	if o.Type != "string" {
		return line, marked
	}
	line.Value = new(out.Escaped(o.Value))
	if token, note, ok := out.TokenLock(o); ok {
		line.readToken(o, token, note)
		return line, true
	}
	matches := dialect.Identify(o.Value, o.ServerNow(), dialect.Hints{Prefer: prefer})
	line.readValue(o, matches)
	stamp := slices.ContainsFunc(matches, func(m dialect.Match) bool { return m.Look == dialect.LookStamp })
	return line, stamp || marked || matches[0].Look == dialect.LookTombstone
}

// isBookkeeping reports whether a key is an auxiliary key of token locks. These
// are the counter of fencing numbers (whose value looks like a stamp in
// microseconds), the queues of waiters, the key that replicas acknowledge, the
// record of looks at old clients' keys, and that of a quorum.
func isBookkeeping(o legacy.Observation) bool {
	switch {
	case strings.HasPrefix(o.Key, "gsl:fence:"):
		return o.Type == "string" &&
			!strings.ContainsFunc(o.Value, func(r rune) bool { return r < '0' || r > '9' })
	case strings.HasPrefix(o.Key, "gsl:wait:"):
		return o.Type == "string" && o.Value == ""
	case scope.IsLook(o.Key), o.Key == "gsl:quorum":
		return o.Type == "hash"
	case strings.HasPrefix(o.Key, "gsl:queue:"), strings.HasPrefix(o.Key, "gsl:alive:"):
		return o.Type == "zset"
	}
	return false
}

// readToken fills in what the value of a token lock says. It names no dialect:
// other programs write such values too, without a note.
func (l *lockLine) readToken(o legacy.Observation, token, note string) {
	l.State, l.Protocol, l.token, l.Owner = StateHeld, out.ProtocolModern, true, token
	l.Note = out.Escaped(note)
	l.setUntil(o.ServerNow().Add(o.PTTL), o.ServerNow())
}

// markAlone describes a getsetlock client's lock whose key L is gone. The lock
// is lost, but its token on key M keeps other getsetlock clients away until its
// holder's job has ended.
func markAlone(o legacy.Observation, token string) lockLine {
	name := legacy.MarkKey(o.Key)
	line := lockLine{
		shown: shown{Key: out.Escaped(name), Type: "string", State: StateHeld, Protocol: out.ProtocolModern,
			Encoding: string(dialect.Plain), Owner: token, Value: new(out.Escaped(o.MarkValue)),
			TTL: &o.MarkPTTL},
		compared: compared{raw: name, held: token}, kind: kind{mark: true}, now: o.ServerNow(),
	}
	line.setUntil(o.ServerNow().Add(o.MarkPTTL), o.ServerNow())
	return line
}

// leftAlone describes a key that nobody holds and that a release left to old
// clients for a moment.
func leftAlone(o legacy.Observation) lockLine {
	line := markAlone(o, "")
	line.State, line.Protocol, line.Owner = StateLeft, "", ""
	line.Note = fmt.Sprintf("nobody holds it; left to old clients for %d ms", o.MarkPTTL.Milliseconds())
	return line
}

// unwrapKey sets the plain name of a key that a serializer wrote.
func (l *lockLine) unwrapKey() {
	for _, e := range []dialect.Encoding{dialect.JDK, dialect.JSON} {
		if name, err := (dialect.Dialect{KeyEncoding: e}).DecodeKey(l.raw); err == nil {
			l.Name, l.Encoding = out.Escaped(name), string(e)
			return
		}
	}
}

// readValue fills in the likeliest meaning of the value.
func (l *lockLine) readValue(o legacy.Observation, matches []dialect.Match) {
	m := matches[0]
	if m.Encoding != dialect.Plain && m.Encoding != "" {
		l.Encoding = string(m.Encoding)
	}
	if !l.marked || m.Look == dialect.LookStamp { // a guard has the form of no dialect in particular
		l.setDialects(matches)
	}
	switch m.Look {
	case dialect.LookEmpty, dialect.LookText, dialect.LookBinary, dialect.LookImplausible:
		return
	case dialect.LookTombstone:
		l.State, l.Protocol = StateHeld, out.ProtocolTombstone
		return
	}
	l.State = StateHeld
	l.Protocol = cmp.Or(l.Protocol, out.ProtocolLegacy)
	if m.Look == dialect.LookStamp {
		l.readStamp(o, m)
		return
	}
	if o.HasTTL {
		l.setUntil(o.ServerNow().Add(o.PTTL), o.ServerNow())
	}
	tells := m.Look == dialect.LookToken || m.Look == dialect.LookUUID || m.Look == dialect.LookDecimal
	if l.Owner == "" && tells {
		l.Owner = out.Escaped(o.Value)
	}
}

// readStamp reads a value that holds a time. It applies the rule of the
// preferred dialect: would its clients take the lock for expired if their
// clocks were the server's?
func (l *lockLine) readStamp(o legacy.Observation, m dialect.Match) {
	now := o.ServerNow()
	l.stamp = !o.Ours()
	l.setUntil(m.Expiry, now)
	_, bytes, _ := o.Token()
	// A getsetlock client's stamp lies a day beyond the end of its lock. That
	// end is the end of its token's TTL or, where the token is gone, of the PX
	// of the key.
	switch {
	case l.marked && o.Value == bytes:
		l.setUntil(now.Add(o.MarkPTTL), now)
	case o.HasTTL && m.Expiry.After(now.Add(o.PTTL)) && reading.StampOfOurs(o.Value, now, o.PTTL, nil):
		l.setUntil(now.Add(o.PTTL), now)
	}
	expired := m.Expiry.Before(now)
	if len(m.Dialects) > 0 {
		if d, err := dialect.Lookup(m.Dialects[0]); err == nil {
			d.ValueEncoding = m.Encoding
			if stamp, err := d.Decode(o.Value, now); err == nil {
				expired = d.LegacyExpired(dialect.Text(o.Value), "", now)
				l.Owner = cmp.Or(l.Owner, stamp.ID)
			}
		}
	}
	if expired {
		l.State = StateExpired
	}
}

// setDialects names the preferred dialect, and the others that write the same
// form.
func (l *lockLine) setDialects(matches []dialect.Match) {
	if len(matches[0].Dialects) == 0 {
		return
	}
	l.Dialect = matches[0].Dialects[0]
	for _, m := range matches {
		if matches[0].Look != dialect.LookStamp || m.Look == dialect.LookStamp {
			l.Also = append(l.Also, m.Dialects...)
		}
	}
	slices.Sort(l.Also)
	l.Also = slices.DeleteFunc(slices.Compact(l.Also), func(name string) bool { return name == l.Dialect })
}

func (l *lockLine) setUntil(t, serverNow time.Time) { l.Until, l.Left = t, new(t.Sub(serverNow)) }

// ageBy sets the age of an old client's lock from that client's lease. It is
// unknown where the client renews, since each renewal writes a new time.
func (l *lockLine) ageBy(lease time.Duration) {
	if lease == 0 || !l.stamp || l.marked || l.Dialect == "" || l.Left == nil {
		return
	}
	d, err := dialect.Lookup(l.Dialect)
	if err != nil || d.Renews != dialect.RenewsNever || lease < *l.Left {
		return
	}
	l.Age = new(lease - *l.Left)
}

package fleet

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/look"
	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/migrate/internal/record"
)

// scanSlice is how many keys the server goes through in one SCAN, and about how many looks travel in one
// message: some hundred microseconds in which it serves nobody else.
const scanSlice = 500

// longestLook is how much of a value is read. No mark and no token is longer.
const longestLook = 255

// form is what a value on an old key is.
type form int

const (
	formOther form = iota
	formStamp
	formGuard
	formTombstone
)

// survey is what stands on the keys of a namespace.
type survey struct {
	Keys                               int64 // looked at
	Stamps, Guards, Tombstones, Others int64
	Ours                               int64         // stamps of getsetlock clients, which are no evidence of an old one
	TombsEnd                           time.Duration // how long the last tombstone stands
	NoTTL                              names         // old clients' values that no server ends
	Lone                               names         // stamps without M and TTL that lie as far ahead as getsetlock clients'
	UUIDs                              names         // stamps of a kind whose clients take a bare number for none
	Strangers                          names         // guards and tombstones held by who is not registered
	Unslotted                          names         // keys beside which no second one can stand in their slot

	members []seat          // of the roster, which is read after the keys
	holders []holder        // of M's that depend on a guard or a tombstone
	records map[string]bool // namespaces that have a record
}

// holder is an old key and the tag of the getsetlock client that holds it.
type holder struct{ key, tag string }

// strangers are the holders that are none of the members.
func (s *survey) strangers(members []seat) {
	known := map[string]bool{}
	for _, m := range members {
		known[m.ID] = true
	}
	s.Strangers = names{}
	for _, h := range s.holders {
		if !known[h.tag] {
			s.Strangers.add(h.key)
		}
	}
}

// names are some of many.
type names struct {
	count int64
	some  []string
}

// mostNames is how many keys a finding names.
const mostNames = 5

func (n *names) add(name string) {
	n.count++
	if len(n.some) < mostNames {
		n.some = append(n.some, name)
	}
}

func (n names) String() string {
	slices.Sort(n.some)
	quoted := make([]string, len(n.some))
	for i, s := range n.some {
		quoted[i] = strconv.Quote(s)
	}
	text := strings.Join(quoted, ", ")
	if more := n.count - int64(len(n.some)); more > 0 {
		text += " and " + strconv.FormatInt(more, 10) + " more"
	}
	return text
}

// surveyor reads the keys of a namespace in slices.
type surveyor struct {
	mux       *wire.Mux
	namespace string
	scope     scope.Scope // without the keys of namespaces that were carved out
	record    stored      // which lists those
	dialect   dialect.Dialect
	tombstone string // encoded
	now       time.Time
	terms     dialect.Terms // what is known of the fleet: where a stamp of a getsetlock client lies
	out       survey
	holders   map[string]string // tag by old key, of M's that hang on a guard or a tombstone
}

func newSurveyor(mux *wire.Mux, namespace string, d dialect.Dialect, now time.Time) (*surveyor, error) {
	tombstone, err := d.EncodeValue(d.Tombstone())
	if err != nil {
		return nil, err
	}
	return &surveyor{
		mux: mux, namespace: namespace, scope: scope.Namespace(namespace, d.KeyEncoding), dialect: d, tombstone: tombstone, now: now,
		out: survey{records: map[string]bool{}}, holders: map[string]string{},
	}, nil
}

// goBy leaves out the keys of namespaces that a record lists as carved out. A
// sweep ends when the record is another one than that.
func (s *surveyor) goBy(found stored) {
	s.record, s.scope = found, s.scope.Except(found.Except...)
}

// look reads everything. SCAN may return a key twice while the server's tables move; holders are told
// apart by their keys, and for all else an approximate count is enough.
func (s *surveyor) look(ctx context.Context) (survey, error) {
	if err := s.scan(ctx, s.slice); err != nil {
		return survey{}, err
	}
	for _, key := range slices.Sorted(maps.Keys(s.holders)) {
		s.out.holders = append(s.out.holders, holder{key, s.holders[key]})
	}
	return s.out, nil
}

// scan calls fn with one slice of names after another: the namespace's keys,
// all records, and others that are named like them.
func (s *surveyor) scan(ctx context.Context, fn func(context.Context, []string) error) error {
	patterns := []string{"*"}
	if s.namespace != "" {
		patterns = []string{s.scope.Pattern(), record.Prefix + "*"}
	}
	for i, pattern := range patterns {
		cursor := "0"
		for {
			reply, err := redis.Values(s.mux.Do(ctx, "SCAN", cursor, "MATCH", pattern, "COUNT", scanSlice))
			if err != nil {
				return err
			}
			var keys []string
			if _, err := redis.Scan(reply, &cursor, &keys); err != nil {
				return err
			}
			if i > 0 { // the others have been seen by the first pattern
				keys = slices.DeleteFunc(keys, func(k string) bool { return strings.Contains(k, s.namespace) })
			}
			if err := fn(ctx, keys); err != nil {
				return err
			}
			if cursor == "0" {
				break
			}
		}
	}
	return nil
}

// markSuffix ends the name of our key beside an old one.
const markSuffix = ":gsl"

// guarded is the old key beside which a key of ours stands.
func guarded(mark string) (string, bool) {
	l, ok := strings.CutSuffix(mark, markSuffix)
	if !ok {
		return "", false
	}
	if inner, wrapped := strings.CutPrefix(l, "{"); wrapped {
		inner, wrapped = strings.CutSuffix(inner, "}")
		if wrapped && legacy.MarkKey(inner) == mark {
			return inner, true
		}
	}
	return l, legacy.MarkKey(l) == mark
}

// covers reports that a key on the server belongs to the namespace. It was read
// on our own connection, whose database is the one that is asked about.
func (s *surveyor) covers(raw string) bool { return s.scope.Covers(s.scope.Database(), raw) }

// slice looks at some keys with one message.
func (s *surveyor) slice(ctx context.Context, keys []string) error {
	var cmds []wire.Command
	var asked []string
	for _, key := range keys {
		if ns, ok := record.NamespaceOf(key); ok {
			s.out.records[ns] = true
		} else if last, ok := s.wanted(key); ok {
			asked = append(asked, key)
			cmds = append(cmds, wire.Cmd("GETRANGE", key, 0, last), wire.Cmd("PTTL", key))
		}
	}
	if len(cmds) == 0 {
		return nil
	}
	replies := s.mux.Batch(ctx, cmds)
	var stamps []valued
	for i, key := range asked {
		value, err := redis.String(replies[2*i].Value, replies[2*i].Err)
		left, err2 := redis.Int64(replies[2*i+1].Value, replies[2*i+1].Err)
		switch {
		case wire.IsWrongType(err):
			continue // no lock: a hash, a list
		case err != nil:
			return err
		case err2 != nil:
			return err2
		case left == -2:
			continue // gone since
		}
		if s.take(key, value, left) == formStamp {
			stamps = append(stamps, valued{key, value, left})
		}
	}
	return s.attribute(ctx, stamps)
}

// wanted reports that a key may be a lock of the namespace, and how much of its
// value is read: up to the byte last.
func (s *surveyor) wanted(key string) (last int, ok bool) {
	_, mark := guarded(key)
	if _, remembers := guarded(strings.TrimSuffix(key, look.Suffix)); remembers && !mark {
		return 0, false // no lock: what a getsetlock client remembers of one
	}
	return longestLook, !strings.HasPrefix(key, "gsl:") && s.covers(key)
}

// valued is a key with what stands there and its PTTL.
type valued struct {
	key, value string
	left       int64
}

// attribute tells stamps of getsetlock clients from old clients'. A PX says so
// where the dialect sets none, and else M, which carries the same bytes.
func (s *surveyor) attribute(ctx context.Context, stamps []valued) error {
	var asks []valued
	var cmds []wire.Command
	for _, v := range stamps {
		if v.left >= 0 && !s.dialect.ServerExpires() {
			s.out.Ours++
			continue
		}
		asks = append(asks, v)
		cmds = append(cmds, wire.Cmd("GETRANGE", legacy.MarkKey(v.key), 0, longestLook))
	}
	if len(asks) == 0 {
		return nil
	}
	for i, reply := range s.mux.Batch(ctx, cmds) {
		mark, err := redis.String(reply.Value, reply.Err)
		if err != nil && !wire.IsWrongType(err) && !wire.IsCluster(err) {
			return err
		}
		v := asks[i]
		if _, on, _ := strings.Cut(mark, " "); on == v.value {
			s.out.Ours++
			continue
		}
		s.out.Stamps++
		switch {
		case v.left >= 0:
		case mark == "" && s.perhapsOurs(v.value):
			s.out.Lone.add(v.key)
		default:
			s.out.NoTTL.add(v.key)
		}
	}
	return nil
}

// perhapsOurs reports that a stamp ends about as far ahead of the server's clock
// as those of getsetlock clients do: a day, give or take a lease.
func (s *surveyor) perhapsOurs(value string) bool {
	stamp, err := s.dialect.Decode(value, s.now)
	if err != nil {
		return false
	}
	off := stamp.Expiry.Sub(s.now) - s.terms.StampAhead()
	return off.Abs() <= max(s.terms.Greatest, s.dialect.Lease)
}

// take counts what stands on a key, and returns the form of what stands on one
// that old clients take.
func (s *surveyor) take(key, value string, left int64) form {
	if l, ok := guarded(key); ok {
		s.holds(l, value)
		return formOther
	}
	s.out.Keys++
	what := s.form(value)
	switch what {
	case formTombstone:
		s.out.Tombstones++
		s.out.TombsEnd = max(s.out.TombsEnd, time.Duration(left)*time.Millisecond)
	case formGuard:
		s.out.Guards++
	case formStamp: // attribute counts it
	default:
		s.out.Others++
		if s.stealer(value) {
			s.out.UUIDs.add(key)
		}
	}
	if left < 0 && what != formOther && what != formStamp {
		s.out.NoTTL.add(key)
	}
	if what != formOther && strings.Contains(key, "}") && legacy.MarkKey(key) != key+markSuffix {
		s.out.Unslotted.add(key)
	}
	return what
}

// holds notes who holds by a guard or a tombstone: token, bytes on the old key, tag.
func (s *surveyor) holds(l, mark string) {
	parts := strings.Split(mark, " ")
	if len(parts) < 2 {
		return
	}
	if what := s.form(parts[1]); what != formGuard && what != formTombstone {
		return
	}
	tag := ""
	if len(parts) > 2 {
		tag = parts[2]
	}
	s.holders[l] = tag
}

// stealer reports that a value is of clients that take what others write for no stamp at all, and so our
// guards of this dialect for a lock that is free. A uuid, a colon and a plausible time are nothing else.
func (s *surveyor) stealer(value string) bool {
	if s.dialect.Shape == dialect.ShapeUUIDNumber {
		return false
	}
	_, err := dialect.JedisUUID().Decode(value, s.now)
	return err == nil
}

// form tells our own marks from the old clients' values.
func (s *surveyor) form(value string) form {
	if value == s.tombstone {
		return formTombstone
	}
	text, err := s.dialect.DecodeValue(value)
	if err != nil {
		return formOther
	}
	number := text
	if at := strings.LastIndexByte(text, ':'); at >= 0 && s.dialect.Shape == dialect.ShapeUUIDNumber {
		number = text[at+1:]
	}
	low, high := s.dialect.GuardRange()
	if n, err := strconv.ParseInt(number, 10, 64); err == nil && n >= low && n <= high {
		return formGuard
	}
	if _, err := s.dialect.Decode(value, s.now); err == nil {
		return formStamp
	}
	return formOther
}

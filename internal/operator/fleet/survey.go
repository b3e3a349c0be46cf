package fleet

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/look"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/legacy"
)

// scanSlice is COUNT of each SCAN, and about the number of looks in one
// message. The server serves nobody else for some hundred microseconds
// meanwhile.
const scanSlice = 500

// longestLook is how much of a value is read, in bytes. No guard, tombstone or
// token is longer.
const longestLook = 255

// form is the kind of a value on a lock's key L.
type form int

const (
	formOther form = iota
	formStamp
	formGuard
	formTombstone
)

// survey is what the keys of a namespace hold.
type survey struct {
	Keys                               int64 // looked at
	Stamps, Guards, Tombstones, Others int64
	// stamps of getsetlock clients, which are no evidence of an old client
	Ours int64
	// Live are the keys whose old value may be a lock that an old client holds
	// now, and LiveFor is how long the longest of them lasts at most; zero
	// where that is unknown
	Live     names
	LiveFor  time.Duration
	Past     names         // those whose old value has passed by the server's clock
	TombsEnd time.Duration // longest TTL of a tombstone
	NoTTL    names         // values of old clients without a TTL
	// stamps without M and TTL that lie as far ahead as those of getsetlock
	// clients
	Lone names
	// stamps with a uuid, whose clients take a bare number for no stamp
	UUIDs names
	// guards and tombstones held by programs that are not registered
	Strangers names
	Unslotted names // keys whose slot can hold no second key

	members []seat          // fields of the roster, which is read after the keys
	left    []seat          // those of members that have left for good
	holders []holder        // getsetlock clients that hold by a guard or a tombstone
	records map[string]bool // namespaces that have a record
	rosters map[string]bool // namespaces that have a roster
}

// holder is a key L and the member id of the getsetlock client that holds it.
type holder struct{ key, tag string }

// strangers sets Strangers to the holders that are no members.
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

// names counts names and keeps some of them.
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

// someOf joins a few of many words, and says how many there are more.
func someOf(all []string) string {
	if more := len(all) - mostNames; more > 0 {
		return strings.Join(all[:mostNames], ", ") + " and " + strconv.Itoa(more) + " more"
	}
	return strings.Join(all, ", ")
}

// surveyor reads the keys of a namespace in slices.
type surveyor struct {
	mux       *wire.Mux
	namespace string
	scope     scope.Scope // keys of the namespace
	record    stored      // record by which a sweep was decided
	dialect   dialect.Dialect
	tombstone string // as it is stored
	now       time.Time
	terms     dialect.Terms // what is claimed of the fleet
	margin    time.Duration // how far a live stamp may have passed by the server's clock
	out       survey
	holders   map[string]string // member id by L, for each M whose holder depends on a guard or a tombstone
}

func newSurveyor(mux *wire.Mux, f *facts) (*surveyor, error) {
	d := f.dialect
	tombstone, err := d.EncodeValue(d.Tombstone())
	if err != nil {
		return nil, err
	}
	return &surveyor{
		mux: mux, namespace: f.namespace, scope: scope.Namespace(f.namespace, d.KeyEncoding),
		record: f.record, dialect: d, tombstone: tombstone, now: f.now,
		out: survey{records: map[string]bool{}, rosters: map[string]bool{}}, holders: map[string]string{},
	}, nil
}

// look reads all keys. SCAN may return a key twice while the server's tables
// move. Holders are told apart by their keys; for all else an approximate count
// is enough.
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
// all records and rosters, and other keys with the same prefix.
func (s *surveyor) scan(ctx context.Context, fn func(context.Context, []string) error) error {
	patterns := []string{"*"}
	if s.namespace != "" {
		patterns = []string{s.scope.Pattern(), record.Pattern}
	}
	for i, pattern := range patterns {
		cursor := "0"
		for {
			keys, next, err := s.mux.Scan(ctx, cursor, "MATCH", pattern, "COUNT", scanSlice)
			if err != nil {
				return err
			}
			cursor = next
			if i > 0 { // the first pattern has shown the others
				keys = slices.DeleteFunc(keys,
					func(k string) bool { return strings.Contains(k, s.namespace) })
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

// guarded is the key L that a key M belongs to. It returns false where the name
// is not that of an M.
func guarded(mark string) (string, bool) {
	found := scope.OldKeys(mark)
	if len(found) == 0 {
		return "", false
	}
	return found[len(found)-1], true // "{stock}:gsl" more likely belongs to "stock"
}

// covers reports that a key belongs to the namespace. It was read on a
// connection of the pool, so its database is the right one.
func (s *surveyor) covers(raw string) bool { return s.scope.Covers(s.scope.Database(), raw) }

// slice looks at some keys with one message.
func (s *surveyor) slice(ctx context.Context, keys []string) error {
	var cmds []wire.Command
	var asked []string
	for _, key := range keys {
		if ns, ok := record.NamespaceOf(key); ok {
			s.out.records[ns] = true
		} else if ns, ok := record.RosterOf(key); ok {
			s.out.rosters[ns] = true
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

// wanted reports that a key may be a lock of the namespace, and the last byte
// of its value that is read.
func (s *surveyor) wanted(key string) (last int, ok bool) {
	_, mark := guarded(key)
	if _, remembers := guarded(strings.TrimSuffix(key, look.Suffix)); remembers && !mark {
		return 0, false // the looks that a getsetlock client remembers, and no lock
	}
	return longestLook, !strings.HasPrefix(key, "gsl:") && s.covers(key)
}

// valued is a key with its value and its PTTL.
type valued struct {
	key, value string
	left       int64
}

// attribute tells stamps of getsetlock clients from those of old clients. A PX
// shows the former where the dialect sets none. Elsewhere M does, which holds
// the same bytes.
func (s *surveyor) attribute(ctx context.Context, stamps []valued) error {
	var cmds []wire.Command
	for _, v := range stamps {
		cmds = append(cmds, wire.Cmd("GETRANGE", legacy.MarkKey(v.key), 0, longestLook))
	}
	if len(cmds) == 0 {
		return nil
	}
	for i, reply := range s.mux.Batch(ctx, cmds) {
		mark, err := redis.String(reply.Value, reply.Err)
		if err != nil && !wire.IsWrongType(err) && !wire.IsCluster(err) {
			return err
		}
		v := stamps[i]
		_, on, _ := strings.Cut(mark, " ")
		if on != v.value {
			s.lives(v)
		}
		if on == v.value || v.left >= 0 && !s.dialect.ServerExpires() {
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

// lives counts an old value without M that may be a held lock. A stamp is one
// until it has passed by more than the margin. A value that says no time is one
// for as long as it stands.
func (s *surveyor) lives(v valued) {
	stamp, err := s.dialect.Decode(v.value, s.now)
	left := stamp.Expiry.Add(s.margin).Sub(s.now)
	if err == nil && s.dialect.HasStamp() && left <= 0 {
		s.out.Past.add(v.key)
		return
	}
	s.out.Live.add(v.key)
	if v.left >= 0 {
		left = time.Duration(v.left) * time.Millisecond
	}
	s.out.LiveFor = max(s.out.LiveFor, left)
}

// perhapsOurs reports that a stamp is where those of getsetlock clients are.
func (s *surveyor) perhapsOurs(value string) bool {
	stamp, err := s.dialect.Decode(value, s.now)
	return err == nil && reading.PerhapsOurs(stamp.Expiry.Sub(s.now), max(s.terms.Greatest, s.dialect.Lease),
		dialect.Bound(s.terms.Ahead))
}

// take counts what a key holds, and returns the form of a value on L.
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
	if what != formOther && strings.Contains(key, "}") && legacy.MarkKey(key) != key+scope.MarkSuffix {
		s.out.Unslotted.add(key)
	}
	return what
}

// holds notes the holder by M's value, if it depends on a guard or a tombstone.
// M holds a token, the bytes on L and a member id, separated by blanks.
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

// stealer reports a stamp with a uuid in another dialect. Its clients take
// other values for no stamp, and so take a guard for a free lock. Nothing else
// looks like a uuid, a colon and a plausible time.
func (s *surveyor) stealer(value string) bool {
	if s.dialect.Shape == dialect.ShapeUUIDNumber {
		return false
	}
	_, err := dialect.JedisUUID().Decode(value, s.now)
	return err == nil
}

// form tells guards and tombstones from old clients' values.
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
	constant := !s.dialect.HasStamp() && s.dialect.Constant != "" && text == s.dialect.Constant
	if _, err := s.dialect.Decode(value, s.now); err == nil || constant {
		return formStamp
	}
	return formOther
}

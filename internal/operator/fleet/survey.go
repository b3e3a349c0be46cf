// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/clocks"
	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/keys"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/internal/scope"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/legacy"
)

// survey is what the keys of a namespace hold.
type survey struct {
	counts
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
	RunOn     names // keys that go on with a letter or digit after the namespace's last

	members []seat          // fields of the roster, which is read after the keys
	left    []seat          // those of members that have left for good
	holders []holder        // getsetlock clients that hold by a guard or a tombstone
	records map[string]bool // namespaces that have a record
	rosters map[string]bool // namespaces that have a roster
}

// counts are how many keys there are, and how many values of each kind.
type counts struct {
	Keys                               int64 // looked at
	Stamps, Guards, Tombstones, Others int64
	// stamps of getsetlock clients, which are no evidence of an old client
	Ours int64
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
	var stamps []*keys.Key
	err := s.each(ctx, func(k *keys.Key) {
		if s.take(k) {
			stamps = append(stamps, &keys.Key{Name: k.Name, Value: k.Value, HasTTL: k.HasTTL, TTL: k.TTL})
		}
	}, func() error {
		defer func() { stamps = nil }()
		return s.attribute(ctx, stamps)
	})
	if err == nil && !s.scope.Every() { // else each has gone through these names too
		err = keys.Names(ctx, s.mux, record.Pattern, "", func(names []string, _ bool) error {
			for _, name := range names {
				s.registered(name)
			}
			return nil
		})
	}
	if err != nil {
		return survey{}, err
	}
	for _, key := range slices.Sorted(maps.Keys(s.holders)) {
		s.out.holders = append(s.out.holders, holder{key, s.holders[key]})
	}
	return s.out, nil
}

// registered notes the namespace whose record or roster has that name.
func (s *surveyor) registered(name string) {
	if ns, ok := record.NamespaceOf(name); ok {
		s.out.records[ns] = true
	} else if ns, ok := record.RosterOf(name); ok {
		s.out.rosters[ns] = true
	}
}

// each reads the strings of the namespace, slice by slice. It leaves out what
// getsetlock stores for itself. A key that this user may not read is an error.
func (s *surveyor) each(ctx context.Context, visit func(*keys.Key), sliced func() error) error {
	var denied error
	r := &keys.Reader{Mux: s.mux, Scope: s.scope, Clock: clocks.New(nil), Want: func(name string) bool {
		s.registered(name)
		return !reading.IsBookkeeping(name)
	}}
	return r.Each(ctx, func(k *keys.Key) {
		switch {
		case k.Denied != nil:
			denied = k.Denied
		case k.Type == "string":
			visit(k)
		}
	}, func() error {
		if denied != nil {
			return denied
		}
		return sliced()
	})
}

// runsOn reports that the word at the namespace's end goes on in the name, as
// stock does in stocktake:7.
func runsOn(namespace, name string) bool {
	wordy := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
	last, _ := utf8.DecodeLastRuneInString(namespace)
	next, _ := utf8.DecodeRuneInString(strings.TrimPrefix(name, namespace))
	return wordy(last) && wordy(next)
}

// attribute tells stamps of getsetlock clients from those of old clients. A PX
// shows the former where the dialect sets none. Elsewhere M does, which holds
// the same bytes.
func (s *surveyor) attribute(ctx context.Context, stamps []*keys.Key) error {
	var cmds []wire.Command
	for _, k := range stamps {
		cmds = append(cmds, wire.Cmd("GETRANGE", legacy.MarkKey(k.Name), 0, keys.Longest-1))
	}
	if len(cmds) == 0 {
		return nil
	}
	for i, reply := range s.mux.Batch(ctx, cmds) {
		mark, err := redis.String(reply.Value, reply.Err)
		if err != nil && !wire.IsWrongType(err) && !wire.IsCluster(err) {
			return err
		}
		k := stamps[i]
		_, on, _ := strings.Cut(mark, " ")
		if on != k.Value {
			s.lives(k)
		}
		if on == k.Value || k.HasTTL && !s.dialect.ServerExpires() {
			s.out.Ours++
			continue
		}
		s.out.Stamps++
		switch {
		case k.HasTTL:
		case mark == "" && s.perhapsOurs(k.Value):
			s.out.Lone.add(k.Name)
		default:
			s.out.NoTTL.add(k.Name)
		}
	}
	return nil
}

// lives counts an old value without M that may be a held lock. A stamp is one
// until it has passed by more than the margin. A value that says no time is one
// for as long as it stands.
func (s *surveyor) lives(k *keys.Key) {
	stamp, what := s.means(k.Value)
	left := stamp.Expiry.Add(s.margin).Sub(s.now)
	if what == reading.Stamp && left <= 0 {
		s.out.Past.add(k.Name)
		return
	}
	s.out.Live.add(k.Name)
	if k.HasTTL {
		left = k.TTL
	}
	s.out.LiveFor = max(s.out.LiveFor, left)
}

// perhapsOurs reports that a stamp is where those of getsetlock clients are.
func (s *surveyor) perhapsOurs(value string) bool {
	stamp, what := s.means(value)
	return what == reading.Stamp && reading.PerhapsOurs(stamp.Expiry.Sub(s.now),
		max(s.terms.Greatest, s.dialect.Lease), dialect.Bound(s.terms.Ahead))
}

// take counts what a key holds. It returns true for an old client's value on L,
// which attribute counts.
func (s *surveyor) take(k *keys.Key) bool {
	s.holds(k)
	if reading.IsMark(k.Name, k.Value) {
		return false
	}
	s.out.Keys++
	if name, err := s.dialect.DecodeKey(k.Name); err == nil && runsOn(s.namespace, name) {
		s.out.RunOn.add(name)
	}
	_, what := s.means(k.Value)
	old := what == reading.Stamp || what == reading.Token
	switch what {
	case reading.Tombstone:
		s.out.Tombstones++
		s.out.TombsEnd = max(s.out.TombsEnd, k.TTL)
	case reading.Guard:
		s.out.Guards++
	case reading.Foreign:
		s.out.Others++
		if s.stealer(k.Value) {
			s.out.UUIDs.add(k.Name)
		}
	}
	if !k.HasTTL && !old && what != reading.Foreign {
		s.out.NoTTL.add(k.Name)
	}
	if what != reading.Foreign && strings.Contains(k.Name, "}") &&
		legacy.MarkKey(k.Name) != k.Name+scope.MarkSuffix {
		s.out.Unslotted.add(k.Name)
	}
	return old
}

// holds notes the holder by M's value, if it depends on a guard or a tombstone.
// M holds a token, the bytes on L and a member id, separated by blanks. The key
// "{stock}:gsl" more likely belongs to "stock" than to "{stock}".
func (s *surveyor) holds(mark *keys.Key) {
	of, parts := scope.OldKeys(mark.Name), strings.Split(mark.Value, " ")
	if len(of) == 0 || len(parts) < 2 {
		return
	}
	if _, what := s.means(parts[1]); what != reading.Guard && what != reading.Tombstone {
		return
	}
	tag := ""
	if len(parts) > 2 {
		tag = parts[2]
	}
	s.holders[of[len(of)-1]] = tag
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

// means reads a value of L in the fleet's dialect.
func (s *surveyor) means(value string) (dialect.Stamp, reading.Meaning) {
	return reading.Means(&s.dialect, value, s.now)
}

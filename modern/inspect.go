// SPDX-License-Identifier: Apache-2.0

package modern

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/wire"
	"github.com/getsetlock/getsetlock/lock/backend"
)

// Info describes the value of a key.
type Info struct {
	Key    string
	Exists bool
	Type   string // result of TYPE

	// Value is the first kilobyte, at most, of a string of Size bytes.
	Value string
	Size  int

	// Token and Note are the parts of Value before and after its first blank.
	Token, Note string

	// Left is the rest of the key's TTL by the server's clock. The holder may
	// renew the key before that has passed. HasTTL is false for a key without a
	// TTL, which no token lock writes.
	Left   time.Duration
	HasTTL bool

	// Fence is the last fencing number drawn from the key's counter, which
	// other keys of the namespace may share; the holder's is not greater. Zero
	// if there is none, or without Config.Fence.
	Fence int64

	// Looks describes a value that no token lock writes.
	Looks string

	// Habits describes what this process saw other clients do to the key that
	// clients which compare tokens do not do.
	Habits []string
}

// Inspect is that of the Backend.
func (b *engine) Inspect(ctx context.Context, key string) (Info, error) {
	return b.inspect(ctx, b.user, key)
}

// inspect is Inspect over the given connection.
func (b *engine) inspect(ctx context.Context, on sender, key string) (Info, error) {
	if key == "" {
		return Info{}, valid(key, time.Second)
	}
	look, keys := lookScript, []any{key}
	if b.cfg.Fence { // without Fence the user may lack the right to the counter
		look, keys = lookBothScript, []any{key, b.counter(key)}
	}
	reply, err := on.Eval(ctx, look, keys...)
	if b.cfg.Fence && wire.IsMoving(err) { // the key and the counter are on two nodes for now
		reply, err = on.Eval(ctx, lookScript, key)
	}
	if err != nil {
		return Info{}, trouble("look at", key, err)
	}
	f, _ := reply.([]any)
	if len(f) != 5 {
		return Info{}, trouble("look at", key, errOddReply)
	}
	info := Info{Key: key, Habits: b.habits.of(key)}
	info.read(f[0], f[1], f[2], f[3], backend.ReadClock(ctx).Wall)
	info.Fence, _ = redis.Int64(f[4], nil)
	return info, nil
}

// Describe is Inspect for [lock.Client.Inspect]. Its Detail is an Info.
func (b *engine) Describe(ctx context.Context, key string) (backend.Info, error) {
	info, err := b.Inspect(ctx, key)
	return described(ctx, info, err)
}

func described(ctx context.Context, info Info, err error) (backend.Info, error) {
	if err != nil {
		return backend.Info{}, err
	}
	d := backend.Info{Key: info.Key, Value: info.Value, Detail: info}
	if info.Exists {
		d.Held = info.refusal(backend.ReadClock(ctx).Wall)
	}
	return d, nil
}

// read fills in what a script says of a key: TYPE, the value's beginning,
// STRLEN, PTTL.
func (i *Info) read(kind, value, size, left any, now time.Time) {
	i.Type, _ = redis.String(kind, nil)
	i.Exists = i.Type != "none"
	i.Value, _ = redis.String(value, nil)
	i.Size, _ = redis.Int(size, nil)
	if left, _ := left.(int64); i.Exists && left >= 0 {
		i.HasTTL, i.Left = true, time.Duration(left)*time.Millisecond
	}
	i.Token, i.Note, _ = strings.Cut(i.Value, " ")
	i.Looks = looks(*i, now)
}

// refusal returns the error that describes the key to a waiter. now is a
// reading of the clock for HeldError.Until.
func (i Info) refusal(now time.Time) *backend.HeldError {
	return &backend.HeldError{Key: i.Key, Owner: i.Value, Left: i.Left, Until: i.until(now),
		Protocol: i.Looks}
}

// looks describes a value that no token lock writes. A value without a TTL is
// judged by its shape alone: whatever time it shows, no token lock wrote it.
// With a TTL it may be a token that is a number. So there it must show a time
// near now.
func looks(info Info, now time.Time) string {
	switch {
	case !info.Exists:
		return ""
	case info.Type == "hash":
		return "a hash: probably a Redisson lock, which a token lock cannot share"
	case info.Type != "string":
		return "a " + info.Type + ", not a lock"
	case info.Size > 1024:
		return fmt.Sprintf("a value of %d bytes, not a lock", info.Size)
	case info.HasTTL && !stampNear(info.Value, now):
		return ""
	case info.HasTTL:
		return "a timestamp: " + ofTheOldKind
	case stamp(info.Value):
		return "a timestamp without a TTL: " + ofTheOldKind
	}
	return "a value without a TTL: another program wrote it, and it never expires"
}

const ofTheOldKind = "an old client's lock; package legacy shares it with old clients, and getsetlock migrate moves all of them to token locks"

// stampNear reports whether value is a time near now in the form of some old
// client; some of those set TTLs on their keys. Most tokens do not end like a
// time, and only that is checked first.
func stampNear(value string, now time.Time) bool {
	const fewestDigits = 10 // digits of a time in seconds
	tail := strings.TrimRight(value, `"`)
	if len(tail)-len(strings.TrimRight(tail, "0123456789.")) < fewestDigits {
		return false
	}
	return dialect.Identify(value, now, dialect.Hints{})[0].Look == dialect.LookStamp
}

// stamp reports whether value has the shape of some old client's timestamp, of
// any time. Smaller numbers are thread ids and the like.
func stamp(value string) bool {
	const fewestDigits = 9
	for _, d := range dialect.Presets() {
		_, err := d.Decode(value, time.Unix(0, 0))
		if d.HasStamp() && len(value) >= fewestDigits &&
			(err == nil || errors.Is(err, dialect.ErrImplausible)) {
			return true
		}
	}
	return false
}

// until returns the end of the key's TTL by the clock that now was read from;
// zero without a TTL.
func (i Info) until(now time.Time) time.Time {
	if !i.HasTTL {
		return time.Time{}
	}
	return now.Add(i.Left)
}

func (i Info) who() string {
	s := fmt.Sprintf("token %q", i.Token)
	if i.Note != "" {
		s += fmt.Sprintf(" (%s)", i.Note)
	}
	if i.Looks != "" {
		s = i.Looks
	}
	return s
}

// held returns the error that says who has the key. If that cannot be found
// out, the key still counts as held.
func (b *engine) held(ctx context.Context, key string) error {
	info, err := b.Inspect(ctx, key)
	if err != nil || !info.Exists {
		return &backend.HeldError{Key: key} // or it ended since
	}
	return info.refusal(backend.ReadClock(ctx).Wall)
}

// ForceRelease is that of the Backend.
func (b *engine) ForceRelease(ctx context.Context, key, value string) (bool, error) {
	return b.forceRelease(ctx, b.user, key, value)
}

// forceRelease is ForceRelease over the given connection.
func (b *engine) forceRelease(ctx context.Context, on sender, key, value string) (bool, error) {
	if value == "" {
		return false, fmt.Errorf("modern: key %q: the value to compare with is empty", key)
	}
	deleted, err := b.giveUp(ctx, on, key, value)
	if err != nil {
		return false, trouble("delete", key, err)
	}
	return deleted, nil
}

// habits records what other clients did to keys of this Backend, for the last
// few keys that were affected.
type habits struct {
	mu   sync.Mutex
	keys []string
	seen map[string][]string
}

const mostHabits, mostOfAKey = 256, 8

// habitDeleted is the habit of a key that ended before its TTL, which no key
// does by itself.
const habitDeleted = "it was deleted or replaced while a lease of this process had time left: by a client that does not compare tokens, an unlock by hand, a flush, a fail-over, or a step of the server's clock"

// habitTouched describes a TTL that differs from the one that the lease set.
func habitTouched(left, should time.Duration) string {
	if left < 0 {
		return fmt.Sprintf(
			"its TTL was removed when %v should be left: by a client that does not compare tokens",
			should.Round(time.Millisecond))
	}
	return fmt.Sprintf("its TTL was changed, to %v when %v should be left: by a client that does not compare tokens, or a step of the server's clock", left, should.Round(time.Millisecond))
}

func (h *habits) add(key, what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seen == nil {
		h.seen = make(map[string][]string)
	}
	if _, known := h.seen[key]; !known {
		if len(h.keys) == mostHabits {
			delete(h.seen, h.keys[0])
			h.keys = h.keys[1:]
		}
		h.keys = append(h.keys, key)
	}
	if n := len(h.seen[key]); n < mostOfAKey && !slices.Contains(h.seen[key], what) {
		h.seen[key] = append(h.seen[key], what)
	}
}

func (h *habits) of(key string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.seen[key]...)
}

// Stats has counts of events since New.
type Stats struct {
	Unsure          uint64 // attempts whose outcome is unknown
	ReplicasMissing uint64 // acquisitions that too few replicas acknowledged
}

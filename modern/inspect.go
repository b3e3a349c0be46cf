package modern

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/legacy/dialect"
	"github.com/getsetlock/getsetlock/lock"
)

// Info is what stands on a key.
type Info struct {
	Key    string
	Exists bool
	Type   string // as TYPE says

	// Value is at most the first kilobyte of a string of Size bytes.
	Value string
	Size  int

	// Token and Note are the parts of Value before and after its first blank.
	Token, Note string

	// Left is the rest of the key's TTL by the server's clock; HasTTL is false for a key without,
	// which no token lock leaves behind.
	Left   time.Duration
	HasTTL bool

	// Fence is the greatest fencing number drawn in the namespace so far; the holder's is not
	// greater. Zero if there is none.
	Fence int64

	// Looks says what a value is that no token lock writes.
	Looks string

	// Habits are things that this process saw others do to the key, which clients that compare
	// tokens do not do.
	Habits []string
}

// Inspect looks at a key and takes nothing.
func (b *Backend) Inspect(ctx context.Context, key string) (Info, error) {
	if key == "" {
		return Info{}, valid(key, time.Second)
	}
	reply, err := b.user.Eval(ctx, lookScript, key, b.fence)
	if err != nil {
		return Info{}, trouble("look at", key, err)
	}
	f, _ := reply.([]any)
	if len(f) != 5 {
		return Info{}, trouble("look at", key, errOddReply)
	}
	info := Info{Key: key, Habits: b.habits.of(key)}
	info.Type, _ = redis.String(f[0], nil)
	info.Exists = info.Type != "none"
	info.Value, _ = redis.String(f[1], nil)
	info.Size, _ = redis.Int(f[2], nil)
	if left, _ := redis.Int64(f[3], nil); left >= 0 {
		info.HasTTL, info.Left = true, time.Duration(left)*time.Millisecond
	}
	info.Fence, _ = redis.Int64(f[4], nil)
	info.Token, info.Note, _ = strings.Cut(info.Value, " ")
	info.Looks = looks(info)
	return info, nil
}

// looks names what no token lock writes. A value is judged by its shape alone: what time it is does
// not matter for telling a timestamp from a token.
func looks(info Info) string {
	switch {
	case !info.Exists:
		return ""
	case info.Type == "hash":
		return "a hash: Redisson holds its locks so, which no token lock can share"
	case info.Type != "string":
		return "a " + info.Type + ", not a lock"
	case info.Size > 1024:
		return fmt.Sprintf("a value of %d bytes, not a lock's", info.Size)
	case info.HasTTL:
		return ""
	}
	for _, d := range dialect.Presets() {
		if !d.HasStamp() {
			continue
		}
		if r := d.Read(dialect.Text(info.Value)); r.Kind == dialect.KindNumber {
			return "a timestamp without a TTL: a lock of the old kind (package legacy); package migrate is the way from it"
		}
	}
	return "a value without a TTL: whoever wrote it is not a token lock, and it may stand for ever"
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

// held says who has the key. Trouble in finding out does not make it less held.
func (b *Backend) held(ctx context.Context, key string) error {
	e := &lock.HeldError{Key: key}
	info, err := b.Inspect(ctx, key)
	if err != nil || !info.Exists {
		return e // or gone since
	}
	e.Owner, e.Protocol, e.Left = info.Value, info.Looks, info.Left
	return e
}

// ForceRelease deletes the key if its value is exactly value, whoever holds it. It reports whether it
// was. The holder is not asked; a holder of ours is told at once where the server tells of changes,
// else at its next renewal.
func (b *Backend) ForceRelease(ctx context.Context, key, value string) (bool, error) {
	if value == "" {
		return false, fmt.Errorf("modern: key %q: the value to compare with is empty", key)
	}
	deleted, err := b.native.compareAndDelete(ctx, b.user, key, value)
	if err != nil {
		return false, trouble("delete", key, err)
	}
	return deleted, nil
}

// habits remembers what others did to keys of ours, for the last few keys it happened to.
type habits struct {
	mu   sync.Mutex
	keys []string
	seen map[string][]string
}

const mostHabits = 256

func (h *habits) touched(key, what string) { h.add(key, what) }

func (h *habits) deleted(key string) {
	h.add(key, "it was gone while a lease of ours was trusted or just over: expired, or deleted by a client that does not compare")
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
	if n := len(h.seen[key]); n == 0 || n < 8 && h.seen[key][n-1] != what {
		h.seen[key] = append(h.seen[key], what)
	}
}

func (h *habits) of(key string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.seen[key]...)
}

// Stats counts what happened since New.
type Stats struct {
	Unsure          uint64 // attempts whose outcome was not known
	ReplicasMissing uint64 // acquisitions that too few replicas acknowledged
}

// Stats returns the counts.
func (b *Backend) Stats() Stats {
	return Stats{Unsure: b.stats.unsure.Load(), ReplicasMissing: b.stats.replicasMissing.Load()}
}

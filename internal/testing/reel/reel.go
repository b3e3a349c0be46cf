// SPDX-License-Identifier: Apache-2.0

// Package reel plays what happens on a server, for tests of what counts it. Its
// events are timed in milliseconds since a first moment.
package reel

import (
	"strconv"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
)

// Addresses of clients.
const (
	Anna = "10.0.0.1:1000"
	Bert = "10.0.0.2:2000"
	Cleo = "10.0.0.3:3000"
)

// At returns an instant by the server's clock.
func At(ms int) time.Time {
	return time.UnixMilli(1_770_000_000_000 + int64(ms)).UTC()
}

// Reel is a sequence of events.
type Reel struct {
	Events []offset.Observed
	add    func(offset.Observed)
}

// New returns an empty reel that passes each event on to add.
func New(add func(offset.Observed)) *Reel { return &Reel{add: add} }

// Begin adds that MONITOR is on from now on.
func (r *Reel) Begin() {
	r.Add(offset.Observed{At: At(-100_000), Kind: offset.ObservedGap, Reason: "monitor budget begins"})
}

// Add adds an event.
func (r *Reel) Add(o offset.Observed) {
	r.Events = append(r.Events, o)
	r.add(o)
}

// Do adds a command that the server executed.
func (r *Reel) Do(ms int, addr string, words ...string) {
	r.Add(offset.Observed{At: At(ms), Kind: offset.ObservedCommand, Addr: addr, Args: words})
}

// Look adds a look at a key; an empty value is a missing key.
func (r *Reel) Look(ms int, key, value string) {
	r.Add(offset.Observed{At: At(ms), Kind: offset.ObservedLook, Key: key, Value: value, Exists: value != ""})
}

// ServerIs adds that the server reports its run id.
func (r *Reel) ServerIs(ms int, run string) {
	r.Add(offset.Observed{At: At(ms), Kind: offset.ObservedGap, Reason: reading.OfRun + " " + run})
}

// Stamp returns what a Jedis client with a right clock and a lease of a minute
// writes.
func Stamp(ms int) string { return strconv.FormatInt(At(ms).UnixMilli()+60_001, 10) }

// StampOf returns what a client of a dialect writes when its clock shows now.
func StampOf(t *testing.T, d dialect.Dialect, now time.Time, lease time.Duration) string {
	t.Helper()
	text, err := d.Stamp(now, lease, d.NewID([16]byte{7, byte(now.UnixMilli())}))
	if err != nil {
		t.Fatal(err)
	}
	bytes, err := d.EncodeValue(text)
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

// Spellings are the encodings that Spring's serializers produce.
var Spellings = []dialect.Encoding{dialect.Plain, dialect.JDK, dialect.JSON}

// Spelling returns the dialect of a RedisTemplate that uses one serializer for
// keys and values.
func Spelling(e dialect.Encoding) dialect.Dialect {
	d := dialect.Template()
	d.KeyEncoding, d.ValueEncoding = e, e
	return d
}

// KeyOf returns a key as clients of a dialect write it.
func KeyOf(t *testing.T, d dialect.Dialect, name string) string {
	t.Helper()
	key, err := d.EncodeKey(name)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

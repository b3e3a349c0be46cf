// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
)

// recorder writes events as lines, hashed if so configured. After its first
// error it writes nothing more, so a record ends with a whole line or with the
// line that failed.
type recorder struct {
	to     *offset.ObservedWriter
	hash   []byte
	reader *reading.Reader
	err    error
}

func newRecorder(cfg Config) *recorder {
	r := &recorder{hash: cfg.Hash, reader: reading.NewReader(cfg.Dialects)}
	if cfg.Record != nil {
		r.to, r.err = offset.NewObservedWriter(cfg.Record)
	}
	return r
}

func (r *recorder) event(o offset.Observed) {
	if r.to == nil || r.err != nil {
		return
	}
	if len(r.hash) > 0 {
		o = r.hashed(o)
	}
	r.err = r.to.Write(o)
}

// hold adds a line about a hold, which simulations read. A replay computes the
// holds anew and skips such lines.
func (r *recorder) hold(h census.Hold) {
	r.event(offset.Observed{At: h.At, Kind: offset.ObservedHold, Addr: h.Addr, Key: h.Key,
		For: max(0, h.For)})
}

// digest returns the text that replaces a hidden one; see [Config.Hash].
func (r *recorder) digest(kind, text string) string {
	m := hmac.New(sha256.New, r.hash)
	m.Write([]byte(kind))
	m.Write([]byte{0})
	m.Write([]byte(text))
	return hex.EncodeToString(m.Sum(nil)[:16])
}

// key hides the name of a key.
func (r *recorder) key(key string) string { return "h:" + r.digest("key", key) }

func (r *recorder) value(value string, o offset.Observed) string {
	read := r.reader.ReadAny(value, o.At)
	if !read.Known() {
		return "h:" + r.digest("value", value)
	}
	if id, number, ok := strings.Cut(value, ":"); ok && len(id) == 36 &&
		id != strings.Repeat("0", 8)+"-0000-0000-0000-000000000000" {
		var raw [16]byte
		digest, _ := hex.DecodeString(r.digest("uuid", id))
		copy(raw[:], digest)
		return dialect.JedisUUID().NewID(raw) + ":" + number
	}
	if len(read.Dialects) > 0 && !read.Dialects[0].HasStamp() {
		return "h:" + r.digest("value", value)
	}
	return value
}

// hashed returns the event without what the record must hide. Options and TTLs
// of commands stay.
func (r *recorder) hashed(o offset.Observed) offset.Observed {
	if o.Key != "" {
		o.Key = r.key(o.Key)
	}
	if o.Exists {
		o.Value = r.value(o.Value, o)
	}
	if o.Kind != offset.ObservedCommand || len(o.Args) < 2 {
		return o
	}
	args := append([]string(nil), o.Args...)
	switch strings.ToUpper(args[0]) {
	case "SETNX", "SET", "GETSET":
		args[1] = r.key(args[1])
		if len(args) > 2 {
			args[2] = r.value(args[2], o)
		}
	case "SETEX", "PSETEX":
		args[1] = r.key(args[1])
		if len(args) > 3 {
			args[3] = r.value(args[3], o)
		}
	case "EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT", "MOVE", strings.ToUpper(reading.Called):
		args[1] = r.key(args[1])
	case "COPY":
		for i := 1; i < min(3, len(args)); i++ {
			args[i] = r.key(args[i])
		}
	case "FLUSHALL", "FLUSHDB", "SWAPDB":
	default:
		for i := 1; i < len(args); i++ {
			args[i] = r.key(args[i])
		}
	}
	o.Args = args
	return o
}

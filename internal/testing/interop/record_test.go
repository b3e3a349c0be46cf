// SPDX-License-Identifier: Apache-2.0

//go:build real

package interop

import (
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

var record = flag.Bool("record", false, "write the vectors anew from the jar instead of comparing with them")

const (
	vectors       = "../../../internal/dialect/testdata/vectors/jedis-jar.txt"
	recordCommand = "go test -tags real ./internal/testing/interop -run TestCommitted -record"
)

// The test fails if a line was changed by hand, if a cell was changed without
// recording, or if a JVM behaves differently. It spends most of its time on a
// lock's default wait.
func TestCommittedVectorsMatchTheJar(t *testing.T) {
	t.Parallel()
	r := &recorder{tb: t, server: redistest.Real(t, redistest.Options{})}
	r.all(testContext(t))
	got := r.text.String()
	if *record {
		if err := os.WriteFile(vectors, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(vectors)
	if err != nil {
		t.Fatalf("no vectors; record them with: %s: %v", recordCommand, err)
	}
	if got == string(want) {
		return
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		if g, w := lineAt(gotLines, i), lineAt(wantLines, i); g != w {
			t.Errorf("line %d\n  file %s\n  Java %s", i+1, w, g)
		}
	}
	t.Errorf("if Java is right, record anew with: %s", recordCommand)
}

func lineAt(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(no such line)"
}

// recorder records what Java does. One key serves all cells of a JVM, one after
// the other.
type recorder struct {
	tb     testing.TB
	server *redistest.Server
	store  store
	text   strings.Builder

	client *Client
	now    int64
}

const key = "k"

// heldForever is a value that every jar takes for held.
const heldForever = "9223372036854775807"

func (r *recorder) linef(format string, a ...any) { fmt.Fprintf(&r.text, format+"\n", a...) }

func (r *recorder) all(ctx context.Context) {
	r.store = openStore(r.tb, r.server)
	r.text.WriteString(jarHeader + "\n")
	attempts := r.beginAttempts(ctx)
	for _, now := range pinnedClocks {
		r.pinned(ctx, now, func() { r.stamps(ctx) })
	}
	r.linef("")
	r.pinned(ctx, pinnedClocks[0], func() { r.foreign(ctx, foreignCells) })
	r.pinned(ctx, before1970, func() { r.foreign(ctx, foreignBefore1970) })
	r.linef("")
	r.pinned(ctx, pinnedClocks[0], func() { r.releases(ctx) })
	r.linef("")
	attempts()
}

// pinned runs do with a JVM whose clock stands still at now. It first checks
// the JVM's clock, since any other clock would record nonsense.
func (r *recorder) pinned(ctx context.Context, now int64, do func()) {
	j, err := Start(ctx, Pinned(time.UnixMilli(now)))
	if err != nil {
		r.tb.Fatal(err)
	}
	defer func() { r.must(j.Close()) }()
	if got, err := j.Clock(ctx); err != nil || got != now {
		r.tb.Fatalf("the JVM's clock is %d, not pinned at %d: %v", got, now, err)
	}
	r.client, r.now = NewClient(r.tb, j, r.server.Addr()), now
	do()
}

func (r *recorder) newLock(ctx context.Context, wait, lease time.Duration) {
	r.must(r.client.Lock(ctx, Jar, key, wait, lease))
}

func (r *recorder) must(err error) {
	r.tb.Helper()
	if err != nil {
		r.tb.Fatal(err)
	}
}

func (r *recorder) stamps(ctx context.Context) {
	for _, lease := range stampLeases {
		r.must(r.store.put(key, "missing"))
		wait := time.Duration(0)
		word := fmt.Sprint(lease.Milliseconds())
		if lease == Default {
			wait, word = Default, "default"
		}
		r.newLock(ctx, wait, lease)
		got, err := r.client.Acquire(ctx)
		r.must(err)
		state, err := r.store.state(key)
		r.must(err)
		value, err := unhex(state)
		r.must(err)
		if !got.Won {
			r.tb.Fatalf("lease %v: refused on a missing key", lease)
		}
		r.linef("stamp %d %s %s", r.now, word, value)
	}
}

// beginAttempts starts the waits, which pass while everything else is recorded,
// since the default takes ten seconds. Each client has its own key. The
// function that it returns writes the lines.
func (r *recorder) beginAttempts(ctx context.Context) (finish func()) {
	pending := make([]*Acquiring, len(attemptWaits))
	clients := make([]*Client, len(attemptWaits))
	for i, wait := range attemptWaits {
		held := fmt.Sprint("held-", i)
		_, err := r.store.conn.Do("SET", held, heldForever)
		r.must(err)
		clients[i] = SharedClient(r.tb, r.server.Addr())
		r.must(clients[i].Lock(ctx, Jar, held, wait, Default))
		pending[i], err = clients[i].BeginAcquire()
		r.must(err)
	}
	return func() {
		for i, wait := range attemptWaits {
			got, err := pending[i].Wait(ctx)
			r.must(err)
			if got.Won {
				r.tb.Fatalf("wait %v: acquired what is held", wait)
			}
			calls, err := clients[i].Trace(ctx)
			r.must(err)
			r.linef("attempts %s default %d %d", millis(wait), count(calls, "setnx"), got.Sleeps)
		}
	}
}

func count(calls []Call, verb string) (n int) {
	for _, c := range calls {
		if c.Verb == verb {
			n++
		}
	}
	return n
}

func (r *recorder) foreign(ctx context.Context, cells []cell) {
	for _, c := range cells {
		r.must(r.store.put(key, c.before))
		r.newLock(ctx, 0, time.Minute)
		words, outcome := r.acquire(ctx, c.acts)
		r.linef("# %s", c.what)
		r.linef("foreign %s %d %s %s left=%s", c.before, r.now, outcome, strings.Join(words, " "), r.left())
	}
}

func (r *recorder) releases(ctx context.Context) {
	for _, c := range releaseCells {
		r.must(r.store.put(key, c.before))
		r.newLock(ctx, 0, time.Minute)
		var words []string
		for _, do := range strings.Fields(c.script) {
			words = append(words, do)
			switch do {
			case "acquire":
				calls, outcome := r.acquire(ctx, nil)
				words = append(append(words, calls...), outcome)
			case "release":
				words = append(words, r.release(ctx)...)
			default:
				r.act(do)
			}
		}
		r.linef("# %s", c.what)
		r.linef("release %s %d %s left=%s", c.before, r.now, strings.Join(words, " "), r.left())
	}
}

// acquire sends the jar's commands one by one, with the other client's acts
// just before the commands that the cell names.
func (r *recorder) acquire(ctx context.Context, acts map[string]string) (words []string, outcome string) {
	r.must(r.client.Step(ctx, true))
	p, err := r.client.BeginAcquire()
	r.must(err)
	words = r.calls(ctx, acts)
	got, err := p.Wait(ctx)
	var thrown *Exception
	switch {
	case errors.As(err, &thrown):
		return words, "exception:" + thrown.Class
	case err != nil:
		r.tb.Fatal(err)
	case got.Won:
		return words, "acquired"
	}
	return words, "refused"
}

func (r *recorder) release(ctx context.Context) []string {
	r.must(r.client.Step(ctx, true))
	wait, err := r.client.BeginRelease()
	r.must(err)
	words := r.calls(ctx, nil)
	r.must(wait(ctx))
	return words
}

func (r *recorder) calls(ctx context.Context, acts map[string]string) (words []string) {
	for {
		at, there, err := r.client.Next(ctx)
		r.must(err)
		if !there {
			return words
		}
		if act := acts[at.Verb]; act != "" {
			r.act(act)
			words = append(words, act)
		}
		seen := r.left()
		call, err := r.client.Go(ctx)
		r.must(err)
		words = append(words, strings.ToUpper(call.Verb)+"="+r.reply(call, seen))
	}
}

// reply returns the reply's bytes on the wire, which the key held a moment
// before: in the text that the jar sees, bytes that are not UTF-8 are already
// replaced.
func (r *recorder) reply(c Call, seen string) string {
	switch {
	case c.Exception != "":
		return "error"
	case c.Verb == "setnx" || c.Verb == "del":
		return c.Reply
	case c.Nil:
		return "nil"
	}
	value, err := unhex(seen)
	r.must(err)
	if !strings.ContainsRune(c.Reply, '\uFFFD') && c.Reply != string(value) {
		r.tb.Fatalf("%s, and the key held %q", c, value)
	}
	return seen
}

// act does what another client does: !DEL, !LIST or !SET=hex:BYTES.
func (r *recorder) act(word string) {
	switch {
	case word == "!DEL":
		r.must(r.store.put(key, "missing"))
	case word == "!LIST":
		r.must(r.store.put(key, "list"))
	default:
		r.must(r.store.put(key, strings.TrimPrefix(word, "!SET=")))
	}
}

func (r *recorder) left() string {
	state, err := r.store.state(key)
	r.must(err)
	return state
}

func hexWord(value []byte) string { return "hex:" + hex.EncodeToString(value) }

func unhex(word string) ([]byte, error) {
	digits, ok := strings.CutPrefix(word, "hex:")
	if !ok {
		return nil, fmt.Errorf("no bytes: %s", word)
	}
	return hex.DecodeString(digits)
}

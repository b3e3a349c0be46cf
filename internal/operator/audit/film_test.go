package audit

import (
	"crypto/rand"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
)

// film is a sequence of events on a server, timed in milliseconds since its
// first moment.
type film struct {
	t      *testing.T
	census *census.Census
	events []offset.Observed
}

var opening = time.UnixMilli(1_770_000_000_000).UTC()

func newFilm(t *testing.T, cfg census.Config) *film {
	t.Helper()
	if len(cfg.Dialects) == 0 {
		cfg.Dialects = []dialect.Dialect{dialect.Jedis()}
	}
	c, err := census.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	f := &film{t: t, census: c}
	f.add(reading.GapOf(census.SourceMonitor, opening.Add(-100*time.Second), 0, census.HoleBudget, "begins"))
	return f
}

func (f *film) add(o offset.Observed) {
	f.events = append(f.events, o)
	f.census.Add(o)
}

func at(ms int) time.Time { return opening.Add(time.Duration(ms) * time.Millisecond) }

// do adds a command that the server executed.
func (f *film) do(ms int, addr string, words ...string) {
	f.add(offset.Observed{At: at(ms), Kind: offset.ObservedCommand, Addr: addr, Args: words})
}

func (f *film) look(ms int, key, value string) {
	f.add(offset.Observed{At: at(ms), Kind: offset.ObservedLook, Key: key, Value: value, Exists: value != ""})
}

// stamp returns what a Jedis client with a right clock and a lease of a minute
// writes.
func stamp(ms int) string { return strconv.FormatInt(at(ms).UnixMilli()+60_001, 10) }

// found is the result of a census.
type found struct {
	Evidence census.Evidence
	Findings []census.Finding
}

func (f *film) result() *found {
	e, findings := f.census.Evidence()
	return &found{e, findings}
}

const (
	anna = "10.0.0.1:1000"
	bert = "10.0.0.2:2000"
	cleo = "10.0.0.3:3000"
)

// on starts a film on a server that reports its run id.
func on(t *testing.T, cfg census.Config, run string) *film {
	f := newFilm(t, cfg)
	f.serverIs(-99_000, run)
	return f
}

func (f *film) serverIs(ms int, run string) {
	f.add(offset.Observed{At: at(ms), Kind: offset.ObservedGap, Reason: reading.OfRun + " " + run})
}

// writerOf returns what the evidence says of the writer at an address.
func writerOf(t *testing.T, e census.Evidence, addr string) census.Writer {
	t.Helper()
	i := slices.IndexFunc(e.Writers, func(w census.Writer) bool { return w.Addr == addr })
	if i < 0 {
		t.Fatalf("no writer at %s", addr)
	}
	return e.Writers[i]
}

// stampOf returns what a client of a dialect writes when its clock shows now.
func stampOf(t *testing.T, d dialect.Dialect, now time.Time, lease time.Duration) string {
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

// spellings are the encodings that Spring's serializers produce.
var spellings = []dialect.Encoding{dialect.Plain, dialect.JDK, dialect.JSON}

// spelling returns the dialect of a RedisTemplate that uses one serializer for
// keys and values.
func spelling(e dialect.Encoding) dialect.Dialect {
	d := dialect.Template()
	d.KeyEncoding, d.ValueEncoding = e, e
	return d
}

func keyOf(t *testing.T, d dialect.Dialect, name string) string {
	t.Helper()
	key, err := d.EncodeKey(name)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// sighted feeds the filter one round of markers, as MONITOR shows them in that
// database. The server counted what MONITOR showed, and extra calls of SETNX
// since the first round. The first round is where a window can begin.
func sighted(t *testing.T, cfg Config, f *filter, database, ms int, extra ...int64) (out []offset.Observed) {
	t.Helper()
	if f.sights == nil {
		f.sights = newSightings(func() time.Duration { return 0 }, reading.KeySpellings(cfg.Dialects))
	}
	nonce := rand.Text()
	name, ok := cfg.scope().Sight(nonce)
	cmds, err := markers(name, f.sights.spellings)
	if err != nil || !ok {
		t.Fatalf("no marker: %v", err)
	}
	f.sights.send(nonce)
	counted := calls{}
	for _, c := range cmds {
		if c.Args[0] == "commandstats" {
			counted = f.calls
		}
		out = f.line(asServer(at(ms).UnixMicro(), database, "10.0.0.9:9", c.Name, c.Args[0].(string)), out)
	}
	for _, n := range extra {
		counted[1] += n
	}
	f.sights.answered(nonce, "run", counted)
	return f.compare(out)
}

// whole returns the events that are whole commands, without calls that only end
// windows.
func whole(events []offset.Observed) []offset.Observed {
	return slices.DeleteFunc(events, func(o offset.Observed) bool {
		return len(o.Args) > 0 && o.Args[0] == reading.Called
	})
}

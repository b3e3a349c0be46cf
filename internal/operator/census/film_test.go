package census

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/offset"
	"github.com/getsetlock/getsetlock/internal/operator/reading"
)

// film is a sequence of events on a server, timed in milliseconds since its
// first moment.
type film struct {
	t      *testing.T
	census *Census
	events []offset.Observed
}

var opening = time.UnixMilli(1_770_000_000_000).UTC()

func newFilm(t *testing.T, cfg Config) *film {
	t.Helper()
	if len(cfg.Dialects) == 0 {
		cfg.Dialects = []dialect.Dialect{dialect.Jedis()}
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	f := &film{t: t, census: c}
	f.add(reading.GapOf(SourceMonitor, opening.Add(-100*time.Second), 0, HoleBudget, "begins"))
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
	Evidence Evidence
	Findings []Finding
}

func (f *film) result() *found {
	e, findings := f.census.Evidence()
	return &found{e, findings}
}

func (f *film) wants(want Counts) *found {
	f.t.Helper()
	r := f.result()
	if got := r.Evidence.Counts; got != want {
		f.t.Errorf("counted %+v\n   wanted %+v", got, want)
	}
	return r
}

const (
	anna = "10.0.0.1:1000"
	bert = "10.0.0.2:2000"
	cleo = "10.0.0.3:3000"
)

// on starts a film on a server that reports its run id.
func on(t *testing.T, cfg Config, run string) *film {
	f := newFilm(t, cfg)
	f.serverIs(-99_000, run)
	return f
}

func (f *film) serverIs(ms int, run string) {
	f.add(offset.Observed{At: at(ms), Kind: offset.ObservedGap, Reason: reading.OfRun + " " + run})
}

// writerOf returns what the evidence says of the writer at an address.
func writerOf(t *testing.T, e Evidence, addr string) Writer {
	t.Helper()
	i := slices.IndexFunc(e.Writers, func(w Writer) bool { return w.Addr == addr })
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

package skew

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/legacy/dialect"
)

// records lets worlds poll one key by turns and writes what MONITOR would show.
func records(t *testing.T, worlds []*wireWorld, polls int) *bytes.Buffer {
	var out bytes.Buffer
	w, err := NewObservedWriter(&out)
	if err != nil {
		t.Fatal(err)
	}
	command := func(i int, world *wireWorld, args ...string) {
		o := Observed{At: world.serverNow().UTC(), Kind: ObservedCommand, Addr: fmt.Sprint("10.0.0.", i, ":1"), Args: args}
		if err := w.Write(o); err != nil {
			t.Fatal(err)
		}
	}
	for n := range polls {
		for i, world := range worlds {
			d := world.dialect
			world.now = world.now.Add(d.Poll)
			world.delay()
			stamp := func() string {
				text, err := d.Stamp(world.clientNow(), world.lease, d.NewID([16]byte{byte(i)}))
				if err != nil {
					t.Fatal(err)
				}
				return text
			}
			text := stamp()
			world.delay()
			command(i, world, "SETNX", "stock", text)
			world.delay()
			command(i, world, "get", "stock")
			if n%10 == 9 { // it found the stamp expired
				if d.Restamp {
					text = stamp()
				}
				world.delay()
				command(i, world, "GETSET", "stock", text)
				world.delay()
				command(i, world, "DEL", "stock")
				world.delay()
				command(i, world, "SET", "other", "1")
			}
			world.delay()
		}
	}
	return &out
}

func survey(t *testing.T, cfg SurveyConfig, record io.Reader) *Survey {
	t.Helper()
	s, err := NewSurvey(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewObservedReader(record)
	if err != nil {
		t.Fatal(err)
	}
	for {
		o, err := r.Next()
		if err == io.EOF {
			return s
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Add(o); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSurveyOfARecordContainsEveryOffset(t *testing.T) {
	for seed := range uint64(60) {
		d := []dialect.Dialect{dialect.Jedis(), dialect.JedisUUID(), dialect.Errorception(), dialect.Page()}[seed%4]
		_, worlds := testFleet(t, seed, 3)
		for _, w := range worlds {
			w.dialect, w.pauses = d, 0.01
		}
		record := records(t, worlds, 40).Bytes()
		for _, own := range []bool{false, true} {
			s := survey(t, SurveyConfig{Dialect: d, Lease: time.Minute, OwnConnections: own}, bytes.NewReader(record))
			for i, w := range worlds {
				got := s.Fleet().Writer(fmt.Sprint("10.0.0.", i, ":1")).Offset(w.serverNow())
				if !got.Contains(w.theta()) {
					t.Fatalf("seed %d (%s): %v is not in %v", seed, d, w.theta(), got)
				}
				if widest := d.Poll + d.Unit.Step() + 20*ms; got.Width() > widest && seed < 4 {
					t.Errorf("%s, own connections %v: %v wide", d, own, got.Width())
				}
				if n := s.Fleet().Writer(fmt.Sprint("10.0.0.", i, ":1")).Writes(); !d.Restamp && n != 40 {
					t.Fatalf("seed %d (%s): %d writes counted of 40", seed, d, n)
				}
				if own && d.Unit == dialect.UnitMillis && got.Width() > 25*ms {
					t.Errorf("seed %d (%s): %v wide", seed, d, got.Width())
				}
			}
			if cs := s.Fleet().Contradictions(); len(cs) > 0 || s.Unread() > 0 {
				t.Fatalf("seed %d (%s): %v, %d unread", seed, d, cs, s.Unread())
			}
		}
	}
}

func TestSurveyLeavesOutWhatProvesNothing(t *testing.T) {
	at := observedAt(1_770_000_000_000_000)
	stamp := fmt.Sprint(at.Add(time.Minute + ms).UnixMilli())
	cfg := SurveyConfig{Dialect: dialect.Jedis(), Keys: func(key string) bool { return key == "stock" }}
	s, err := NewSurvey(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i, args := range [][]string{
		{"SETNX", "other", stamp}, {"SETNX", "stock", "1"}, {"SETNX", "stock"}, {"PING"},
		{"SET", "stock", stamp}, {"GET", "stock"}, {"GETSET", "stock"},
	} {
		if err := s.Add(Observed{At: at, Kind: ObservedCommand, Addr: fmt.Sprint(i), Args: args}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Add(Observed{At: at, Kind: ObservedCommand, Addr: "lua", Args: []string{"setnx", "stock", stamp}}); err != nil {
		t.Fatal(err)
	}
	if got := s.Fleet().Writers(); len(got) > 0 || s.Unread() != 1 || !s.Until().Equal(at) {
		t.Errorf("writers %v, %d unread", got, s.Unread())
	}
}

// After a gap an address may be somebody else's: its last command bounds nothing any more.
func TestGapForgetsThePreviousCommand(t *testing.T) {
	at := observedAt(1_770_000_000_000_000)
	add := func(s *Survey, os ...Observed) Interval {
		for _, o := range os {
			if err := s.Add(o); err != nil {
				t.Fatal(err)
			}
		}
		return s.Fleet().Writer("a").Offset(s.Until())
	}
	ping := Observed{At: at, Kind: ObservedCommand, Addr: "a", Args: []string{"PING"}}
	setnx := Observed{At: at.Add(5 * ms), Kind: ObservedCommand, Addr: "a", Args: []string{"SETNX", "k", fmt.Sprint(at.Add(time.Minute).UnixMilli())}}
	gap := Observed{At: at.Add(ms), Kind: ObservedGap, For: ms, Reason: "budget"}
	for _, c := range []struct {
		events  []Observed
		bounded bool
	}{{[]Observed{ping, setnx}, true}, {[]Observed{ping, gap, setnx}, false}} {
		s, err := NewSurvey(SurveyConfig{Dialect: dialect.Jedis()})
		if err != nil {
			t.Fatal(err)
		}
		if got := add(s, c.events...); got.Bounded() != c.bounded {
			t.Errorf("%v: %v", c.events, got)
		}
	}
}

func TestImpossibleSurveyNamesTheField(t *testing.T) {
	for field, cfg := range map[string]SurveyConfig{
		"Dialect": {Dialect: dialect.Bare()}, "Lease": {Dialect: dialect.Page()}, "ppm": {Dialect: dialect.Jedis(), PPM: -1},
	} {
		var parameter *ParameterError
		if _, err := NewSurvey(cfg); !errors.As(err, &parameter) || parameter.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

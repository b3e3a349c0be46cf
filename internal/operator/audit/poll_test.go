// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/clocks"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/internal/wire"
)

func TestPollerFindsManyKeysWithFewMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := redistest.Bubble(t)
		for i := range 1000 {
			w.Mini.Set(fmt.Sprint("lock:", i), jedisStamp(w.Now()))
			w.Mini.Set(fmt.Sprint("other:", i), "no stamp")
		}
		wire := w.Wire()
		r, err := Watch(t.Context(), wire.Pool(),
			Config{Config: census.Config{Match: "lock:*"}, For: 5 * time.Second,
				Clock: w.Clock(redistest.Skew{})})
		if err != nil {
			t.Fatal(err)
		}
		if n := r.Evidence.Counts.Acquisitions; n != 1000 {
			t.Errorf("%d locks were found", n)
		}
		looks, messages := r.Cost.Looks, int64(wire.Count("EVALSHA"))
		if looks < 5000-pollBatch || looks > 5000 { // the last message was not full yet
			t.Errorf("%d looks in five seconds, asked for 1000 a second", looks)
		}
		if most := looks/looksTogether + 30; messages > most {
			t.Errorf("%d messages for %d looks, more than %d", messages, looks, most)
		}
	})
}

func TestLookReplyIsReadStrictly(t *testing.T) {
	keys := []string{"a", "b", "c"}
	second, micro := []byte("1770000000"), []byte("5")
	at := time.Unix(1770000000, 5000).UTC()
	for name, c := range map[string]struct {
		expected []any
		reply    []any
		want     string // what the seen keys hold
		fails    bool
	}{
		"all as expected": {[]any{"x", "y", "z"}, []any{}, "a=x b=y c=z", false},
		"one is otherwise": {[]any{"x", "y", "z"}, []any{int64(2), int64(-1), []byte("n")}, "a=x b=n c=z",
			false},
		"one is gone": {[]any{"x", "y", "z"}, []any{int64(3), int64(-2), []byte("")}, "a=x b=y c",
			false},
		"one has a TTL": {[]any{"", "y", "z"}, []any{int64(1), int64(1500), []byte("x")},
			"a=x1.5s b=y c=z", false},
		"one is empty": {[]any{"", "y", "z"}, []any{int64(1), int64(-1), []byte("")}, "a= b=y c=z",
			false},
		"of another type": {[]any{"x", "y", "z"}, []any{int64(1), int64(-1), nil}, "b=y c=z", false},
		"one left out":    {[]any{"x", "", "z"}, []any{}, "a=x", true},
		"another order": {[]any{"x", "y", "z"},
			[]any{int64(2), int64(-1), []byte("n"), int64(1), int64(-1), []byte("m")}, "a=x b=n c=z", true},
		"a place too far": {[]any{"x", "y", "z"}, []any{int64(4), int64(-1), []byte("n")}, "a=x b=y c=z",
			true},
		"a part is missing": {[]any{"x", "y", "z"}, []any{int64(1), int64(-1)}, "", true},
		"a TTL of words":    {[]any{"x", "y", "z"}, []any{int64(1), []byte("no"), []byte("n")}, "", true},
	} {
		command := wire.Command{Args: append([]any{"a", "b", "c"}, c.expected...)}
		seen, err := looked(nil, keys, &command, wire.Reply{Value: append([]any{second, micro}, c.reply...)})
		var got []string
		for _, o := range seen {
			word := o.Key
			if o.Exists {
				word += "=" + o.Value
			}
			if o.HasTTL {
				word += o.TTL.String()
			}
			got = append(got, word)
			if !o.At.Equal(at) {
				t.Errorf("%s: at %v", name, o.At)
			}
		}
		if strings.Join(got, " ") != c.want || (err != nil) != c.fails {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// pollerOf returns a poller that follows the keys.
func pollerOf(cfg Config, keys ...string) *poller {
	cfg, err := cfg.filled()
	if err != nil {
		panic(err)
	}
	p := newPoller(&watcher{cfg: cfg, elapsed: func() time.Duration { return 0 }})
	for _, k := range keys {
		p.add(k)
	}
	return p
}

func TestBusyKeyDoesNotDelayOtherLooks(t *testing.T) {
	p := pollerOf(Config{}, "busy", "one", "two")
	looks := map[string]int{}
	for now := time.Duration(0); now < time.Second; now += pollTick {
		p.hot["busy"] = true
		for _, k := range p.due(now, 64) {
			looks[k]++
		}
	}
	if looks["busy"] != 50 || looks["one"] != 10 || looks["two"] != 10 {
		t.Errorf("looked at %v", looks)
	}
}

func TestNewAndKnownKeysShareTheBudget(t *testing.T) {
	p := pollerOf(Config{}, "a", "b", "c", "d")
	p.queue = []string{"w", "x", "y", "z"}
	if got := p.due(time.Second, 4); !slices.Equal(got, []string{"w", "x", "a", "b"}) {
		t.Errorf("due %v", got)
	}
	if got := p.due(time.Second, 9); !slices.Equal(got, []string{"y", "z", "c", "d"}) {
		t.Errorf("due %v", got)
	}
}

// Without room the poller does not scan, until an unused key may be dropped.
func TestPollerScansOnlyWhenItHasRoom(t *testing.T) {
	p := pollerOf(Config{Config: census.Config{MaxKeys: 2}}, "a", "b")
	if p.scans(time.Second) || p.resting != time.Second+scanAgain {
		t.Errorf("it scans, and rests until %v", p.resting)
	}
	p.keys[1].free = 2 * time.Second
	if p.scans(p.resting) || !p.scans(p.resting+scanAgain) {
		t.Error("it does not scan when there is room")
	}
}

func TestPollerSleepsUntilNewsOrItsNextLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := redistest.Bubble(t)
		clock := w.Clock(redistest.Skew{})
		p := pollerOf(Config{Clock: clock}, "a")
		p.w.elapsed, p.w.news = clocks.New(clock).Elapsed, make(chan struct{}, 1)
		p.resting = p.w.elapsed() + time.Hour
		rested := func(rouse time.Duration) time.Duration {
			from := p.w.elapsed()
			p.filled, p.keys[0].looked, p.budget = from, from, 64
			if rouse > 0 {
				go func() { <-clock.After(rouse); p.w.rouse() }()
			}
			if !p.rest(t.Context()) {
				t.Error("the watch ended")
			}
			return p.w.elapsed() - from
		}
		if got := rested(0); got != p.w.cfg.PollEvery {
			t.Errorf("idle for %v", got)
		}
		if got := rested(5 * time.Millisecond); got != pollTick {
			t.Errorf("news after 5ms were looked at after %v", got)
		}
		if got := rested(50 * time.Millisecond); got != 50*time.Millisecond {
			t.Errorf("news after 50ms were looked at after %v", got)
		}
	})
}

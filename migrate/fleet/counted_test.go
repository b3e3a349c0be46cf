package fleet

import (
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/getsetlock/getsetlock/audit/census"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// counts are what a server says of itself.
type counts struct {
	run                      string
	setnx, processed, resets int64
	stepped                  time.Duration // its clock, while nobody watched
	attempt, holed           bool          // what the second watch saw
}

func (c counts) tells(w *redistest.World) {
	w.Mini.Server().SetPreHook(func(p *server.Peer, command string, args ...string) bool {
		if command != "INFO" {
			return false
		}
		p.WriteBulk(fmt.Sprintf("# Server\r\nrun_id:%s\r\ntotal_commands_processed:%d\r\ncmdstat_config|resetstat:calls=%d,usec=1\r\n", c.run, c.processed, c.resets))
		return true
	})
}

// A watch, its absence, and the watch after it.
const before, away, after = time.Hour, 10 * time.Minute, time.Minute

// absences are what a second watch finds.
var absences = map[string]struct {
	second  counts
	machine string // that watches the second time
	want    time.Duration
}{
	"the same counts": {counts{run: "a", setnx: 7, processed: 900, resets: 1}, "one",
		before + away + after},
	"on another machine": {counts{run: "a", setnx: 7, processed: 900, resets: 1}, "two",
		before + away*9/10 - doubted + after},
	"somebody tried":             {counts{run: "a", setnx: 8, processed: 900, resets: 1}, "one", after},
	"another server":             {counts{run: "b", setnx: 7, processed: 900, resets: 1}, "one", after},
	"counts that were reset":     {counts{run: "a", setnx: 7, processed: 900, resets: 2}, "one", after},
	"fewer commands than before": {counts{run: "a", setnx: 7, processed: 99, resets: 1}, "one", after},
	"the server's clock stepped": {counts{run: "a", setnx: 7, processed: 900, resets: 1, stepped: time.Hour},
		"one", after},
	"an attempt since": {counts{run: "a", setnx: 7, processed: 900, resets: 1, attempt: true},
		"one", after / 2},
	"a hole since": {counts{run: "a", setnx: 7, processed: 900, resets: 1, holed: true}, "one",
		after / 2},
}

// TestWindowByCountsGoesOnAcrossAnAbsence: the server counts on while nobody
// watches. Ten minutes later a watcher finds the same counts.
func TestWindowByCountsGoesOnAcrossAnAbsence(t *testing.T) {
	for name, c := range absences {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fleet) {
				c1, err := f.w.Pool().GetContext(bg)
				if err != nil {
					t.Fatal(err)
				}
				_ = c1.Close()
				watch := func(machine string, says counts, length time.Duration) {
					says.tells(f.w)
					cfg := ObserverConfig{Name: machine, Clock: f.w.Clock(redistest.Skew{})}
					o, err := newObserver(f.w.Pool(), cfg)
					if err != nil {
						t.Fatal(err)
					}
					defer o.mux.Close()
					o.machine = func() (string, time.Duration) {
						return machine, f.w.Now().Sub(redistest.Start)
					}
					if err := o.begin(bg); err != nil {
						t.Fatal(err)
					}
					from := f.w.ServerNow()
					f.w.Pass(length)
					r := watched(from, f.w.ServerNow(), func(e *census.Evidence) {
						e.Run = says.run
						e.Stats.FirstSetnx, e.Stats.LastSetnx = says.setnx, says.setnx
						if says.attempt {
							e.Stats.LastSetnx, e.Stats.LastMoved = says.setnx+1, from.Add(length/2)
						}
						if says.holed {
							e.Coverage[1].Holes = []census.Hole{
								{From: from, Until: from.Add(length / 2), Reason: census.HoleReset}}
						}
					})
					if err := o.keep(bg, r); err != nil {
						t.Fatal(err)
					}
				}
				watch("one", counts{run: "a", setnx: 7, processed: 100, resets: 1}, before)
				f.w.Pass(away)
				f.w.StepServer(c.second.stepped)
				watch(c.machine, c.second, after)
				if got := f.seen().Quiet[WatchStats]; got > c.want || got < c.want-time.Second {
					t.Errorf("quiet for %v, should be %v", got, c.want)
				}
				// And a third watch goes on from there.
				if c.second.attempt || c.second.holed || c.machine != "one" || c.want < before {
					return
				}
				f.w.Pass(away)
				watch("one", c.second, after)
				if got, want := f.seen().Quiet[WatchStats],
					c.want+away+after; got > want || got < want-time.Second {
					t.Errorf("the third time quiet for %v, should be %v", got, want)
				}
			})
		})
	}
}

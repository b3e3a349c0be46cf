// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
	"github.com/getsetlock/getsetlock/internal/operator/census"
	"github.com/getsetlock/getsetlock/internal/record"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/legacy"
	"github.com/getsetlock/getsetlock/migrate"
)

var tombstone = dialect.Jedis().Tombstone()

// TestNothingMovesWithoutGo: neither the first step of a verb nor what an
// earlier call left. Both would let old clients in, or delete what keeps them
// out.
func TestNothingMovesWithoutGo(t *testing.T) {
	for name, c := range map[string]struct {
		from, pending migrate.Phase // pending: the step was taken, and not all of it is done
		run           verb
		to            migrate.Phase
	}{
		"advance to dual":   {migrate.Observe, migrate.NoPhase, doAdvance, migrate.Dual},
		"advance to sealed": {migrate.Dual, migrate.NoPhase, doAdvance, migrate.Sealed},
		"advance to modern": {migrate.Sealed, migrate.NoPhase, doAdvance, migrate.Modern},
		"back to sealed":    {migrate.Modern, migrate.NoPhase, doBack, migrate.Sealed},
		"back to dual":      {migrate.Sealed, migrate.NoPhase, doBack, migrate.Dual},
		"back to observe":   {migrate.Dual, migrate.NoPhase, doBack, migrate.Observe},
		"clean":             {migrate.Modern, migrate.NoPhase, doClean, migrate.Clean},
		"init after clean":  {migrate.Clean, migrate.NoPhase, doInit, migrate.Observe},
		"the rest of back":  {migrate.Dual, migrate.Sealed, doBack, migrate.Dual},
		"the rest of clean": {migrate.Clean, migrate.Modern, doClean, migrate.Clean},
		"the rest of init":  {migrate.Observe, migrate.Clean, doInit, migrate.Observe},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(f *fleet) {
				f.join(migrate.MemberConfig{})
				f.to(c.from)
				if c.pending != migrate.NoPhase {
					r := f.at(c.from)
					r.Pending = c.pending
					f.writes(r)
					f.beats()
					f.put("stock", nil)
				}
				before := f.w.Mini.Keys()
				stood, _ := f.w.Mini.Get(record.Key(""))
				r := f.must(c.run, Options{Wait: time.Minute})
				if r.Gate == nil || !r.Gate.Open || r.Moved || r.Over != (c.pending == migrate.NoPhase) {
					t.Errorf("moved %v, over %v, %+v", r.Moved, r.Over, r.Gate)
				}
				if after, _ := f.w.Mini.Get(record.Key("")); after != stood ||
					!slices.Equal(f.w.Mini.Keys(), before) {
					t.Errorf("the record is %q, the keys %q", after, f.w.Mini.Keys())
				}
				if r := f.must(c.run, Options{Go: true, Wait: time.Minute}); !r.Over ||
					f.at(c.to).Pending != migrate.NoPhase {
					t.Errorf("with it: %v, closed by %q", r.Phase, rules(r.Gate))
				}
			})
		})
	}
}

func TestAnOverlappingNamespaceIsRefused(t *testing.T) {
	inBubble(t, func(f *fleet) {
		if r := f.init(Options{Namespace: "stock"}); !r.Moved {
			t.Fatal(r.Gate.Blocks)
		}
		for _, other := range []string{"", "st", "stock.eu"} {
			r := f.init(Options{Namespace: other, Go: true})
			closed(t, r.Gate, "namespace")
			whole := "stock"
			if len(other) < len(whole) {
				whole = other
			}
			what := fmt.Sprint(r.Gate.Blocks)
			if r.Moved || !strings.Contains(what, `the namespace "stock" has a record`) ||
				!strings.Contains(what, fmt.Sprintf("move %q as a whole", whole)) ||
				strings.Contains(what, "delete gsl:phase:stock") != (whole == other) {
				t.Errorf("%q: %s", other, what)
			}
		}
		if r := f.init(Options{Namespace: "tills"}); !r.Moved {
			t.Error(r.Gate.Blocks)
		}
		_, err := doInit(bg, f, Options{Namespace: "a\n"})
		says(t, err, "only printable characters")
	})
}

// The word of a namespace may go on in keys that are another service's.
func TestInitNamesKeysInWhichTheWordGoesOn(t *testing.T) {
	inBubble(t, func(f *fleet) {
		for _, key := range []string{"stock:3", "stocktake:7", "till4", "till-5"} {
			if err := f.w.Mini.Set(key, "1"); err != nil {
				t.Fatal(err)
			}
		}
		for namespace, says := range map[string]string{
			"stock":  `the namespace "stock" also owns "stocktake:7": `,
			"till":   `the namespace "till" also owns "till4": `,
			"stock:": "",
		} {
			r := f.init(Options{Namespace: namespace})
			f.w.Mini.Del(record.Key(namespace))
			got := fmt.Sprint(r.Notes)
			if !r.Moved || !strings.Contains(got, says) || says == "" && strings.Contains(got, "also owns") {
				t.Errorf("%q: %s", namespace, got)
			}
		}
	})
}

func TestPlanSaysThatNothingIsThere(t *testing.T) {
	inBubble(t, func(f *fleet) {
		for key, want := range map[string]bool{"till:1": true, "stock:1": false} {
			if err := f.w.Mini.Set(key, "1"); err != nil {
				t.Fatal(err)
			}
			road, err := Plan(bg, f.w.Pool(), f.options(Options{Namespace: "stock"}))
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(road.Report.Notes); strings.Contains(got, "nothing is there") != want {
				t.Errorf("with %s: %s", key, got)
			}
			f.w.Mini.Del(key)
		}
	})
}

// TestAStepThatIsNamedIsTakenOnce: a second call, by an operator who saw no
// answer or by another one, takes no further step.
func TestAStepThatIsNamedIsTakenOnce(t *testing.T) {
	inBubble(t, func(f *fleet) {
		f.join(migrate.MemberConfig{})
		f.to(migrate.Dual)
		say := func(v verb, to, at migrate.Phase, moved bool, blocked ...string) {
			t.Helper()
			r := f.must(v, Options{Go: true, To: to, Wait: time.Minute})
			if closed(t, r.Gate, blocked...); r.Moved != moved {
				t.Errorf("to %v: moved %v", to, r.Moved)
			}
			f.at(at)
			f.beats()
		}
		say(doAdvance, migrate.Sealed, migrate.Sealed, true)
		say(doAdvance, migrate.Sealed, migrate.Sealed, false)
		say(doAdvance, migrate.Dual, migrate.Sealed, false, "order")
		say(doBack, migrate.Modern, migrate.Sealed, false, "order")
		say(doBack, migrate.Observe, migrate.Sealed, false, "order")
		say(doBack, migrate.Sealed, migrate.Sealed, false)
		say(doBack, migrate.Dual, migrate.Dual, true)
		say(doBack, migrate.Dual, migrate.Dual, false)
		say(doAdvance, migrate.Modern, migrate.Dual, false, "order")
	})
}

// TestNamedStepReportsMembersOfALaterRecord: an old one that says the right
// phase is not well.
func TestNamedStepReportsMembersOfALaterRecord(t *testing.T) {
	inBubble(t, func(f *fleet) {
		f.join(migrate.MemberConfig{})
		f.to(migrate.Sealed)
		r := f.at(migrate.Sealed)
		r.Epoch--
		f.writes(r)
		closed(t, f.advance(Options{Go: true, To: migrate.Sealed}).Gate, "epoch")
	})
}

// put writes a tombstone on L and, for a member, its token on M.
func (f *fleet) put(key string, held *migrate.Member) {
	f.t.Helper()
	if err := f.w.Mini.Set(key, tombstone); err != nil {
		f.t.Fatal(err)
	}
	if held != nil {
		err := f.w.Mini.Set(legacy.MarkKey(key), "46pp_t56wMdRpwZ1BglSEg "+tombstone+" "+held.ID())
		if err != nil {
			f.t.Fatal(err)
		}
	}
}

// A tombstone stays while a getsetlock client holds its lock.
func TestBackFromSealedDeletesUnusedTombstones(t *testing.T) {
	inBubble(t, func(f *fleet) {
		m := f.join(migrate.MemberConfig{})
		f.to(migrate.Sealed)
		f.put("free", nil)
		f.put("held", m)
		r := f.back(Options{Go: true, Wait: 20 * time.Second})
		if !r.Moved || r.Over || f.w.Mini.Exists("free") || !f.w.Mini.Exists("held") {
			t.Fatalf("keys %q, over %v", f.w.Mini.Keys(), r.Over)
		}
		closed(t, r.Gate, "tombstones")
		if r := f.back(Options{Go: true}); r.Over || f.at(migrate.Dual).Pending != migrate.Sealed {
			t.Errorf("it went on to %v", r.Phase)
		}
		f.w.Mini.Del(legacy.MarkKey("held"))
		if r := f.back(Options{Go: true}); !r.Over || f.w.Mini.Exists("held") ||
			f.at(migrate.Dual).Pending != migrate.NoPhase {
			t.Errorf("%v", r.Gate.Blocks)
		}
	})
}

func TestCleanLeavesTombstonesWhileLeasesOfModernRun(t *testing.T) {
	inBubble(t, func(f *fleet) {
		m := f.join(migrate.MemberConfig{})
		f.to(migrate.Modern)
		end := f.begin(m, time.Hour)
		f.put("held", m)
		f.beats()
		r := f.clean(Options{Go: true, Wait: 20 * time.Second})
		closed(t, r.Gate, "leases")
		if !f.w.Mini.Exists("held") || r.Phase != migrate.Clean {
			t.Error("the tombstone went before the lease that rests on it")
		}
		end()
		f.beats()
		if r := f.clean(Options{Go: true}); !r.Over || !f.w.Mini.Exists("held") {
			t.Errorf("over %v, and %q", r.Over, r.Notes)
		}
		f.beats()
		f.sweep(Options{Go: true})
	})
}

// TestCleanLeavesTombstonesToTheirLastTTL: only they keep out a forgotten old
// client. They last 30 days, or twice its pause.
func TestCleanLeavesTombstonesToTheirLastTTL(t *testing.T) {
	const month = 30 * 24 * time.Hour
	for _, c := range []struct{ idle, before, want time.Duration }{
		{time.Minute, time.Hour, month}, {15*24*time.Hour - time.Hour, time.Hour, month},
		{20 * 24 * time.Hour, month, 40 * 24 * time.Hour},
		{time.Minute, 2 * month, 2 * month}, {time.Minute, 0, month},
	} {
		inBubble(t, func(f *fleet) {
			m := f.join(migrate.MemberConfig{})
			f.to(migrate.Modern)
			f.put("held", m)
			if f.w.Mini.SetTTL("held", c.before); c.before == 0 {
				f.w.Mini.Set("held", tombstone)
			}
			f.w.Mini.Set("other", "no tombstone")
			f.w.Mini.SetTTL("other", time.Hour)
			o := f.options(Options{Go: true, Wait: time.Minute})
			o.Claims.Idle = c.idle
			r, err := CleanUp(bg, f.w.Pool(), o)
			if err != nil || !r.Over {
				t.Fatalf("%+v, %v", r, err)
			}
			if got := f.w.Mini.TTL("held"); got > c.want || got < c.want-time.Minute ||
				!strings.Contains(fmt.Sprint(r.Notes), "1 tombstones stay for") {
				t.Errorf("idle %v, before %v: it stands for %v, and %q", c.idle, c.before, got, r.Notes)
			}
			if f.w.Mini.TTL("other") > time.Hour {
				t.Error("another value was given a TTL")
			}
			st, err := Status(bg, f.w.Pool(), o)
			if err != nil || !strings.Contains(fmt.Sprint(st.Notes), "1 tombstones keep old clients out") {
				t.Errorf("status says %q, %v", st.Notes, err)
			}
			f.w.Mini.Del("other")
			f.beats()
			f.sweep(Options{Go: true})
			if f.w.Mini.Exists("held") {
				t.Error("the sweep left it")
			}
		})
	}
}

// TestActOfAnOldClientInCleanIsAnAlarm: the watch goes on after clean.
func TestActOfAnOldClientInCleanIsAnAlarm(t *testing.T) {
	inBubble(t, func(f *fleet) {
		f.join(migrate.MemberConfig{})
		f.to(migrate.Clean)
		since := f.at(migrate.Clean).Since
		for _, c := range []struct {
			after time.Duration
			alarm bool
		}{{-time.Second, false}, {time.Second, true}} {
			now := f.w.ServerNow()
			f.observe("o", watched(now.Add(-time.Hour), now, func(e *census.Evidence) {
				e.LastWrite = &census.Act{
					At: since.Add(c.after), Key: "stock", What: census.ActAcquired, Addr: "10.0.0.1:1"}
			}))
			if s := f.seen(); (s.Alarm != nil) != c.alarm {
				t.Errorf("%v after clean: alarm %+v", c.after, s.Alarm)
			}
			r, err := Status(bg, f.w.Pool(), f.options(Options{}))
			if err != nil || strings.Contains(fmt.Sprint(r.Notes),
				"ALARM: an old client at 10.0.0.1:1 acted on") != c.alarm {
				t.Errorf("%v after clean: status says %q, %v", c.after, r.Notes, err)
			}
		}
		f.w.Mini.Del(record.SeenKey(""))
	})
}

func TestMissingRightsAreNamed(t *testing.T) {
	inBubble(t, func(f *fleet) {
		f.join(migrate.MemberConfig{})
		f.to(migrate.Observe)
		if err := f.w.Mini.Set("stock", "x"); err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{"GET", "SCAN", "HGETALL", "TIME", "GETRANGE", "EVALSHA"} {
			wire := f.w.Wire(redistest.Rule{
				Command: command, Times: -1, Do: redistest.Answer(redistest.NoPerm)})
			_, err := Advance(bg, wire.Pool(), f.options(Options{Go: true}))
			says(t, err, "the user that migrates needs SCAN, GET")
			f.at(migrate.Observe)
		}
	})
}

func TestTheSurveyCountsWhatStandsAndOnlyInItsNamespace(t *testing.T) {
	inBubble(t, func(f *fleet) {
		stamp := fmt.Sprint(f.w.ServerNow().Add(time.Minute).UnixMilli())
		guard := "5000000000000000001"
		f.stands("stock:1", stamp, 0)
		f.stands("stock:2", guard, time.Minute)
		f.stands("{stock:2}:gsl", "46pp_t56wMdRpwZ1BglSEg "+guard+" stranger", time.Minute)
		f.stands("stock:3", guard, time.Minute)
		f.stands("{stock:3}:gsl", "46pp_t56wMdRpwZ1BglSEg "+guard+" me", time.Minute)
		f.stands("stock:4", tombstone, time.Hour)
		f.stands("stock:5", "lock", 0)
		f.stands("other:stock", stamp, 0)
		f.w.Mini.HSet("stock:6", "a", "b")
		f.stands(record.Key("tills"), "x", 0)

		v := f.surveys(facts{namespace: "stock", dialect: dialect.Jedis()}, nil)
		if v.Stamps != 1 || v.Guards != 2 || v.Tombstones != 1 || v.Others != 1 || v.Keys != 5 {
			t.Errorf("%+v", v)
		}
		v.strangers([]seat{{MemberState: migrate.MemberState{ID: "me"}}})
		if v.NoTTL.String() != `"stock:1"` || v.Strangers.String() != `"stock:2"` {
			t.Errorf("without TTL %v, strangers %v", v.NoTTL, v.Strangers)
		}
		if !v.records["tills"] {
			t.Errorf("records %v", v.records)
		}
	})
}

func TestTheSurveyBlocksNobody(t *testing.T) {
	inBubble(t, func(f *fleet) {
		for i := range 600 {
			if err := f.w.Mini.Set(fmt.Sprintf("stock:%d", i), tombstone); err != nil {
				t.Fatal(err)
			}
		}
		f.join(migrate.MemberConfig{})
		wire := f.w.Wire()
		if _, err := Status(bg, wire.Pool(), f.options(Options{})); err != nil {
			t.Fatal(err)
		}
		for _, c := range wire.Sent() {
			if c.Is("KEYS") || c.Is("SCAN") && !slices.Contains(c, "500") {
				t.Errorf("sent %v", c)
			}
		}
	})
}

func TestPlanShowsTheRoadWithItsTimesAndWhatWillRefuse(t *testing.T) {
	inBubble(t, func(f *fleet) {
		m := f.join(migrate.MemberConfig{})
		f.to(migrate.Observe)
		end := f.begin(m, time.Hour)
		end()
		f.beats()
		o := f.options(Options{})
		o.Claims.Gone = false
		road, err := Plan(bg, f.w.Pool(), o)
		if err != nil {
			t.Fatal(err)
		}
		var way []string
		for _, l := range road.Legs {
			way = append(way, l.To.String())
		}
		if strings.Join(way, " ") != "dual sealed modern clean" {
			t.Errorf("the road is %q", way)
		}
		if got := road.Legs[1].Wait; got != windowFor(road.Fleet)+time.Hour+beatEvery {
			t.Errorf("to sealed: %v", got)
		}
		closed(t, &Gate{Blocks: road.Legs[0].Refuses}, "lease-rule")
		closed(t, &Gate{Open: true, Blocks: road.Legs[2].Refuses})
	})
}

// TestAdvanceWaitsForItsGateWhereItIsAskedTo, and says what it waits for.
func TestAdvanceWaitsForItsGateWhereItIsAskedTo(t *testing.T) {
	inBubble(t, func(f *fleet) {
		f.join(migrate.MemberConfig{})
		f.to(migrate.Dual)
		f.stands("stock:1", strconv.FormatInt(f.w.ServerNow().Add(20*time.Second).UnixMilli()+1, 10), 0)
		closed(t, f.advance(Options{Go: true, Wait: time.Minute}).Gate, "live")
		closed(t, f.advance(Options{Go: true, ForGate: true, Wait: 10 * time.Second}).Gate, "live")
		var said []string
		r := f.advance(Options{Go: true, ForGate: true, Wait: time.Minute,
			Progress: func(what string) { said = append(said, what) }})
		if !r.Moved || r.Phase != migrate.Sealed || len(said) == 0 || !strings.Contains(said[0], "stock:1") {
			t.Errorf("%v, said %q", r.Gate.Blocks, said)
		}
	})
}

package fleet

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/migrate/internal/record"
)

// TestCarvedWordsAreReadStrictly: of a list there is one form, sorted.
func TestCarvedWordsAreReadStrictly(t *testing.T) {
	head := migrate.Record{Epoch: 3, Phase: migrate.Dual, Since: pinnedAt, Dialect: "Jedis"}.String()
	head = head[:len(head)-len("except= from=-")]
	for words, good := range map[string]bool{
		"except= from=-": true, "except=a,b from=-": true, "except=%3A from=2/": true,
		"except= from=2/a": true, "except=- from=-": true,
		"except=b,a from=-": false, "except=a,a from=-": false, "except=a, from=-": false,
		"except=, from=-": false, "except=: from=-": false,
		"except= from=": false, "except= from=a": false, "except= from=0/a": false, "except= from=/a": false,
		"except= from=02/a": false, "except= from=-1/a": false,
	} {
		if r, err := migrate.ParseRecord(head + words); (err == nil) != good {
			t.Errorf("%q is read as %+v (%v)", words, r, err)
		}
	}
	text := migrate.MemberState{ID: "a", Seen: pinnedAt}.String()
	for words, good := range map[string]bool{
		" also= oldest=0 except=": true, " also=a:0,b:2 oldest=7 except=a": true,
		" also=a oldest=0 except=": false, " also=a:-1 oldest=0 except=": false,
		" also=b:0,a:0 oldest=0 except=": false, " also=:1 oldest=0 except=": false,
		" also=a:0,a:0 oldest=0 except=": false, " also= oldest= except=": false,
	} {
		if m, err := migrate.ParseMember(
			strings.Replace(text, " also= oldest=0 except=", words, 1)); (err == nil) != good {
			t.Errorf("%q is read as %+v (%v)", words, m, err)
		}
	}
}

// TestCutAnywhereCarvingCanBeRunAgain, and giving back: whatever was written
// before, a lock is taken by one record, and the same verb comes to its end.
func TestCutAnywhereCarvingCanBeRunAgain(t *testing.T) {
	for name, do := range map[string]redistest.Action{
		"before": redistest.CutBefore, "after": redistest.CutAfter} {
		for nth, sent := 0, 0; nth <= sent; nth += step { // the first round suffers nothing, and counts
			inBubble(t, func(f *fleet) {
				a := f.program(migrate.MemberConfig{Also: []string{eu}})
				f.to(migrate.Sealed)
				cut := func(v func(context.Context, *redis.Pool, Options) (*Report, error)) {
					n := 0
					at := nth
					if nth == 0 {
						at = 1 << 30
					}
					wire := f.w.Wire(redistest.Rule{Nth: at, Do: do, When: func(redistest.Command) bool {
						n++
						return true
					}})
					_, err := v(bg, wire.Pool(),
						f.options(Options{Namespace: eu, Go: true, Wait: 15 * time.Second}))
					if nth == 0 {
						sent = max(sent, n)
					}
					if err == nil {
						return
					}
					f.beats()
					f.release(f.takes(a, eu+"1"))
					if s := a.State(); s.Also[eu]+s.Leases[migrate.Sealed] != 0 {
						t.Errorf("%s command %d: a lease is counted that has ended: %+v", name, nth, s)
					}
					if _, err := v(bg, f.w.Pool(),
						f.options(Options{Namespace: eu, Go: true, Wait: time.Minute})); err != nil {
						t.Errorf("%s command %d: again: %v", name, nth, err)
					}
				}
				cut(Init)
				if f.beats(); !f.recordOf("").Lists(eu) || f.recordOf(eu).Phase != migrate.Sealed {
					t.Errorf("%s command %d: not carved out", name, nth)
				}
				if t.Failed() {
					return
				}
				cut(Merge)
				if f.beats(); f.recordOf("").Lists(eu) || f.w.Mini.Exists(record.Key(eu)) {
					t.Errorf("%s command %d: not given back", name, nth)
				}
				f.passes(doAdvance, Options{})
			})
			if t.Failed() {
				return
			}
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package migrateverb

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/migrate"
)

// A thousand members that do the same are a few lines: those that act alike are
// one, and so are findings of one kind. --verbose lists each, and JSON does.
func TestManyMembersAreAFewLines(t *testing.T) {
	const many = 1200
	tr := newTroupe(t)
	tr.ends(0, tr.verb("init"))
	for i := range many {
		m := migrate.MemberState{ID: fmt.Sprintf("member%04d", i), Name: fmt.Sprintf("till on host%d", i),
			Dialect: "Jedis", Epoch: 1, Phase: migrate.Observe, Seen: tr.World.ServerNow(),
			Every:  time.Minute,
			Renews: 3 * time.Minute, TTL: 30 * time.Second, First: 30 * time.Second,
			Leases: map[migrate.Phase]int{migrate.Observe: 1}, Probe: "ok"}
		if i%2 == 1 {
			m.Probe = "" // which closes the gate to dual
		}
		if i < 3 {
			m.Leaving = tr.World.ServerNow().Add(time.Minute)
		}
		tr.World.Mini.HSet("gsl:roster:stock", m.ID, m.String())
	}
	for _, verb := range []string{"status", "advance", "plan"} {
		code := map[bool]int{true: 1}[verb == "advance"]
		short := tr.ends(code, tr.verb(verb)).Out
		if n := strings.Count(short, "member0"); n > 4*mostAlike || strings.Count(short, "\n") > 60 {
			t.Errorf("%s names %d members:\n%s", verb, n, short)
		}
		for _, want := range []string{
			"599  observe", "598  observe", "leaving", "more like these", "1200 members in all"} {
			if !strings.Contains(short, want) {
				t.Errorf("%s does not say %q:\n%s", verb, want, short)
			}
		}
		if long := tr.ends(code, tr.verb(verb, "-v")).Out; strings.Count(long, "member1199") < 2 {
			t.Errorf("%s -v leaves out members", verb)
		}
	}
	a := clitest.AnswerOf(t, tr.ends(1, tr.verb("advance", "--json")))
	if m, b := len(a.All("members")), len(a.All("gate.blocks")); m != many || b < many/2-3 {
		t.Errorf("JSON has %d members and %d blocks", m, b)
	}
}

// A claim is shown with what contradicts it, in words and in JSON.
func TestStatusShowsWhatContradictsAClaim(t *testing.T) {
	tr := newTroupe(t)
	tr.ends(0, tr.verb("init"))
	s := tr.ends(0, tr.verb("status", "--dialect", "jedis", "--behind", "1s", "--job", "5s"))
	for _, line := range []string{"claim --behind 1s: nothing seen contradicts it\n",
		"claim --job 5s: nothing seen contradicts it\n"} {
		if !strings.Contains(s.Out, line) {
			t.Errorf("no %q in %s", line, s.Out)
		}
	}
	text, err := tr.World.Mini.Get("gsl:phase:stock")
	if err != nil {
		t.Fatal(err)
	}
	r, err := migrate.ParseRecord(text)
	if err != nil {
		t.Fatal(err)
	}
	r.SawBehind = 2 * time.Minute
	_ = tr.World.Mini.Set("gsl:phase:stock", r.String())
	const against = "the clock of an old client was at least 2m0s behind the server's"
	s = tr.ends(0, tr.verb("status", "--dialect", "jedis", "--behind", "1s"))
	if !strings.Contains(s.Out, "claim --behind 1s: CONTRADICTED: "+against+"\n") ||
		!strings.Contains(s.Out, "closed by claim: ") {
		t.Error(s.Out)
	}
	a := clitest.AnswerOf(t,
		tr.ends(0, tr.verb("status", "--dialect", "jedis", "--behind", "1s", "--json")))
	if len(a.All("claims")) != 1 || a.At("claims.0.rule") != "behind" ||
		a.At("claims.0.time_ms") != 1000.0 || a.At("claims.0.contradicted_by") != against {
		t.Errorf("%v", a.At("claims"))
	}
}

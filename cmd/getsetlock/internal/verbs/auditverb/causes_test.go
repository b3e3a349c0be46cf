// SPDX-License-Identifier: Apache-2.0

package auditverb

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/internal/operator/audit"
	"github.com/getsetlock/getsetlock/internal/operator/census"
)

// writerOn is a writer of one key, with a lease of 10 s.
func writerOn(addr, key string, longest time.Duration) census.Writer {
	return census.Writer{Client: census.Client{Addr: addr}, Keys: []string{key},
		Lease: census.Span{Value: 10 * time.Second, Basis: census.Given},
		Holds: census.Durations{Count: 1, Longest: longest}}
}

func found(severity census.Severity, kind, writer, key, what string) census.Finding {
	return census.Finding{Severity: severity, Kind: kind, Writer: writer, Key: key, What: what}
}

// grouped returns the causes in a short form: culprit, own findings, explained
// findings.
func grouped(a *auditAnswer) string {
	var lines []string
	for _, c := range a.causes() {
		var own, explains []string
		for _, f := range c.own {
			own = append(own, f.Kind)
		}
		for _, f := range c.explains {
			explains = append(explains, f.Kind+" "+f.Writer)
		}
		lines = append(lines, c.culprit+": "+strings.Join(own, ",")+" > "+strings.Join(explains, ","))
	}
	return strings.Join(lines, "\n")
}

func TestFindingsAreGroupedUnderTheirCause(t *testing.T) {
	const wrong, late = census.SeverityError, census.SeverityWarning
	ahead := found(late, "clock_off", "c", "", "")
	ahead.Off = 7 * time.Second
	behind := found(late, "clock_off", "b", "", "")
	behind.Off = -2 * time.Second
	for name, c := range map[string]struct {
		writers []census.Writer
		all     []census.Finding
		want    string
	}{
		"the clock that is off furthest": {
			[]census.Writer{writerOn("a", "k", 1), writerOn("c", "k", 1), writerOn("b", "k", 1)},
			[]census.Finding{found(wrong, "overlap", "a", "", ""), found(wrong, "overrun", "c", "", ""),
				behind, ahead}, "c: clock_off > overlap a,overrun c\nb: clock_off > "},
		"not a clock on another key": {
			[]census.Writer{writerOn("a", "k", 1), writerOn("c", "other", 1)},
			[]census.Finding{found(wrong, "overlap", "a", "", ""), ahead},
			"cause not seen: overlap > \nc: clock_off > "},
		"two dialects before a clock": {
			[]census.Writer{writerOn("a", "k", 1), writerOn("c", "k", 1)},
			[]census.Finding{found(wrong, "mixture", "", "k", ""), found(wrong, "overlap", "a", "", ""),
				ahead},
			"k: mixture > overlap a\nc: clock_off > "},
		"own jobs before a clock": {
			[]census.Writer{writerOn("a", "k", time.Minute), writerOn("c", "k", 1)},
			[]census.Finding{found(wrong, "overlap", "a", "", ""), ahead}, "a: overlap > \nc: clock_off > "},
		"jobs of another client": {
			[]census.Writer{writerOn("a", "k", time.Minute), writerOn("b", "k", 1)},
			[]census.Finding{found(wrong, "overrun", "a", "", ""), found(wrong, "overlap", "b", "", "")},
			"a: overrun > overlap b"},
		"the old protocol": {
			[]census.Writer{writerOn("a", "k", 1), writerOn("b", "k", 1)},
			[]census.Finding{found(late, "clobber", "a", "", ""), found(late, "ghost", "b", "", "")},
			"the old protocol: clobber,ghost > "},
		"notes come last": {nil,
			[]census.Finding{found(census.SeverityNote, "right", "", "", ""),
				found(late, "server_step", "", "", "")}, "the server: server_step > \nright: right > "},
	} {
		a := &auditAnswer{all: c.all, result: &audit.Result{Evidence: census.Evidence{Writers: c.writers}}}
		if got := grouped(a); got != c.want {
			t.Errorf("%s:\n%s\nnot\n%s", name, got, c.want)
		}
		a.answer() // of few facts too
	}
}

// Grouping loses no finding and shows none twice. What a cause explains is
// counted below it.
func TestEachFindingHasOneCause(t *testing.T) {
	s := clitest.NewStage(t)
	findings := clitest.AnswerOf(t, s.Run("audit", "--demo", "--json")).All("findings")
	text := strings.Join(strings.Fields(s.Run("audit", "--demo").Out), " ")
	for _, f := range findings {
		what, kind := f.At("what").(string), f.At("kind").(string)
		if slices.Contains(symptoms, kind) {
			what = " - " + kindName(kind) + ": "
		} else if _, after, cut := strings.Cut(what, ": "); cut && f.At("writer") != nil {
			what = after
		}
		if n := strings.Count(text, what); n != 1 && (n != 2 || !slices.Contains(symptoms, kind)) {
			t.Errorf("%d times: %s", n, what)
		}
	}
	if len(findings) != 19 ||
		!strings.Contains(text, "hence: it likely explains 9 findings on lock:stock: ") ||
		!strings.HasSuffix(text,
			"BROKEN: 107 times two clients held a lock at once; 14 errors, 5 warnings, from 4 causes.") {
		t.Error(text)
	}
}

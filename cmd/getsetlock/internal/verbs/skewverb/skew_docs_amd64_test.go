package skewverb

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
	"github.com/getsetlock/getsetlock/skew/simulate"
)

// The figures of the documents are those of one architecture. Random times are
// computed in floating point, which another architecture may round otherwise.
// So these tests run only on that one.

// documentedEvents is how much the command simulates. It is read before init
// lets tests simulate less.
var documentedEvents = simEvents

// clocksText returns docs/clocks.md.
func clocksText(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../../../docs/clocks.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// lossTables describes the document's tables by protocol: the form of a row,
// and the causes in half of one.
var lossTables = []struct {
	protocol string
	row      *regexp.Regexp
	causes   []string
}{

	{"hardened", regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|((?: \\d+ \\|){10})$"),
		[]string{"pause", "overrun", "missing", "clock", "own"}},
	{"dual", regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|((?: \\d+ \\|){8})$"),
		[]string{"pause", "overrun", "missing", "own"}},
}

// The tables of losses come from whole simulations, by the command below them.
func TestDocumentsTableOfLossesIsTheCommands(t *testing.T) {
	events := simEvents
	simEvents = documentedEvents
	t.Cleanup(func() { simEvents = events })
	tables := lossTables
	if raceEnabled {
		tables = tables[:1]
	}
	for _, table := range tables {
		rows := table.row.FindAllStringSubmatch(clocksText(t), -1)
		if len(rows) != len(simulate.Presets()) {
			t.Errorf("%s: %d rows for %d presets", table.protocol, len(rows), len(simulate.Presets()))
		}
		if raceEnabled {
			rows = rows[:1]
		}
		for _, row := range rows {
			says := strings.TrimSpace(strings.ReplaceAll(row[2], "|", ""))
			got := losses(t, table.protocol, row[1], "jedis", table.causes) + "  " +
				losses(t, table.protocol, row[1], "pagenil", table.causes)
			if got != says {
				t.Errorf("%s, %s: the command says %s, the table %s", table.protocol, row[1], got, says)
			}
		}
	}
}

// losses returns half of the row of a preset. It fails if two getsetlock
// clients held together.
func losses(t *testing.T, protocol, preset, dialect string, causes []string) string {
	t.Helper()
	got := skewed(t, "--protocol", protocol, "--dialect", dialect, "--lease", "5s", "--job", "100ms..4s",
		"--preset", preset, "--json")
	var doc Document
	if err := json.Unmarshal([]byte(got.Out), &doc); err != nil {
		t.Fatalf("%v\n%s", err, got.Errors)
	}
	if n := doc.Simulation.Ours.BesideOurs; n != 0 {
		t.Errorf("%s, %s, %s: two getsetlock clients held together %d times", protocol, preset, dialect, n)
	}
	var words []string
	for _, by := range causes {
		words = append(words, strconv.FormatInt(doc.Simulation.Ours.LostBy[by], 10))
	}
	return strings.Join(words, "  ")
}

// The rehearsal in the document is the command's output, except for how long it
// took.
func TestDocumentsRehearsalIsTheCommands(t *testing.T) {
	const prompt = "    $ getsetlock "
	_, rest, found := strings.Cut(clocksText(t), prompt+"rehearse ")
	line, rest, _ := strings.Cut(rest, "\n")
	var says []string
	for row := range strings.SplitSeq(rest, "\n") {
		row, indented := strings.CutPrefix(row, "    ")
		if row != "" && !indented {
			break
		}
		says = append(says, row)
	}
	if !found || len(says) < 10 {
		t.Fatalf("only %q", says)
	}
	got := clitest.Speak(t, exec.Command(clitest.Built(t),
		append([]string{"rehearse"}, strings.Fields(line)...)...))
	plain := func(s string) string {
		return clitest.HereTook.ReplaceAllString(strings.TrimSpace(s), "(here)")
	}
	if plain(got.Out) != plain(strings.Join(says, "\n")) {
		t.Errorf("rehearse %s says\n%s%s\nthe document\n%s", line, got.Out, got.Errors,
			strings.Join(says, "\n"))
	}
}

package rehearseverb

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
)

var shownRehearsal = regexp.MustCompile(`(?ms)^    GROUP +PROTOCOL.*?^    OK: [^\n]*\n`)

// One seed gives one answer, so the README shows the command's output to the
// digit, except for how long it took. -update writes it.
func TestReadmeShowsTheRehearsal(t *testing.T) {
	got := clitest.Speak(t, exec.Command(clitest.Built(t), "rehearse"))
	_, end, found := strings.Cut(got.Out, "GROUP")
	if got.Code != 0 || !found {
		t.Fatalf("%+v", got)
	}
	var want strings.Builder
	for line := range strings.Lines("GROUP" + end) {
		if line != "\n" {
			line = "    " + line
		}
		want.WriteString(line)
	}
	for _, name := range []string{"../../../../../README.md", "../../../../../README.zh.md"} {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text := string(raw)
		shown := shownRehearsal.FindString(text)
		if clitest.HereTook.ReplaceAllString(shown, "") == clitest.HereTook.ReplaceAllString(want.String(),
			"") {
			continue
		}
		if !*clitest.Update || shown == "" {
			t.Errorf("%s shows another rehearsal (-update writes it):\n%s", name, want.String())
			continue
		}
		if err := os.WriteFile(name, []byte(strings.Replace(text, shown, want.String(), 1)),
			0o644); err != nil {
			t.Fatal(err)
		}
	}
}

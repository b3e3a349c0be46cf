//go:build real && unix

package skewverb

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/clitest"
)

func TestSkewReportIsWholeInABrowser(t *testing.T) {
	file := filepath.Join(t.TempDir(), "skew.html")
	got := skewed(t, "--lease", "30s", "--job", "5s..40s", "--preset", "timesyncd", "--report", file)
	if got.Code != 1 {
		t.Fatalf("code %d: %s", got.Code, got.Errors)
	}
	clitest.WholePage(t, file, "YES: two clients can hold", 5,
		"Timeline of the shortest way")
}

// The page must not need what its policy forbids. The browser refuses a page
// that is broken on purpose, and its console reports it, so the test above
// would notice.
func TestReportForbidsItselfTheNetwork(t *testing.T) {
	file := filepath.Join(t.TempDir(), "skew.html")
	skewed(t, "--job", "5s", "--report", file)
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Replace(page, []byte("</footer>"),
		[]byte(`</footer><img src="http://127.0.0.1:9/x.png"><script>document.title = "ran"</script>`), 1)
	if err := os.WriteFile(file, changed, 0o600); err != nil {
		t.Fatal(err)
	}
	b := clitest.OpenBrowser(t)
	b.Ask("POST", "/url", map[string]string{"url": "file://" + file}, nil)
	var title string
	b.Run("return document.title", &title)
	var console []struct{ Message string }
	b.Ask("POST", "/se/log", map[string]string{"type": "browser"}, &console)
	if title == "ran" || len(console) < 2 {
		t.Errorf("title %q, console %v", title, console)
	}
}

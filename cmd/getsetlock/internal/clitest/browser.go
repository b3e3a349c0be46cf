//go:build real && unix

package clitest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// browser is a headless Chromium, controlled through its driver.
type browser struct {
	t       *testing.T
	session string // address of the session at the driver
}

var driverPort = regexp.MustCompile(`started successfully on port (\d+)`)

// OpenBrowser starts a browser. It needs the packages chromium and
// chromium-driver, and fails the test where they are missing.
func OpenBrowser(t *testing.T) *browser {
	home, err := os.MkdirTemp("", "getsetlock-browser-*")
	if err != nil {
		t.Fatal(err)
	}
	driver := exec.Command("chromedriver", "--port=0")
	// In a process group of its own, what the driver started ends with it, also
	// when this test fails.
	driver.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	driver.Env = append(os.Environ(), "HOME="+home)
	out, err := driver.StdoutPipe()
	if err == nil {
		err = driver.Start()
	}
	if err != nil {
		t.Fatalf("no browser here; Debian's packages are chromium and chromium-driver: %v", err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-driver.Process.Pid, syscall.SIGKILL)
		_ = driver.Wait()
		_ = os.RemoveAll(home)
		http.DefaultClient.CloseIdleConnections()
	})
	port := ""
	for lines := bufio.NewScanner(out); port == "" && lines.Scan(); {
		if found := driverPort.FindStringSubmatch(lines.Text()); found != nil {
			port = found[1]
		}
	}
	if port == "" {
		t.Fatal("chromedriver ended before it listened")
	}
	b := &browser{t: t, session: "http://127.0.0.1:" + port}
	var opened struct {
		SessionID string `json:"sessionId"`
	}
	b.Ask("POST", "/session", map[string]any{"capabilities": map[string]any{"alwaysMatch": map[string]any{
		"goog:loggingPrefs": map[string]string{"browser": "ALL", "performance": "ALL"},
		"goog:chromeOptions": map[string]any{"args": []string{
			"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
			"--disable-background-networking",
			"--disable-component-update", "--disable-sync", "--window-size=1000,900",
			"--user-data-dir=" + filepath.Join(home, "profile"),
		}},
	}}}, &opened)
	b.session += "/session/" + opened.SessionID
	t.Cleanup(func() { b.Ask("DELETE", "", nil, nil) })
	return b
}

// Ask sends one command of the WebDriver protocol and reads its value.
func (b *browser) Ask(method, path string, body, value any) {
	b.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		b.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.session+path, bytes.NewReader(text))
	if method == "DELETE" {
		// The test's own context has ended when this is sent.
		req, err = http.NewRequest(method, b.session+path, nil) //nolint:noctx
	}
	if err != nil {
		b.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	var got struct{ Value json.RawMessage }
	if err := json.NewDecoder(res.Body).Decode(&got); err != nil || res.StatusCode != http.StatusOK {
		b.t.Fatalf("%s %s: %s %s %v", method, path, res.Status, got.Value, err)
	}
	if value != nil {
		if err := json.Unmarshal(got.Value, value); err != nil {
			b.t.Fatalf("%s: %v", got.Value, err)
		}
	}
}

// Run evaluates a piece of JavaScript in the page.
func (b *browser) Run(script string, value any) {
	b.t.Helper()
	b.Ask("POST", "/execute/sync", map[string]any{"script": script, "args": []any{}}, value)
}

// requested returns the addresses that the page loaded since the last call.
func (b *browser) requested() []string {
	var lines []struct{ Message string }
	b.Ask("POST", "/se/log", map[string]string{"type": "performance"}, &lines)
	var all []string
	for _, l := range lines {
		var m struct {
			Message struct {
				Method string
				Params struct {
					Request struct{ URL string }
				}
			}
		}
		if err := json.Unmarshal([]byte(l.Message), &m); err != nil {
			b.t.Fatal(err)
		}
		if m.Message.Method == "Network.requestWillBeSent" {
			all = append(all, m.Message.Params.Request.URL)
		}
	}
	return all
}

// A label beyond the edge of its plot cannot be read.
const lookAtPage = `
const out = {plots: [], tables: document.querySelectorAll('table').length, cut: [], sideways: document.documentElement.scrollWidth > innerWidth};
for (const svg of document.querySelectorAll('svg')) {
  const frame = svg.getBoundingClientRect();
  out.plots.push({name: svg.getAttribute('aria-label'), width: frame.width, height: frame.height,
    drawn: svg.querySelectorAll('path.line, rect.holds, rect.range').length,
    table: svg.closest('section').querySelectorAll('tbody tr').length});
  for (const text of svg.querySelectorAll('text')) {
    const at = text.getBoundingClientRect();
    if (at.left < frame.left - 1 || at.right > frame.right + 1 || at.top < frame.top - 1 || at.bottom > frame.bottom + 1) out.cut.push(text.textContent);
  }
}
return out;`

// WholePage fails the test unless a report has the named plots and that many
// more tables. Each plot must be drawn and have its table, and no label may be
// cut off. The page must load nothing, and the console must be empty.
func WholePage(t *testing.T, file string, tables int, plots ...string) {
	t.Helper()
	b := OpenBrowser(t)
	b.Ask("POST", "/url", map[string]string{"url": "file://" + file}, nil)
	var page struct {
		Plots []struct {
			Name                        string
			Width, Height, Drawn, Table float64
		}
		Tables   int
		Cut      []string
		Sideways bool
	}
	b.Run(lookAtPage, &page)
	names := ""
	for _, p := range page.Plots {
		names += p.Name + "\n"
		if p.Width < 500 || p.Height < 100 || p.Drawn == 0 || p.Table < 4 {
			t.Errorf("plot %+v", p)
		}
	}
	for _, name := range plots {
		if !strings.Contains(names, name) {
			t.Errorf("no plot %q among\n%s", name, names)
		}
	}
	if page.Tables != len(page.Plots)+tables || len(page.Cut) > 0 || page.Sideways {
		t.Errorf("%d tables, labels cut off: %q, wider than the window: %v", page.Tables, page.Cut,
			page.Sideways)
	}
	b.askedNobodyBut(file)
}

// askedNobodyBut fails the test unless the browser loaded only the file and its
// console stayed empty.
func (b *browser) askedNobodyBut(file string) {
	b.t.Helper()
	asked := b.requested()
	if !slices.Contains(asked, "file://"+file) {
		b.t.Errorf("the page is not among what was asked for: %v", asked)
	}
	for _, address := range asked {
		// The browser begins with its own empty page, chrome://.
		if address != "file://"+file && !strings.HasPrefix(address, "data:") &&
			!strings.HasPrefix(address, "chrome://") {
			b.t.Errorf("asked for %s", address)
		}
	}
	var console []map[string]any
	b.Ask("POST", "/se/log", map[string]string{"type": "browser"}, &console)
	if len(console) > 0 {
		b.t.Errorf("the console says %v", console)
	}
}

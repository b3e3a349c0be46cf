// SPDX-License-Identifier: Apache-2.0

//go:build real && unix

package clitest

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
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

// openBrowser starts a browser. It needs the packages chromium and
// chromium-driver, and fails the test where they are missing.
func openBrowser(t *testing.T) *browser {
	home, err := os.MkdirTemp("", "getsetlock-browser-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = os.RemoveAll(home)
		http.DefaultClient.CloseIdleConnections()
	})
	// The driver listens on one port of IPv4 and IPv6. It chooses it on one of
	// them, and ends if another program has it on the other.
	port, said := "", ""
	for tries := 0; port == "" && tries < 5; tries++ {
		port, said = startDriver(t, home)
	}
	if port == "" {
		t.Fatal("chromedriver ended five times before it listened: ", said)
	}
	b := &browser{t: t, session: "http://127.0.0.1:" + port}
	var opened struct {
		SessionID string `json:"sessionId"`
	}
	b.ask("POST", "/session", map[string]any{"capabilities": map[string]any{"alwaysMatch": map[string]any{
		"goog:loggingPrefs": map[string]string{"browser": "ALL"},
		"goog:chromeOptions": map[string]any{"args": []string{
			"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
			"--disable-background-networking", "--hide-scrollbars",
			"--disable-component-update", "--disable-sync", "--window-size=1000,900",
			"--user-data-dir=" + filepath.Join(home, "profile"),
		}},
	}}}, &opened)
	b.session += "/session/" + opened.SessionID
	t.Cleanup(func() { b.ask("DELETE", "", nil, nil) })
	return b
}

// startDriver starts the browser's driver until the test's end. It returns the
// port, or what the driver said before it ended.
func startDriver(t *testing.T, home string) (port, said string) {
	driver := exec.Command("chromedriver", "--port=0")
	// In a process group of its own, what the driver started ends with it, also
	// when this test fails.
	driver.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	driver.Env = append(os.Environ(), "HOME="+home)
	var errors bytes.Buffer
	driver.Stderr = &errors
	out, err := driver.StdoutPipe()
	if err == nil {
		err = driver.Start()
	}
	if err != nil {
		t.Fatalf("no browser here; Debian's packages are chromium and chromium-driver: %v", err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if found := driverPort.FindStringSubmatch(lines.Text()); found != nil {
			t.Cleanup(func() {
				_ = syscall.Kill(-driver.Process.Pid, syscall.SIGKILL)
				_ = driver.Wait()
			})
			return found[1], ""
		}
		said += lines.Text() + "\n"
	}
	_ = driver.Wait()
	return "", said + errors.String()
}

// ask sends one command of the WebDriver protocol and reads its value.
func (b *browser) ask(method, path string, body, value any) {
	b.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		b.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(b.t.Context(), method, b.session+path, bytes.NewReader(text))
	if method == "DELETE" {
		// The test's own context has ended when this is sent.
		req, err = http.NewRequest(method, b.session+path, nil)
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

// run evaluates a piece of JavaScript in the page.
func (b *browser) run(script string, value any) {
	b.t.Helper()
	b.ask("POST", "/execute/sync", map[string]any{"script": script, "args": []any{}}, value)
}

// devTool sends one command of the DevTools protocol.
func (b *browser) devTool(command string, params map[string]any, value any) {
	b.t.Helper()
	b.ask("POST", "/goog/cdp/execute", map[string]any{"cmd": command, "params": params}, value)
}

// view is how a person looks at a page.
type view struct {
	Width, Height int
	Scheme        string // light or dark
	Media         string // screen or print
}

func (v view) String() string { return fmt.Sprintf("%s-%d-%s", v.Media, v.Width, v.Scheme) }

// views are a phone, a small and a large screen, by day and by night, and two
// sheets of paper.
func views() []view {
	var all []view
	for _, scheme := range []string{"light", "dark"} {
		all = append(all, view{390, 844, scheme, "screen"}, view{800, 900, scheme, "screen"},
			view{1280, 900, scheme, "screen"}, view{700, 990, scheme, "print"})
	}
	return all
}

func (b *browser) show(v view) {
	b.t.Helper()
	b.devTool("Emulation.setDeviceMetricsOverride", map[string]any{"width": v.Width, "height": v.Height,
		"deviceScaleFactor": 1, "mobile": v.Width < 500}, nil)
	b.devTool("Emulation.setEmulatedMedia", map[string]any{"media": v.Media,
		"features": []map[string]string{{"name": "prefers-color-scheme", "value": v.Scheme}}}, nil)
}

// keep writes a picture of the whole page to the test's artifacts, which
// go test -artifacts keeps.
func (b *browser) keep(page string, v view) {
	b.t.Helper()
	var shot struct{ Data string }
	b.devTool("Page.captureScreenshot", map[string]any{"captureBeyondViewport": true}, &shot)
	picture, err := base64.StdEncoding.DecodeString(shot.Data)
	if err == nil {
		name := strings.TrimSuffix(filepath.Base(page), ".html") + "-" + v.String() + ".png"
		err = os.WriteFile(filepath.Join(b.t.ArtifactDir(), name), picture, 0o600)
	}
	if err != nil || !bytes.HasPrefix(picture, []byte("\x89PNG")) {
		b.t.Errorf("no picture of %s as %v: %v", page, v, err)
	}
}

// lookAtPage returns what is wrong with a page as it is shown now. A label
// beyond the edge of its plot, or below another label, cannot be read. The
// contrast is that of the colour rules of the web (WCAG 2), of text in its
// computed colour on the colours below it.
//
//go:embed look.js
var lookAtPage string

type seenPage struct {
	Plots []struct {
		Name                              string
		Width, Height, Drawn, Table, Tips float64
	}
	Tables   int
	Wrong    []string
	Sideways bool
	First    string // text of the first screen
	Paper    string // colour of the page
}

// WholePage fails the test unless a report has the named plots and that many
// more tables, and can be read in every view: on a phone, on screens, by night
// and on paper. Each plot must be drawn and have its table and its tooltips.
// Nothing may be wider than the window, no label may be cut off or covered, all
// text must have contrast, and the first screen must name the culprit. The
// console must be empty. A picture of each view is kept.
func WholePage(t *testing.T, file, culprit string, tables int, plots ...string) {
	t.Helper()
	b := openBrowser(t)
	b.ask("POST", "/url", map[string]string{"url": "file://" + file}, nil)
	for _, v := range views() {
		b.show(v)
		var page seenPage
		b.run(lookAtPage, &page)
		b.keep(file, v)
		names := ""
		for _, p := range page.Plots {
			names += p.Name + "\n"
			if p.Width < 300 || p.Height < 60 || p.Drawn == 0 || p.Table < 2 || p.Tips == 0 {
				t.Errorf("%v: plot %+v", v, p)
			}
		}
		if i := slices.IndexFunc(plots, func(p string) bool { return !strings.Contains(names, p) }); i >= 0 {
			t.Errorf("%v: no plot %q among\n%s", v, plots[i], names)
		}
		if page.Tables != len(page.Plots)+tables || page.Sideways || len(page.Wrong) > 0 {
			t.Errorf("%v: %d tables, wider than the window: %v, wrong:\n%s", v, page.Tables, page.Sideways,
				strings.Join(page.Wrong, "\n"))
		}
		if !strings.Contains(page.First, culprit) {
			t.Errorf("%v: the first screen does not name %q:\n%s", v, culprit, page.First)
		}
		if white := page.Paper == "rgb(255, 255, 255)"; white == (v.Scheme == "dark" && v.Media == "screen") {
			t.Errorf("%v: the page is %s", v, page.Paper)
		}
	}
	b.wantNoComplaint()
}

// wantNoComplaint fails the test unless the browser's console is empty. The
// page's policy forbids it to load anything, and the browser says so there.
func (b *browser) wantNoComplaint() {
	b.t.Helper()
	var console []map[string]any
	b.ask("POST", "/se/log", map[string]string{"type": "browser"}, &console)
	if len(console) > 0 {
		b.t.Errorf("the console says %v", console)
	}
}

// SPDX-License-Identifier: Apache-2.0

package porting

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func readPage(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// logged is a line that package lock logs: a message of slog.
var logged = regexp.MustCompile(`\.(?:Warn|Error)\(\s*"([^"]+)"`)

// docs/guide/watching.md has a row for each line that package lock logs, and no
// other.
func TestLogLinesInWatchingAreThoseOfLock(t *testing.T) {
	page := readPage(t, "docs/guide/watching.md")
	_, rows, _ := strings.Cut(page, "## Log lines")
	rows, _, _ = strings.Cut(rows, "## Traces")
	files, err := filepath.Glob(filepath.Join(root, "lock/*.go"))
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range logged.FindAllStringSubmatch(string(text), -1) {
			lines[m[1]] = true
			if !strings.Contains(rows, "| `"+m[1]+"` |") {
				t.Errorf("no row for the line %q", m[1])
			}
		}
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(rows, -1) {
		if !lines[m[1]] {
			t.Errorf("package lock logs no line %q", m[1])
		}
	}
	if len(lines) < 5 {
		t.Errorf("%d lines found", len(lines))
	}
}

// docs/guide/watching.md has a row for each hook.
func TestHooksInWatchingAreThoseOfLock(t *testing.T) {
	page := readPage(t, "docs/guide/watching.md")
	_, rows, _ := strings.Cut(page, "## Hooks")
	rows, _, _ = strings.Cut(rows, "## Metrics")
	source := readPage(t, "lock/config.go")
	_, source, _ = strings.Cut(source, "type Hooks struct")
	source, _, _ = strings.Cut(source, "\n}")
	hooks := regexp.MustCompile(`(?m)^\t(\w+) +func\(Event\)`).FindAllStringSubmatch(source, -1)
	for _, m := range hooks {
		if !strings.Contains(rows, "| `"+m[1]+"` |") {
			t.Errorf("no row for the hook %s", m[1])
		}
	}
	if len(hooks) != 7 {
		t.Errorf("%d hooks found; the page says seven", len(hooks))
	}
}

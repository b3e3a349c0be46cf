// SPDX-License-Identifier: Apache-2.0

package porting

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the regions into the documents")

const root = "../.."

// documents are those whose Go must come from this package.
var documents = []string{"README.md", "README.zh.md", "docs/guide/porting.md", "docs/zh/porting.md",
	"docs/internals/protocol.md", "docs/guide/migration.md", "docs/zh/migration.md",
	"docs/guide/java-dual.md",
	"docs/internals/architecture.md", "docs/reference/glossary.md", "CONTRIBUTING.md",
	"docs/guide/testing.md", "docs/guide/watching.md", "docs/guide/quorum.md", "docs/guide/faq.md",
	"docs/start/reading.md",
	"docs/guide/once.md"}

// block is a fence in a document. from is what its marker names, empty where it
// has none.
var block = regexp.MustCompile("(?ms)^(?:<!-- ((?:(?:docs/porting|examples/\\w+|bench)/[^ :]+|tools/readme): [^ ]+) -->\n)?```go\n(.*?)^```$")

// builtElsewhere is how a marker begins whose Go a test takes out of the
// document, builds and runs.
const builtElsewhere = "tools/readme: "

func TestGoInTheDocumentsIsTheCompiledCode(t *testing.T) {
	regions := allRegions(t)
	shown := map[string]bool{}
	for _, name := range documents {
		path := filepath.Join(root, name)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		updated := block.ReplaceAllStringFunc(string(text), func(found string) string {
			m := block.FindStringSubmatch(found)
			from, code := m[1], m[2]
			want, known := regions[from]
			switch {
			case strings.HasPrefix(from, builtElsewhere):
				return found
			case from == "":
				t.Errorf("%s shows Go without saying where it is compiled:\n%s", name, code)
			case !known:
				t.Errorf("%s shows %q, which does not exist", name, from)
			case code != want && !*update:
				t.Errorf("%s differs from %q, which is (-update writes it):\n%s", name, from, want)
			}
			shown[from] = true
			if !known {
				return found
			}
			return "<!-- " + from + " -->\n```go\n" + want + "```"
		})
		if *update && updated != string(text) {
			if err := os.WriteFile(path, []byte(updated), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for from := range regions {
		if !shown[from] {
			t.Errorf("%q is shown nowhere", from)
		}
	}
}

// sources are the folders whose regions are shown: this package, and programs
// that have tests of their own.
var sources = []string{"docs/porting", "examples/service", "examples/metrics", "bench"}

// allRegions gives the text of every region of the sources, with its margin
// taken off.
func allRegions(t *testing.T) map[string]string {
	t.Helper()
	regions := map[string]string{}
	for _, folder := range sources {
		files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			base := filepath.Base(file)
			if base == "doc.go" || base == "blocks_test.go" {
				continue // they speak of regions and have none
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			collect(t, folder+"/"+base, string(text), regions)
		}
	}
	return regions
}

func collect(t *testing.T, file, text string, regions map[string]string) {
	t.Helper()
	var name string
	var lines []string
	for line := range strings.Lines(text) {
		mark, marked := strings.CutPrefix(strings.TrimSpace(line), "// doc: ")
		switch {
		case !marked && name != "":
			lines = append(lines, line)
		case marked && mark == "end" && name != "":
			key := file + ": " + name
			if _, twice := regions[key]; twice {
				t.Errorf("%q exists twice", key)
			}
			regions[key] = withoutMargin(lines)
			name, lines = "", nil
		case marked && mark != "end" && name == "":
			name = mark
		case marked:
			t.Errorf("%s: stray %q", file, strings.TrimSpace(line))
		}
	}
	if name != "" {
		t.Errorf("%s: region %q has no end", file, name)
	}
}

// withoutMargin takes off the tabs that all lines begin with.
func withoutMargin(lines []string) string {
	margin := -1
	for _, line := range lines {
		if strings.TrimSpace(line) == "" {
			continue
		}
		tabs := len(line) - len(strings.TrimLeft(line, "\t"))
		if margin < 0 || tabs < margin {
			margin = tabs
		}
	}
	var b strings.Builder
	for _, line := range lines {
		if strings.TrimSpace(line) == "" {
			b.WriteString("\n")
			continue
		}
		b.WriteString(line[margin:])
	}
	// gofmt wants a blank line before an end that follows a func
	return strings.TrimRight(b.String(), "\n") + "\n"
}

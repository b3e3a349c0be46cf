// SPDX-License-Identifier: Apache-2.0

package porting

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// short are the documents whose paragraphs fit six lines of 120 columns.
var short = []string{"docs/guide/porting.md", "docs/guide/migration.md", "docs/guide/audit.md",
	"docs/reference/command.md",
	"docs/guide/testing.md", "docs/guide/watching.md", "docs/guide/faq.md", "docs/start/reading.md"}

const longestParagraph = 6 * 120

// begins is a line that begins a paragraph of its own: an item, a row, a
// heading, code.
var begins = regexp.MustCompile(`^( *[-*] | *\d+\. |\||#|    |<!--)`)

func TestParagraphsHaveAtMostSixLines(t *testing.T) {
	for _, name := range short {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paragraphs(fence.ReplaceAllString(string(text), "")) {
			if len([]rune(p)) > longestParagraph {
				t.Errorf("%s: a paragraph of %d characters, the most is %d: %.60s…", name, len([]rune(p)),
					longestParagraph, p)
			}
		}
	}
}

// A list's items, a table's rows and what an empty line parts are counted
// alone.
func TestParagraphsAreCountedAlone(t *testing.T) {
	got := paragraphs("a\nb\n\n- c\n  d\n- e\n\n| f |\n| g |\n\n1. h\n")
	if want := "a b/- c d/- e/| f |/| g |/1. h"; strings.Join(got, "/") != want {
		t.Errorf("%q", got)
	}
}

// paragraphs are those of a document without fences, each as one line.
func paragraphs(text string) []string {
	var all []string
	open := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.TrimSpace(line) == "":
			open = false
		case !open || begins.MatchString(line):
			all, open = append(all, line), true
		default:
			all[len(all)-1] += " " + strings.TrimSpace(line)
		}
	}
	return all
}

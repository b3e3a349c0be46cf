// SPDX-License-Identifier: Apache-2.0

package zh

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

const root = "../.."

// shorts are the English document and a shorter Chinese one, which says nothing
// else.
var shorts = [][2]string{
	{"README.md", "README.zh.md"},
	{"docs/start/go.md", "docs/zh/go.md"},
	{"docs/start/cron.md", "docs/zh/cron.md"},
	{"docs/start/java.md", "docs/zh/java.md"},
	{"docs/guide/audit.md", "docs/zh/audit.md"},
	{"docs/reference/command.md", "docs/zh/command.md"},
}

// part is what a section holds that no translation may change.
type part struct {
	title   string
	code    []string // fences and indented lines, in order
	figures []string // numbers of the prose, sorted
	names   []string // what the prose sets in code style, sorted, once each
}

var (
	fences  = regexp.MustCompile("(?ms)^```.*?^```$")
	item    = regexp.MustCompile(`(?m)^ *\d+\. `)
	number  = regexp.MustCompile(`\d[\d,.]*`)
	span    = regexp.MustCompile("`([^`]+)`")
	link    = regexp.MustCompile(`\]\([^)]*\)`)
	comment = regexp.MustCompile(`(?://|#|/\*).*$`)
)

// What a shorter page shows as code, figures and names is in the English page
// too.
func TestShortPagesShowOnlyWhatTheEnglishShows(t *testing.T) {
	for _, pair := range shorts {
		t.Run(pair[1], func(t *testing.T) {
			for _, stray := range strays(read(t, pair[0]), read(t, pair[1])) {
				t.Errorf("the English page has no %s", stray)
			}
		})
	}
}

// The README in Chinese is shorter, and shows every block of the English one in
// the same order: a reader of either copies the same commands and the same Go.
func TestChineseReadmeHasAllBlocksOfTheEnglish(t *testing.T) {
	english, chinese := code(read(t, "README.md")), code(read(t, "README.zh.md"))
	for i := range min(len(english), len(chinese)) {
		if !sameCode(english[i], chinese[i]) {
			t.Fatalf("README.zh.md shows\n%s\nwhere README.md shows\n%s", chinese[i], english[i])
		}
	}
	if len(english) != len(chinese) {
		t.Errorf("README.zh.md shows %d lines of code, README.md %d", len(chinese), len(english))
	}
}

func code(text string) []string {
	var all []string
	for _, p := range split(text) {
		all = append(all, p.code...)
	}
	return all
}

// The comparison of a shorter page finds a block, a figure and a name of its
// own.
func TestAStrayIsFound(t *testing.T) {
	const english = "# A\n\nWaits 30 s for `x`.\n\n```go\nf(1)\n```\n"
	for chinese, found := range map[string]int{
		"# 甲\n\n等 30 秒，`x`。\n":                    0,
		"# 甲\n\n等 31 秒。\n":                        1,
		"# 甲\n\n`y`。\n":                           1,
		"# 甲\n\n```go\nf(2)\n```\n":               1,
		"# 甲\n\n```go\nf(1)\n```\n\n1. 甲\n2. 乙\n": 0,
	} {
		if got := strays(english, chinese); len(got) != found {
			t.Errorf("%q: %d strays, want %d: %q", chinese, len(got), found, got)
		}
	}
}

// strays are the blocks, figures and names of a text that another lacks. The
// numbers of a list's items are none.
func strays(english, chinese string) []string {
	var found []string
	for _, block := range fences.FindAllString(chinese, -1) {
		if !strings.Contains(english, block) {
			found = append(found, "block\n"+block)
		}
	}
	whole := strings.Join(strings.Fields(english), " ")
	var figures []string
	for _, n := range number.FindAllString(whole, -1) {
		figures = append(figures, strings.TrimRight(n, ",."))
	}
	for _, p := range split(item.ReplaceAllString(chinese, "")) {
		for _, name := range p.names {
			if !strings.Contains(whole, name) {
				found = append(found, "name "+name)
			}
		}
		for _, figure := range p.figures {
			if !slices.Contains(figures, figure) {
				found = append(found, "figure "+figure)
			}
		}
	}
	return found
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A line break renders as a blank. Between two Chinese characters it tears a
// phrase.
func TestChineseLinesEndAtPunctuation(t *testing.T) {
	var pages []string
	for _, pair := range shorts {
		pages = append(pages, pair[1])
	}
	for _, page := range pages {
		lines := strings.Split(fences.ReplaceAllString(read(t, page), ""), "\n")
		for i, line := range lines[:len(lines)-1] {
			if torn(line, lines[i+1]) {
				t.Errorf("%s: a break inside a phrase: %s", page, line)
			}
		}
	}
}

func TestABreakInAPhraseIsFound(t *testing.T) {
	for _, c := range []struct {
		line, next string
		torn       bool
	}{
		{"先写，", "再读", false}, {"先写", "再读", true}, {"先写", "", false}, {"先写", "  再读", true},
		{"先写", "- 再读", false}, {"先写", "`x`", false}, {"| 甲 |", "| 乙 |", false},
	} {
		if got := torn(c.line, c.next); got != c.torn {
			t.Errorf("%q, %q: %t", c.line, c.next, got)
		}
	}
}

// torn tells whether a phrase begins in one line and ends in the next.
func torn(line, next string) bool {
	last, _ := utf8.DecodeLastRuneInString(strings.TrimSpace(line))
	first, _ := utf8.DecodeRuneInString(strings.TrimSpace(next))
	return han(last) && han(first)
}

// sameCode lets a comment be translated, which then has a Chinese character in
// it.
func sameCode(english, chinese string) bool {
	if english == chinese {
		return true
	}
	at := comment.FindString(chinese)
	return strings.ContainsFunc(at, han) &&
		strings.TrimSpace(comment.ReplaceAllString(english, "")) == strings.TrimSpace(
			comment.ReplaceAllString(chinese, ""))
}

func han(r rune) bool { return unicode.Is(unicode.Han, r) }

func split(text string) []part {
	var all []part
	var prose strings.Builder
	fenced := false
	end := func() {
		if len(all) > 0 {
			all[len(all)-1].read(prose.String())
		}
		prose.Reset()
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "```"):
			fenced = !fenced
			all[len(all)-1].code = append(all[len(all)-1].code, line)
		case fenced, strings.HasPrefix(line, "    "), strings.HasPrefix(line, "<!-- "):
			all[len(all)-1].code = append(all[len(all)-1].code, line)
		case strings.HasPrefix(line, "#"):
			end()
			all = append(all, part{title: strings.TrimSpace(strings.TrimLeft(line, "#"))})
			prose.WriteString(line + "\n")
		default:
			prose.WriteString(line + "\n")
		}
	}
	end()
	return all
}

func (p *part) read(prose string) {
	prose = link.ReplaceAllString(prose, "]")
	for _, m := range span.FindAllStringSubmatch(prose, -1) {
		p.names = append(p.names, strings.Join(strings.Fields(m[1]), " ")) // a line may end within one
	}
	slices.Sort(p.names)
	p.names = slices.Compact(p.names)
	for _, n := range number.FindAllString(span.ReplaceAllString(prose, ""), -1) {
		p.figures = append(p.figures, strings.TrimRight(n, ",."))
	}
	slices.Sort(p.figures)
}

package zh

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

const root = "../.."

// pairs are the English document and the Chinese one.
var pairs = [][2]string{
	{"README.md", "README.zh.md"},
	{"docs/porting.md", "docs/zh/porting.md"},
	{"docs/migration.md", "docs/zh/migration.md"},
}

// part is what a section holds that no translation may change.
type part struct {
	title   string
	code    []string // fences and indented lines, in order
	figures []string // numbers of the prose, sorted
	names   []string // what the prose sets in code style, sorted, once each
}

var (
	number  = regexp.MustCompile(`\d[\d,.]*`)
	span    = regexp.MustCompile("`([^`]+)`")
	link    = regexp.MustCompile(`\]\([^)]*\)`)
	comment = regexp.MustCompile(`(?://|#|/\*).*$`)
)

func TestChineseDocumentsHaveTheCodeAndTheFiguresOfTheEnglish(t *testing.T) {
	for _, pair := range pairs {
		t.Run(pair[1], func(t *testing.T) {
			english, chinese := parts(t, pair[0]), parts(t, pair[1])
			if len(english) != len(chinese) {
				t.Fatalf("%d sections, the English has %d: %q and %q", len(chinese), len(english), titles(chinese), titles(english))
			}
			for i, want := range english {
				for _, difference := range want.differs(chinese[i]) {
					t.Errorf("section %q (%q): %s", chinese[i].title, want.title, difference)
				}
			}
		})
	}
}

// TestADifferenceIsFound is for the comparison itself.
func TestADifferenceIsFound(t *testing.T) {
	const english = "# A\n\nWaits 30 s for `x`.\n\n```go\nf(1) // one\n```\n"
	for _, c := range []struct {
		name, chinese string
		found         int
	}{
		{"translated", "# 甲\n\n等 30 秒，`x`。\n\n```go\nf(1) // 一\n```\n", 0},
		{"another figure", "# 甲\n\n等 31 秒，`x`。\n\n```go\nf(1) // 一\n```\n", 1},
		{"another name", "# 甲\n\n等 30 秒，`y`。\n\n```go\nf(1) // 一\n```\n", 1},
		{"other code", "# 甲\n\n等 30 秒，`x`。\n\n```go\nf(2) // 一\n```\n", 1},
		{"another comment that is not Chinese", "# 甲\n\n等 30 秒，`x`。\n\n```go\nf(1) // two\n```\n", 1},
		{"code left out", "# 甲\n\n等 30 秒，`x`。\n", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := split(english)[0].differs(split(c.chinese)[0]); len(got) != c.found {
				t.Errorf("%d differences, want %d: %q", len(got), c.found, got)
			}
		})
	}
}

func (want part) differs(got part) []string {
	var found []string
	if !slices.EqualFunc(want.code, got.code, sameCode) {
		found = append(found, "code differs:\n"+strings.Join(got.code, "\n")+"\nthe English:\n"+strings.Join(want.code, "\n"))
	}
	if !slices.Equal(want.figures, got.figures) {
		found = append(found, "figures are "+strings.Join(got.figures, " ")+", the English has "+strings.Join(want.figures, " "))
	}
	if !slices.Equal(want.names, got.names) {
		found = append(found, "names are "+strings.Join(got.names, "|")+", the English has "+strings.Join(want.names, "|"))
	}
	return found
}

// sameCode lets a comment be translated, which then has a Chinese character in it.
func sameCode(english, chinese string) bool {
	if english == chinese {
		return true
	}
	at := comment.FindString(chinese)
	return strings.ContainsFunc(at, han) &&
		strings.TrimSpace(comment.ReplaceAllString(english, "")) == strings.TrimSpace(comment.ReplaceAllString(chinese, ""))
}

func han(r rune) bool { return unicode.Is(unicode.Han, r) }

func parts(t *testing.T, name string) []part {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return split(string(text))
}

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

func titles(all []part) []string {
	var names []string
	for _, p := range all {
		names = append(names, p.title)
	}
	return names
}

package main

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	limit = 80 // columns of a comment line, its indentation included
	tab   = 4  // columns of a tab
	// early is how far from the limit a line ends that was ended on purpose:
	// the next word would have fitted, and this many columns more.
	early = 30
	// further begins the lines of an item after its first, as gofmt writes
	// them.
	further = "     "
)

var (
	output = regexp.MustCompile(`(?i)^ ?(unordered )?output:`)
	// mark is a word that has a meaning at the start of a line: it begins a
	// list's item, a heading, a row, a link's definition, a build constraint or
	// an example's output. A wrapped line never begins with such a word.
	mark = regexp.MustCompile(
		`^([-*+•]|#+|\|.*|\+build|\(?(\d{1,2}|[a-zA-Z])[.)]|\[[^\]]*\]:|(?i:(unordered )?output:.*))$`)
	// item begins a list's item as gofmt writes it.
	item = regexp.MustCompile(`^(   - |  \d\. | \d\d\. )\b`)
	// todo begins a paragraph whose text is wrapped. If it comes to stand at
	// the start of a line by wrapping, the next run changes nothing: no line is
	// too wide then.
	todo = regexp.MustCompile(`^(TODO|FIXME|XXX|HACK|BUG|NOTE|HAZARD|Deprecated)\b`)
)

// columns is the width of a text: 4 for a tab, 1 for any other character.
func columns(s string) int {
	return utf8.RuneCountInString(s) + strings.Count(s, "\t")*(tab-1)
}

// wrapBlock wraps the lines of one comment, each without its slashes, to a
// width.
func wrapBlock(block []string, width int) []string {
	var out, paragraph []string
	end := func() {
		out = append(out, wrapParagraph(paragraph, width)...)
		paragraph = nil
	}
	for i := 0; i < len(block); i++ {
		l := block[i]
		if output.MatchString(l) {
			end()
			return append(out, block[i:]...)
		}
		if first := item.FindString(l); first != "" {
			end()
			n := itemLines(block[i:])
			out = append(out, wrapItem(first, block[i:i+n], width)...)
			i += n - 1
			continue
		}
		if verbatim(l) {
			end()
			out = append(out, l)
			continue
		}
		if todo.MatchString(l[1:]) {
			end()
		}
		paragraph = append(paragraph, l)
	}
	end()
	return out
}

// itemLines is how many lines the list item at the start of some lines has.
func itemLines(lines []string) int {
	n := 1
	for n < len(lines) && strings.HasPrefix(lines[n], further) &&
		!strings.ContainsAny(lines[n][len(further):len(further)+1], " \t") {
		n++
	}
	return n
}

// wrapItem wraps a list item whose first line begins with first.
func wrapItem(first string, lines []string, width int) []string {
	prose := make([]string, len(lines))
	for i, l := range lines {
		prose[i] = " " + l[len(further):]
	}
	out := wrapParagraph(prose, width-len(further)+1)
	for i, l := range out {
		if out[i] = further + l[1:]; i == 0 {
			out[i] = first + l[1:]
		}
	}
	return out
}

// verbatim reports whether a line is not prose: it is empty, a directive,
// indented, or it begins with a blank and a mark.
func verbatim(l string) bool {
	return !strings.HasPrefix(l, " ") || strings.HasPrefix(l, "  ") || strings.HasPrefix(l, " \t") ||
		strings.HasPrefix(l, " # ") || strings.HasPrefix(l, " |") || strings.HasPrefix(l, " +build") ||
		mark.MatchString(strings.Fields(l)[0]) && strings.HasPrefix(l, " [")
}

// wrapParagraph fills the lines of a paragraph anew where one of them is too
// wide and can be broken. A paragraph with a list or with columns is kept.
func wrapParagraph(lines []string, width int) []string {
	wide := false
	for _, l := range lines {
		words := strings.Fields(l)
		if mark.MatchString(words[0]) || strings.Join(words, " ") != l[1:] {
			return lines
		}
		wide = wide || columns(l) > width && len(pieces(words)) > 1
	}
	if !wide {
		return lines
	}
	var out, words []string
	for i, l := range lines {
		words = append(words, strings.Fields(l)...)
		if i+1 == len(lines) || endsEarly(l, lines[i+1], width) {
			out = append(out, fill(pieces(words), width)...)
			words = nil
		}
	}
	return out
}

// endsEarly reports whether a line was ended on purpose.
func endsEarly(l, next string, width int) bool {
	first, _, _ := strings.Cut(next[1:], " ")
	return columns(l)+1+columns(first) <= width-early
}

// pieces joins words that must not begin a line to those before them.
func pieces(words []string) []string {
	var out []string
	for i, w := range words {
		if i > 0 && mark.MatchString(w) {
			out[len(out)-1] += " " + w
			continue
		}
		out = append(out, w)
	}
	return out
}

// fill makes lines of a width, each with a blank in front. A piece that is too
// wide has a line of its own.
func fill(pieces []string, width int) []string {
	var out []string
	line := ""
	for _, p := range pieces {
		if line != "" && columns(line)+1+columns(p) > width {
			out, line = append(out, line), ""
		}
		line += " " + p
	}
	return append(out, line)
}

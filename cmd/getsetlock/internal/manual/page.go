package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/cli"
)

// Our help texts are plain text with tables of their own, and flags in groups.
// cobra/doc takes them for Markdown and knows no groups, so this file writes
// the few requests of man(7) itself.

// pageName returns the name of a command's page, without its section.
func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// page returns the manual page of a command.
func page(cmd *cobra.Command) string {
	p := &roff{}
	p.request("TH", strings.ToUpper(pageName(cmd)), "1", "", "getsetlock", "getsetlock")
	p.request("nh") // a flag with a hyphen in it could not be copied
	p.b.WriteString(".ad l\n")
	p.section("NAME")
	p.line(pageName(cmd) + " - " + cmd.Short)
	p.section("SYNOPSIS")
	p.request("B", cmd.UseLine())
	if cmd.HasAvailableSubCommands() {
		p.request("br")
		p.request("B", cmd.CommandPath()+" COMMAND --help")
	}
	p.section("DESCRIPTION")
	p.text(cmd.Long)
	if cmd.HasAvailableSubCommands() {
		p.commands(cmd)
	}
	p.section("OPTIONS")
	for _, g := range cli.FlagGroups(cmd) {
		p.request("SS", strings.TrimSuffix(g.Title, ":"))
		for _, f := range g.Flags {
			p.flag(f)
		}
	}
	p.section("EXAMPLES")
	p.text(cmd.Example)
	p.section("SEE ALSO")
	var others []string
	for _, c := range append([]*cobra.Command{cmd.Root()}, shown(cmd.Root())...) {
		if c != cmd {
			others = append(others, pageName(c)+"(1)")
		}
	}
	p.line(strings.Join(others, ", "))
	return p.b.String()
}

// roff writes lines of man(7).
type roff struct{ b strings.Builder }

// request writes a line that formats, with its arguments quoted.
func (p *roff) request(name string, args ...string) {
	p.b.WriteString("." + name)
	for _, a := range args {
		p.b.WriteString(` "` + strings.ReplaceAll(escaped(a), `"`, `\(dq`) + `"`)
	}
	p.b.WriteString("\n")
}

func (p *roff) section(title string) { p.request("SH", title) }

// line writes a line of text. One that begins with a dot or a quote would be
// taken for a request.
func (p *roff) line(text string) {
	text = escaped(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, `\(aq`) {
		text = `\&` + text
	}
	p.b.WriteString(text + "\n")
}

// text writes paragraphs. Lines that begin with a blank keep their form, and so
// do tables and command lines.
func (p *roff) text(text string) {
	for _, paragraph := range strings.Split(strings.Trim(text, "\n"), "\n\n") {
		p.request("PP")
		asIs := false
		for _, line := range strings.Split(paragraph, "\n") {
			if indented := strings.HasPrefix(line, " "); indented != asIs {
				asIs = indented
				p.asIs(indented)
			}
			p.line(line)
		}
		if asIs {
			p.asIs(false)
		}
	}
}

// asIs begins or ends lines that are printed as they are. They have up to 80
// characters, so they begin at the left edge of the page.
func (p *roff) asIs(begin bool) {
	if !begin {
		p.request("fi")
		p.request("in")
		return
	}
	p.request("nf")
	p.b.WriteString(".in 0\n")
}

// commands lists the verbs in their groups.
func (p *roff) commands(cmd *cobra.Command) {
	p.section("COMMANDS")
	for _, g := range cmd.Groups() {
		p.request("SS", strings.TrimSuffix(g.Title, ":"))
		for _, c := range shown(cmd) {
			if c.GroupID == g.ID {
				p.request("TP")
				p.request("B", c.Name())
				p.line(c.Short)
			}
		}
	}
}

// flag writes a flag, its value's name and its help text.
func (p *roff) flag(f *pflag.Flag) {
	value, usage := pflag.UnquoteUsage(f)
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	p.request("TP")
	if value == "" {
		p.request("B", name)
	} else {
		p.request("BI", name+" ", value)
	}
	if usually := f.DefValue; !slices.Contains([]string{"", "0", "0s", "false", "[]"}, usually) {
		usage += fmt.Sprintf(" (default %s)", usually)
	}
	p.line(usage)
}

// escaped returns a text whose characters all print as they are. groff turns
// some ASCII characters into typographic ones, and reads other bytes by the
// locale.
func escaped(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch special := map[rune]string{
			'\\': `\e`, '-': `\-`, '\'': `\(aq`, '`': `\(ga`, '^': `\(ha`, '~': `\(ti`}; {
		case special[r] != "":
			b.WriteString(special[r])
		case r > 0x7e:
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"errors"
	"strconv"
	"strings"
)

// line is one parsed line of MONITOR, as far as its parts were asked for. Its
// texts are slices of the line, so clone what you keep. args is valid until the
// next parse.
type line struct {
	micros int64 // µs since 1970, by the server's clock
	db     int
	addr   string // "lua" for a command inside a script
	args   []string
	more   bool // the line has more arguments than were asked for
}

// parser reads lines. It allocates only for arguments that contain escapes. It
// is not safe for concurrent use.
type parser struct {
	buffer []byte
	args   []string
}

var errNoLine = errors.New("not a line of MONITOR")

// parse reads `1770000000.123456 [0 127.0.0.1:6379] "SETNX" "k" "v"`. It keeps
// at most most arguments, each cut to longest bytes. It returns errNoLine for
// text that a server would not write; no input makes it panic.
func (p *parser) parse(text string, most, longest int) (line, error) {
	var l line
	var ok bool
	if l.micros, text, ok = executedAt(text); !ok {
		return l, errNoLine
	}
	if l.db, l.addr, text, ok = sender(text); !ok {
		return l, errNoLine
	}
	if l.more, ok = p.arguments(text, most, longest); !ok {
		return l, errNoLine
	}
	l.args = p.args
	return l, nil
}

// executedAt reads the instant, such as `1770000000.123456`, in µs.
func executedAt(text string) (micros int64, rest string, ok bool) {
	seconds, rest, ok := number(text)
	if !ok || seconds > 1<<40 || len(rest) < 7 || rest[0] != '.' {
		return 0, "", false
	}
	micros, tail, ok := number(rest[1:7])
	return seconds*1e6 + micros, rest[7:], ok && tail == ""
}

// sender reads the database and address, such as ` [0 127.0.0.1:6379]`.
func sender(text string) (db int, addr, rest string, ok bool) {
	if len(text) < 3 || text[0] != ' ' || text[1] != '[' {
		return 0, "", "", false
	}
	n, rest, ok := number(text[2:])
	if !ok || n > 1<<31-1 || rest == "" || rest[0] != ' ' {
		return 0, "", "", false
	}
	// An IPv6 address contains brackets and a socket's path may contain blanks,
	// so the quote after the bracket decides.
	end := strings.Index(rest, `] "`)
	if end < 2 {
		return 0, "", "", false
	}
	return int(n), rest[1:end], rest[end+1:], true
}

// arguments reads ` "SETNX" "k" "v"` into p.args. more is true if the line has
// more than most arguments.
func (p *parser) arguments(text string, most, longest int) (more, ok bool) {
	p.args = p.args[:0]
	for len(text) > 0 {
		if len(p.args) == most {
			return true, true
		}
		arg, rest, ok := p.quoted(text, longest)
		if !ok {
			return false, false
		}
		p.args, text = append(p.args, arg), rest
	}
	return false, true
}

// number reads decimal digits.
func number(text string) (n int64, rest string, ok bool) {
	i := 0
	for i < len(text) && i < 18 && text[i] >= '0' && text[i] <= '9' {
		n = n*10 + int64(text[i]-'0')
		i++
	}
	return n, text[i:], i > 0
}

// quoted reads a blank and a quoted text. Most texts need no copy.
func (p *parser) quoted(text string, longest int) (arg, rest string, ok bool) {
	if len(text) < 3 || text[0] != ' ' || text[1] != '"' {
		return "", "", false
	}
	text = text[2:]
	end := strings.IndexByte(text, '"')
	if end < 0 {
		return "", "", false
	}
	if strings.IndexByte(text[:end], '\\') < 0 {
		return text[:min(end, longest)], text[end+1:], true
	}
	return p.escaped(text, longest)
}

// escaped reads a quoted text and undoes the server's escapes.
func (p *parser) escaped(text string, longest int) (arg, rest string, ok bool) {
	p.buffer = p.buffer[:0]
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '"':
			return string(p.buffer), text[i+1:], true
		case c == '\\':
			b, n := unescape(text[i:])
			if n == 0 {
				return "", "", false
			}
			c, i = b, i+n-1
		}
		if len(p.buffer) < longest {
			p.buffer = append(p.buffer, c)
		}
	}
	return "", "", false
}

// unescape reads one escape; it returns the byte and the escape's length, 0 if
// it is none.
func unescape(text string) (byte, int) {
	if len(text) < 2 {
		return 0, 0
	}
	switch text[1] {
	case '"', '\\':
		return text[1], 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'a':
		return '\a', 2
	case 'b':
		return '\b', 2
	case 'x':
		if len(text) < 4 {
			return 0, 0
		}
		n, err := strconv.ParseUint(text[2:4], 16, 8)
		if err != nil {
			return 0, 0
		}
		return byte(n), 4
	}
	return 0, 0
}

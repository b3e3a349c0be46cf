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
type parser struct{ args []string }

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
		arg, rest, ok := quoted(text, longest)
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

// quoted reads a blank and a quoted text. The server's escapes are Go's too,
// and most texts have none and need no copy.
func quoted(text string, longest int) (arg, rest string, ok bool) {
	if !strings.HasPrefix(text, ` "`) {
		return "", "", false
	}
	whole, err := strconv.QuotedPrefix(text[1:])
	if err != nil {
		return "", "", false
	}
	arg = whole[1 : len(whole)-1]
	if strings.IndexByte(arg, '\\') >= 0 {
		arg, err = strconv.Unquote(whole)
	}
	return arg[:min(len(arg), longest)], text[1+len(whole):], err == nil
}

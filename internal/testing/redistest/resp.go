// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
)

// ReadValue reads one RESP value of a server, of version 2 or 3, and returns
// its bytes unchanged.
func ReadValue(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	n, err := count(line)
	if err != nil || n < 0 {
		return line, err
	}
	switch line[0] {
	case '$', '=', '!':
		body := make([]byte, n+2)
		_, err := io.ReadFull(r, body)
		return append(line, body...), err
	case '%', '|':
		n *= 2
	}
	for range n {
		v, err := ReadValue(r)
		if err != nil {
			return nil, err
		}
		line = append(line, v...)
	}
	return line, nil
}

// count returns how many bytes or values follow the line; -1: none, also for a
// null.
func count(line []byte) (int, error) {
	switch line[0] {
	case '$', '=', '!', '*', '~', '>', '%', '|':
		n, err := strconv.Atoi(string(bytes.TrimRight(line[1:], "\r\n")))
		if err != nil {
			return 0, fmt.Errorf("redistest: not RESP: %q", line)
		}
		return n, nil
	}
	return -1, nil
}

// ReadCommand reads one command of a client, an array of strings, and returns
// its bytes too.
func ReadCommand(r *bufio.Reader) (Command, []byte, error) {
	raw, err := ReadValue(r)
	if err != nil {
		return nil, nil, err
	}
	in := bufio.NewReader(bytes.NewReader(raw))
	head, _ := in.ReadBytes('\n')
	n, err := count(head)
	if err != nil || head[0] != '*' || n < 1 {
		return nil, nil, fmt.Errorf("redistest: not a command: %q", raw)
	}
	c := make(Command, n)
	for i := range c {
		head, _ := in.ReadBytes('\n')
		size, err := count(head)
		if err != nil || head[0] != '$' || size < 0 {
			return nil, nil, fmt.Errorf("redistest: not a command: %q", raw)
		}
		body := make([]byte, size+2)
		if _, err := io.ReadFull(in, body); err != nil {
			return nil, nil, err
		}
		c[i] = string(body[:size])
	}
	return c, raw, nil
}

// Unasked reports whether a server's value answers no command: it is a push, or
// a message to a subscriber.
func Unasked(v []byte) bool {
	if v[0] == '>' {
		return true
	}
	for _, kind := range []string{"message", "pmessage", "smessage"} {
		head := fmt.Sprintf("$%d\r\n%s\r\n", len(kind), kind)
		if v[0] == '*' && bytes.HasPrefix(v[bytes.IndexByte(v, '\n')+1:], []byte(head)) {
			return true
		}
	}
	return false
}

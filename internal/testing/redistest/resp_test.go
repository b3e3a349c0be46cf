// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"bufio"
	"strings"
	"testing"
)

func TestReadValueReturnsWholeValues(t *testing.T) {
	for _, v := range []string{
		"+OK\r\n", "-ERR no\r\n", ":7\r\n", "$-1\r\n", "*-1\r\n", "$0\r\n\r\n", "$4\r\na\r\nb\r\n",
		"*0\r\n", "*2\r\n$1\r\na\r\n*1\r\n:1\r\n", "%1\r\n+k\r\n:1\r\n", "~1\r\n+x\r\n", ">2\r\n+a\r\n_\r\n",
		"#t\r\n", ",1.5\r\n", "(123\r\n", "=5\r\ntxt:a\r\n", "!3\r\nERR\r\n",
	} {
		got, err := ReadValue(bufio.NewReader(strings.NewReader(v + "+next\r\n")))
		if err != nil || string(got) != v {
			t.Errorf("%q read as %q, %v", v, got, err)
		}
	}
}

func TestReadCommandRefusesOtherValues(t *testing.T) {
	for _, v := range []string{"PING\r\n", "*0\r\n", "*1\r\n:1\r\n", "*1\r\n$-1\r\n", "*x\r\n",
		"*2\r\n$1\r\na\r\n"} {
		if c, _, err := ReadCommand(bufio.NewReader(strings.NewReader(v))); err == nil {
			t.Errorf("%q read as %v", v, c)
		}
	}
}

func TestUnaskedKnowsMessagesAndPushes(t *testing.T) {
	for v, want := range map[string]bool{
		">2\r\n+invalidate\r\n*0\r\n":                    true,
		"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n":  true,
		"*4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$1\r\nc\r\n": true,
		"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n":     false,
		"*1\r\n$7\r\nmassage\r\n":                        false,
		"$7\r\nmessage\r\n":                              false,
	} {
		if Unasked([]byte(v)) != want {
			t.Errorf("%q unasked: %v", v, !want)
		}
	}
}

// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"crypto/sha1"
	"encoding/hex"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// Script is a Lua script. It is sent by its digest, and whole only if the
// server says that it does not know the digest. The client does not remember
// which server knows which script: a restart, a SCRIPT FLUSH or a fail-over
// would make that wrong.
type Script struct {
	name   string
	source any // boxed once, not at every call
	sha    any
	keys   any
}

// NewScript returns the script with the given number of KEYS. Its first line
// names it: "-- name: KEYS, ARGV → reply". NewScript panics if that line is
// missing, since scripts are part of the program.
func NewScript(keys int, source string) *Script {
	line, _, _ := strings.Cut(source, "\n")
	name, says, ok := strings.Cut(strings.TrimPrefix(line, "-- "), ":")
	if !ok || !strings.HasPrefix(line, "-- ") || name == "" || !strings.Contains(says, "→") {
		panic("wire: a script must begin with “-- name: KEYS, ARGV → reply”, not " + line)
	}
	sum := sha1.Sum([]byte(source))
	return &Script{name: name, source: source, sha: hex.EncodeToString(sum[:]), keys: keys}
}

// Name returns the name in the script's first line.
func (s *Script) Name() string { return s.name }

// SHA returns the digest by which the server knows the script.
func (s *Script) SHA() string { return s.sha.(string) }

// Cmd returns the Command that runs s.
func (s *Script) Cmd(keysAndArgs ...any) Command { return Command{Script: s, Args: keysAndArgs} }

// send writes cmd into the connection's buffer. room is reused and holds
// nothing between calls.
func (cmd *Command) send(conn redis.Conn, full bool, room *[]any) error {
	if cmd.Track {
		if err := conn.Send("CLIENT", "CACHING", "YES"); err != nil {
			return err
		}
	}
	if cmd.Ask {
		if err := conn.Send("ASKING"); err != nil {
			return err
		}
	}
	if cmd.Script == nil {
		return conn.Send(cmd.Name, cmd.Args...)
	}
	name, which := "EVALSHA", cmd.Script.sha
	if full {
		name, which = "EVAL", cmd.Script.source
	}
	args := append(append((*room)[:0], which, cmd.Script.keys), cmd.Args...)
	err := conn.Send(name, args...)
	clear(args)
	*room = args[:0]
	return err
}

// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"strconv"
	"strings"
)

// Redirect is what a node of a cluster answers for a slot that it does not
// serve. The node has not executed the command.
type Redirect struct {
	Slot uint16
	Addr string // host:port of the node to ask; the host may be empty: the node that was asked
	Ask  bool   // for this command only, after ASKING: the slot is moving
}

// RedirectOf returns the redirection that err is, also if it is wrapped.
func RedirectOf(err error) (r Redirect, ok bool) {
	text, _ := serverText(err)
	words := strings.Fields(text)
	if len(words) != 3 || words[0] != "MOVED" && words[0] != "ASK" {
		return r, false
	}
	slot, err := strconv.ParseUint(words[1], 10, 16)
	return Redirect{uint16(slot), words[2], words[0] == "ASK"}, err == nil && strings.Contains(words[2], ":")
}

// IsRedirect: the node does not serve the slot of the command's keys, or has
// begun to give it away. Nothing was executed.
func IsRedirect(err error) bool { return says(err, "MOVED ", "ASK ") }

// IsMoving: the slot of the command's keys is moving to another node of the
// cluster, and this node does not have all of the keys. Nothing was executed.
func IsMoving(err error) bool { return says(err, "ASK ", "TRYAGAIN ") }

// Asking sends commands after ASKING: to the node to which a slot is moving.
type Asking struct{ M *Mux }

// Do is [Mux.Do].
func (a Asking) Do(ctx context.Context, name string, args ...any) (any, error) {
	return a.one(ctx, Cmd(name, args...))
}

// Eval is [Mux.Eval].
func (a Asking) Eval(ctx context.Context, s *Script, keysAndArgs ...any) (any, error) {
	return a.one(ctx, s.Cmd(keysAndArgs...))
}

func (a Asking) one(ctx context.Context, cmd Command) (any, error) {
	cmd.Ask = true
	r := a.M.Batch(ctx, []Command{cmd})[0]
	return r.Value, r.Err
}

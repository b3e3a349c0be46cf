// SPDX-License-Identifier: Apache-2.0

package wire

import "context"

// Pin is one connection of a Mux. Commands sent through it follow what was sent
// there before, to the same server. When the connection has ended, they are not
// sent.
type Pin struct{ l *link }

// Do is [Mux.Do] over this connection.
func (p Pin) Do(ctx context.Context, name string, args ...any) (any, error) {
	c := p.l.m.calls.Get().(*call)
	c.single(name, nil, args)
	c.only = p.l
	return p.l.m.one(ctx, c)
}

// Eval is [Mux.Eval] over this connection.
func (p Pin) Eval(ctx context.Context, s *Script, keysAndArgs ...any) (any, error) {
	c := p.l.m.calls.Get().(*call)
	c.single("", s, keysAndArgs)
	c.only = p.l
	return p.l.m.one(ctx, c)
}

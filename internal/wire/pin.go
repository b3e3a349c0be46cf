package wire

import "context"

// Pin is the connection that a Mux had at one moment. Commands sent through it
// reach the server that this connection leads to, and no other: when the
// connection has ended, they are not sent. So what one command found out about
// the server is true for the next one.
//
// Two Pins are equal if they are the same connection. The zero Pin is none.
type Pin struct {
	l    *link
	last bool // also when the connection takes no other calls any more
}

// Pin returns the present connection. It dials if there is none.
func (m *Mux) Pin(ctx context.Context) (Pin, error) {
	if ctx.Err() != nil {
		return Pin{}, &NotSentError{context.Cause(ctx)}
	}
	l := m.link.Load()
	if l == nil {
		var err error
		if l, err = m.connect(ctx); err != nil {
			return Pin{}, &NotSentError{err}
		}
	}
	return Pin{l, false}, nil
}

// Do is [Mux.Do] over this connection.
func (p Pin) Do(ctx context.Context, name string, args ...any) (any, error) {
	c := p.l.m.calls.Get().(*call)
	c.single(name, nil, args)
	c.only, c.last = p.l, p.last
	return p.l.m.one(ctx, c)
}

// Eval is [Mux.Eval] over this connection.
func (p Pin) Eval(ctx context.Context, s *Script, keysAndArgs ...any) (any, error) {
	c := p.l.m.calls.Get().(*call)
	c.single("", s, keysAndArgs)
	c.only, c.last = p.l, p.last
	return p.l.m.one(ctx, c)
}

// Batch is [Mux.Batch] over this connection, for commands without scripts.
func (p Pin) Batch(ctx context.Context, cmds []Command) []Reply {
	c := newCall()
	c.cmds, c.only, c.last, c.replies = cmds, p.l, p.last, make([]Reply, 0, len(cmds))
	fate, err := p.l.m.send(ctx, c)
	replies := make([]Reply, len(cmds))
	for i := range cmds {
		replies[i] = c.outcome(i, fate, err)
	}
	return replies
}

// SPDX-License-Identifier: Apache-2.0

package wire

import "context"

// Notices is a subscription to one channel, on which other processes speak to
// this one. It needs only SUBSCRIBE. It is made when first used, and again
// after the connection was lost: see [subscriber].
type Notices struct {
	s       *subscriber
	channel string
	ears    Ears
	trouble retry // trouble with SUBSCRIBE
}

// Ears are the funcs that a Notices calls. They must not block.
type Ears struct {
	Told   func(message []byte) // a message came; it may come twice
	Missed func()               // messages may have been missed: the connection ended
	Wanted func() bool          // reports whether a goroutine waits for messages
}

// Notices returns a subscription to channel on the server that m dials. A Mux
// has at most one. It is made before m is used, and closed with m.
func (m *Mux) Notices(channel string, ears Ears) *Notices {
	m.sub.notices = &Notices{s: &m.sub, channel: channel, ears: ears}
	return m.sub.notices
}

// Open subscribes. When it has returned without an error, the server sends what
// is published from then on, until the connection ends.
//
// If SUBSCRIBE failed although the server was reached, it is tried again in the
// background, with growing pauses. Meanwhile Open returns the last error at
// once.
func (n *Notices) Open(ctx context.Context) error {
	s := n.s
	for {
		s.mu.Lock()
		switch {
		case s.closed:
			s.mu.Unlock()
			return &NotSentError{ErrClosed}
		case s.conn != nil && s.conn.hears:
			s.conn.listen()
			s.mu.Unlock()
			return nil
		}
		trouble := n.trouble.err
		if s.attempt == nil && (trouble == nil || !n.trouble.waits()) {
			s.begin(false)
		}
		a := s.attempt
		s.mu.Unlock()
		if trouble != nil {
			return trouble
		}
		if err := a.wait(ctx, false); err != nil {
			return err
		}
	}
}

// tried records the result of an attempt. mu is held.
func (n *Notices) tried(err error) error {
	if err == nil || IsNotSent(err) {
		return err // not sent: the server was not reached
	}
	n.trouble.failed(err)
	return &NotSentError{err}
}

// Anew forgets that the server refused to subscribe: there may be another
// server.
func (n *Notices) Anew() {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	n.trouble.anew()
}

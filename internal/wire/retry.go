// SPDX-License-Identifier: Apache-2.0

package wire

import "time"

const (
	// firstPause is the pause after the first attempt, and longestPause the
	// longest: a server that never answers is asked rarely.
	firstPause   = time.Second
	longestPause = 10 * time.Minute

	// longestPassing bounds the pause after a refusal that passes.
	longestPassing = 30 * time.Second
)

// retry spaces the attempts at a subscription that failed although the server
// was reached: it refuses, or a proxy swallows the command or hangs up. Each
// attempt costs a connection, and without an answer a whole Timeout. So after
// the first attempt no caller waits for another; later ones run in the
// background. Its state outlives connections. The mutex of its owner guards its
// fields.
type retry struct {
	err   error         // error of the last attempt; nil: it worked, or there was none
	pause time.Duration // from the end of the last attempt to next
	next  time.Time     // earliest start of another
}

// failed records a failed attempt. The pause doubles with each attempt. It
// grows up to half a minute if the server says that the trouble passes, else as
// far as longestPause. If the server says that the trouble does not pass,
// the pause is the longest at once.
func (r *retry) failed(err error) {
	least, longest := firstPause, longestPause
	switch {
	case IsTransient(err):
		longest = longestPassing
	case answered(err):
		least = longestPause
	}
	r.err = err
	r.pause = min(max(2*r.pause, least), longest)
	r.next = time.Now().Add(r.pause)
}

// anew forgets a refusal: the next connection may lead to another server.
// Trouble of the network between stays recorded.
func (r *retry) anew() {
	if r.err != nil && answered(r.err) {
		r.worked()
	}
}

// worked forgets the trouble.
func (r *retry) worked() { *r = retry{} }

// waits reports that it is too early for another attempt.
func (r *retry) waits() bool { return time.Now().Before(r.next) }

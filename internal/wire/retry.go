package wire

import "time"

// longestPassing bounds the pause after a refusal that passes.
const longestPassing = 30 * time.Second

// retry spaces the attempts at a subscription that failed though the server was
// reached: it refuses, or a proxy between swallows the command or hangs up. Each
// attempt costs a connection, and where nothing answers a whole Timeout. So
// after the first nobody waits for another, which is made in the background.
// What it knows holds across connections. Its fields belong to the mutex of its
// owner.
type retry struct {
	err   error         // of the last attempt; nil: it worked, or there was none
	pause time.Duration // from the end of the last attempt to next
	next  time.Time     // earliest start of another
}

// failed notes an attempt. The pause doubles with each, up to half a minute
// where the server says that the trouble passes, else as a probe's does. Where
// the server says that it does not pass, the pause is the longest at once.
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

// anew forgets a refusal: behind the next connection there may be another
// server. What is between stays.
func (r *retry) anew() {
	if r.err != nil && answered(r.err) {
		r.worked()
	}
}

// worked forgets the trouble.
func (r *retry) worked() { *r = retry{} }

// waits reports that it is too early for another attempt.
func (r *retry) waits() bool { return time.Now().Before(r.next) }

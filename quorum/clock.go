package quorum

import "time"

// Members that are slower than the majority are waited for a little, in real
// time, as all network deadlines are. It decides nothing about who holds a
// lock, only which votes count before a renewal has confirmed them.

// leastGrace is the shortest such wait. It is longer than replies of one
// network differ.
const leastGrace = 5 * time.Millisecond

// patience measures how long a majority takes, and then allows as long again
// for the others.
type patience struct {
	began time.Time
	timer *time.Timer
}

func newPatience() *patience { return &patience{began: time.Now()} }

// over returns a channel that gets a value when the wait is over. The first
// call begins the wait.
func (p *patience) over() <-chan time.Time {
	if p.timer == nil {
		p.timer = time.NewTimer(max(time.Since(p.began), leastGrace))
	}
	return p.timer.C
}

// stop ends a wait. The next call of over begins another.
func (p *patience) stop() {
	if p.timer != nil {
		p.timer.Stop()
		p.timer = nil
	}
}

// leastBrief is the shortest wait for votes past the majority.
const leastBrief = 50 * time.Microsecond

// brief returns a channel that gets a value after a fifth as long as it took so
// far, or after least if that is longer.
func (p *patience) brief(least time.Duration) <-chan time.Time {
	return time.After(max(time.Since(p.began)/5, least))
}

// leastPause is the shortest pause before members are asked again: the time in
// which other clients give their votes back.
const leastPause = 500 * time.Microsecond

// pause returns a channel that gets a value after half as long as it took so
// far.
func (p *patience) pause() <-chan time.Time {
	return time.After(max(time.Since(p.began)/2, leastPause))
}

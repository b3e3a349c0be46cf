package rehearse

import "time"

// view is the clock of one program: true time, a little off.
type view struct {
	offset time.Duration
	began  time.Time
}

// clock is that of the programs in one place of the fleet, which all run on the same machine.
func (p Plan) clock(slot int, began time.Time) *view {
	v := &view{began: began}
	if p.Spread > 0 {
		v.offset = time.Duration(p.rand(streamClock, slot).Int64N(int64(p.Spread)+1)) - p.Spread/2
	}
	return v
}

// Now is the wall clock.
func (v *view) Now() time.Time { return time.Now().Add(v.offset) }

// After is monotonic: an offset doesn't change how long anything takes.
func (v *view) After(d time.Duration) <-chan time.Time { return time.After(d) }

// Elapsed is monotonic too.
func (v *view) Elapsed() time.Duration { return time.Since(v.began) }

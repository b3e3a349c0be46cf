package out

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// Progress shows that work goes on: a bar on a terminal, else a plain line
// every few seconds, and nothing with quiet. Its methods are safe for
// concurrent use.
type Progress struct {
	what  string
	total int64
	out   io.Writer
	now   func() time.Time

	mu   sync.Mutex
	bar  *progressbar.ProgressBar // nil: plain lines
	done int64
	last time.Time
}

// ProgressEvery is the pause between two lines of progress where there is no
// terminal.
const ProgressEvery = 5 * time.Second

// drawEvery is the least time between two drawings of a bar.
var drawEvery = 100 * time.Millisecond

// Progress begins to show the progress of what. total is negative where the end
// is not known.
func (e *Env) Progress(quiet bool, what string, total int64) *Progress {
	p := &Progress{what: what, total: total, out: e.Stderr, now: time.Now}
	p.last = p.now()
	if quiet {
		p.out = io.Discard
		return p
	}
	columns, _, ok := e.Screen(e.Stderr)
	if !ok {
		return p
	}
	// Colours are always off, so NO_COLOR has nothing to change.
	times := roomForTimes(columns, what, total)
	p.bar = progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(e.Stderr),
		progressbar.OptionSetDescription(what),
		progressbar.OptionThrottle(drawEvery),
		progressbar.OptionShowCount(),
		// Otherwise the library turns its wheel in a goroutine, without a lock.
		progressbar.OptionSetSpinnerChangeInterval(0),
		progressbar.OptionSetPredictTime(times),
		progressbar.OptionSetElapsedTime(times),
		progressbar.OptionClearOnFinish(),
	)
	return p
}

// roomForTimes reports whether a terminal has room for the elapsed and the
// remaining time behind a bar. The bar itself becomes as short as it has to; a
// line that is too long even without it would wrap, and each drawing would
// leave a part of it behind.
func roomForTimes(columns int, what string, total int64) bool {
	const (
		shortest = 8
		signs    = len(" 100% || ")
		clocks   = len(" [1h59m59s:1h59m59s]")
	)
	return columns >= len(what)+signs+shortest+clocks+len(" (/)")+2*len(fmt.Sprint(total))
}

// Set reports how much has been done.
func (p *Progress) Set(done int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = done
	if p.bar != nil {
		_ = p.bar.Set64(done)
		return
	}
	if now := p.now(); now.Sub(p.last) >= ProgressEvery {
		p.last = now
		p.line()
	}
}

func (p *Progress) line() {
	if p.total < 0 {
		fmt.Fprintf(p.out, "getsetlock: %s: %d\n", p.what, p.done)
		return
	}
	fmt.Fprintf(p.out, "getsetlock: %s: %d of %d\n", p.what, p.done, p.total)
}

// End removes the bar.
func (p *Progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Finish()
		_ = p.bar.Clear()
	}
}

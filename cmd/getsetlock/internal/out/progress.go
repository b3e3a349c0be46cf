// SPDX-License-Identifier: Apache-2.0

package out

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Progress shows that work goes on: a line that is drawn anew on a terminal,
// else a plain line every few seconds, and nothing with quiet. Its methods are
// safe for concurrent use.
type Progress struct {
	what  string
	total int64
	out   io.Writer
	now   func() time.Time
	every time.Duration
	width func() int // of the terminal; nil: plain lines

	mu          sync.Mutex
	begun, last time.Time
}

// ProgressEvery is the pause between two lines of progress where there is no
// terminal.
const ProgressEvery = 5 * time.Second

// drawEvery is the pause between two drawings on a terminal.
const drawEvery = 100 * time.Millisecond

// Progress begins to show the progress of what. total is negative where the end
// is not known.
func (e *Env) Progress(quiet bool, what string, total int64) *Progress {
	p := &Progress{what: what, total: total, out: e.Stderr, now: time.Now, every: ProgressEvery}
	p.begun = p.now()
	p.last = p.begun
	if quiet {
		p.out = io.Discard
	} else if _, _, ok := e.Screen(e.Stderr); ok {
		p.every = drawEvery
		p.width = func() int { columns, _, _ := e.Screen(e.Stderr); return columns }
	}
	return p
}

// Set reports how much has been done.
func (p *Progress) Set(done int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if now.Sub(p.last) < p.every {
		return
	}
	p.last = now
	line := fmt.Sprintf("%s: %d", p.what, done)
	if p.total >= 0 {
		line += fmt.Sprintf(" of %d", p.total)
	}
	if p.width == nil {
		fmt.Fprintln(p.out, "getsetlock: "+line)
		return
	}
	// A row that wrapped would leave a part of it behind.
	line = Cut(line+", "+now.Sub(p.begun).Round(time.Second).String(), p.width()-1)
	fmt.Fprint(p.out, erasesRow+line)
}

const erasesRow = "\r\x1b[2K"

// End removes what was drawn.
func (p *Progress) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.width != nil {
		fmt.Fprint(p.out, erasesRow)
	}
}

// SPDX-License-Identifier: Apache-2.0

package smallverbs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/child"
	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/out"
)

// lookEvery is the pause between two looks of --watch. A look that takes long
// is followed by a longer pause, of restAfter times its own length, so that the
// watch stays a small part of the server's work.
const (
	lookEvery = 2 * time.Second
	restAfter = 10
)

// looker reads the locks once.
type looker func(ctx context.Context, p *out.Progress) ([]lockLine, error)

// keepLooking shows the locks until a signal ends it. Only the first look may
// fail: then the address or the rights are wrong, most likely.
func (f *lsFlags) keepLooking(e *out.Env, ctx context.Context, address string, look looker) error {
	w := &lockWatch{e: e, address: address, since: map[string]sight{}}
	if _, _, ok := e.Screen(e.Stdout); ok {
		w.live, w.table = out.NewLive(e, e.Stdout), f.table
	}
	err := w.until(ctx, look)
	if w.unread {
		return nil // Execute reports the error of the write
	}
	var stopped out.Interrupted
	if errors.As(context.Cause(ctx), &stopped) {
		w.draw() // without the ^C that the terminal shows
		return out.Exit(out.OwnCode(child.SignalCode(stopped.By)))
	}
	return out.CouldNot(err, "listing the keys of %s", address)
}

// lockWatch is what --watch knows and shows.
type lockWatch struct {
	e       *out.Env
	address string
	live    *out.Live // nil: stdout is no terminal
	table   func(e *out.Env, lines []lockLine) []string

	lines  []lockLine // of the last look that succeeded
	looked time.Time  // when that began; zero: never
	away   error      // why the looks since then failed
	unread bool       // a line could not be printed, so nobody reads the next
	since  map[string]sight
}

// sight is since when a watch has seen a holder on a key.
type sight struct {
	holder string
	at     time.Time
	before bool // the holder was there when the watch began
}

// looked is the outcome of a look.
type lookedAt struct {
	lines []lockLine
	begun time.Time
	err   error
}

// until looks again and again. On a terminal it draws each second, so that the
// age of the picture is seen to grow while a server does not answer.
func (w *lockWatch) until(ctx context.Context, look looker) error {
	results := make(chan lookedAt, 1)
	begin := func() {
		at := w.e.Clock.Now()
		go func() {
			lines, err := look(ctx, nil)
			results <- lookedAt{lines, at, err}
		}()
	}
	begin()
	var next, tick <-chan time.Time
	if w.live != nil {
		tick = w.e.Clock.After(time.Second)
	}
	for {
		select {
		case r := <-results:
			if ctx.Err() != nil {
				return r.err
			}
			if w.looked.IsZero() && r.err != nil {
				return r.err
			}
			w.take(r)
			if w.unread {
				return nil
			}
			next = w.e.Clock.After(max(lookEvery, restAfter*w.e.Clock.Now().Sub(r.begun)))
		case <-next:
			next = nil
			begin()
		case <-tick:
			w.draw()
			tick = w.e.Clock.After(time.Second)
		case <-ctx.Done():
			if next == nil {
				<-results // of the look that is under way, which ends with ctx
			}
			return nil
		}
	}
}

// take shows the outcome of a look.
func (w *lockWatch) take(r lookedAt) {
	first := w.looked.IsZero()
	switch {
	case r.err != nil && w.away == nil:
		w.change("away", "%s: %s; the last look is %s old", w.address, out.OneLine(reason(r.err)), w.age())
	case r.err == nil && w.away != nil:
		w.change("back", "%s, after %s", w.address, w.age())
	}
	w.away = r.err
	if r.err == nil {
		w.compare(r, first)
		w.lines, w.looked = r.lines, r.begun
	}
	w.draw()
}

// reason returns what a look's error says, without the packages' names.
func reason(err error) string { return strings.TrimPrefix(out.CouldNot(err, "").Error(), ": ") }

// age returns how old the picture is.
func (w *lockWatch) age() string {
	return out.Rounded(w.e.Clock.Now().Sub(w.looked).Round(time.Second))
}

// change prints a line, where stdout is no terminal.
func (w *lockWatch) change(word, format string, args ...any) {
	if w.live == nil {
		at := w.e.Clock.Now().UTC().Format("2006-01-02T15:04:05.000Z07:00")
		if _, err := fmt.Fprintf(w.e.Stdout, "%s %-7s %s\n", at, word,
			fmt.Sprintf(format, args...)); err != nil {
			w.unread = true
		}
	}
}

// compare finds what changed since the look before, and how long each holder
// has been there.
func (w *lockWatch) compare(r lookedAt, first bool) {
	if first && len(r.lines) == 0 {
		w.change("free", "no locks found")
	}
	states := map[string]string{}
	for _, l := range w.lines {
		states[l.raw] = l.State
	}
	seen := map[string]sight{}
	for i := range r.lines {
		l := &r.lines[i]
		old, known := w.since[l.raw]
		now := sight{l.identity(), r.begun, first}
		word := l.news(old, states[l.raw], first, known)
		switch {
		case known && old.holder == now.holder:
			now = old
		case word == "changed":
			now.before = true // the value does not say since when its writer has the lock
		}
		if word != "" {
			w.change(word, "%s", l.summary())
		}
		seen[l.raw] = now
		if l.Age == nil && l.State == StateHeld {
			l.Age, l.longer = new(r.begun.Sub(now.at)), now.before
		}
	}
	for _, l := range w.lines {
		if _, still := seen[l.raw]; !still {
			w.change("free", "%s, was %s by %s", l.Key, l.State, l.holder())
		}
	}
	w.since = seen
}

// news returns the word for what happened to a lock since the look before, and
// nothing if it is as it was, or was renewed.
func (l lockLine) news(old sight, state string, first, known bool) string {
	switch {
	case first:
		return l.State
	case known && old.holder == l.identity() && state == l.State:
		return ""
	case known && old.holder == l.identity():
		return l.State
	case known && l.Owner == "" && l.State == StateHeld:
		return "changed" // taken anew or renewed: such a value does not say which
	}
	return arrival(l.State)
}

// arrival returns the word for a lock that is there and was not before.
func arrival(state string) string {
	if state == StateHeld {
		return "taken"
	}
	return state
}

// identity returns what stays the same for as long as one holder holds.
func (l lockLine) identity() string {
	switch {
	case l.Owner != "":
		return l.Owner
	case l.Value != nil:
		return *l.Value
	}
	return l.Type
}

// summary returns a lock in a few words.
func (l lockLine) summary() string {
	words := l.names() + " by " + l.holder()
	if l.Left != nil {
		words += ", left " + out.Rounded(*l.Left)
	}
	if l.Waiters != nil && *l.Waiters > 0 {
		words += fmt.Sprintf(", waiters %d", *l.Waiters)
	}
	return words
}

// draw draws the table, and above it how old it is.
func (w *lockWatch) draw() {
	if w.live == nil || w.looked.IsZero() {
		return
	}
	head := fmt.Sprintf("%s on %s, looked %s ago", out.Count(len(w.lines), "lock"), w.address,
		w.age())
	lines := []string{head}
	if w.away != nil {
		line := fmt.Sprintf("NO ANSWER, the picture is %s old: %s", w.age(), out.OneLine(reason(w.away)))
		lines = []string{line}
		if w.e.Colours(w.e.Stdout) {
			lines[0] = out.Bad.Paint(line)
		}
	}
	if len(w.lines) > 0 {
		lines = append(lines, w.table(w.e, w.lines)...)
	}
	w.live.Draw(lines)
}

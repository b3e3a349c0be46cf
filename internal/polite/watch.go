// SPDX-License-Identifier: Apache-2.0

package polite

import (
	"sync/atomic"
	"time"
)

// Watch looks at a key that was left, until the gap is over. An old client may
// enter and leave between two looks. So where the server can report a change,
// the Watch asks for that.
type Watch struct {
	gap, until time.Duration
	looks      int
	cancel     func() // nil where the server does not report changes
	touched    atomic.Bool
}

// NewWatch returns the Watch of a key that is left for gap from now on.
func NewWatch(now, gap time.Duration) *Watch { return &Watch{gap: gap, until: now + gap} }

// Sight is what one look at both keys showed.
type Sight struct {
	Old  bool // an old client's bytes on L
	Left bool // M says that the holder left the key
}

// Eyes is how a Watch looks.
type Eyes struct {
	// Now reads the clock of elapsed time.
	Now func() time.Duration

	// Arm calls fn at the next change of L, after a look that registers it.
	Arm func(fn func()) (cancel func(), err error)

	// See looks at both keys, and registers L if tracked is set.
	See func(tracked bool) (Sight, error)
}

// Look looks once. It reports whether an old client took the key, and how long
// to wait before the next look; zero means that there is none. It must not be
// called concurrently.
func (w *Watch) Look(e Eyes) (old bool, next time.Duration) {
	first := w.looks == 0
	if first {
		w.cancel, _ = e.Arm(func() { w.touched.Store(true) })
	}
	w.looks++
	seen, err := e.See(first && w.cancel != nil)
	now := e.Now()
	switch {
	case err == nil && seen.Old:
		old = true
	case err == nil && now < w.until && (w.touched.Load() || !seen.Left):
		// Only an old client changes L now, and a getsetlock script that meets
		// an old client there ends the gap. After the gap a getsetlock client
		// may have the key.
		old = true
	case now < w.at():
		return false, w.at() - now
	}
	if w.cancel != nil {
		w.cancel()
	}
	return old, 0
}

// at returns when the next look is due: after nine tenths of the gap and, if
// the server does not report changes, also after three and six.
func (w *Watch) at() time.Duration {
	tenths := time.Duration(3 * w.looks)
	if w.cancel != nil {
		tenths = 9
		if w.looks > 1 {
			return 0
		}
	}
	if tenths > 9 {
		return 0
	}
	return w.until - w.gap + tenths*w.gap/10
}

// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"strconv"
	"time"
)

// longestRush bounds how long a message is held for an old client to come in
// between. No call times out within 300 ms.
const longestRush = 200 * time.Millisecond

// rushed lets an old client come while a takeover is on its way, or delete the
// key that it has overrun while a release is. It returns for how long the
// network holds that message.
func (w *world) rushed(m message) time.Duration {
	takes := taking(m.asks) && judged(m.name, m.asks) != ""
	if w.plan.Old == nil || !takes && !ending[m.asks] {
		return 0
	}
	w.mu.Lock()
	n := slices.IndexFunc(w.plan.Ops, func(o Op) bool {
		k, begun := w.keys[o.Key], w.rushes[o.ID] != nil
		switch {
		case !slices.Contains(m.name, k.name):
			return false
		case takes:
			return o.Rushes && !begun
		}
		return o.Overruns && begun && w.pending[o.ID] && word(w.read(k).m) == word(m.name[5])
	})
	if n < 0 {
		w.mu.Unlock()
		return 0
	}
	o := w.plan.Ops[n]
	if end := w.rushes[o.ID]; end != nil {
		delete(w.rushes, o.ID)
		close(end)
	} else {
		w.rushes[o.ID] = make(chan struct{})
	}
	w.mu.Unlock()
	if o.Rushes {
		w.operate(o)
	}
	return min(20*w.plan.Procs[o.Proc].Near, longestRush)
}

// ending are the scripts by which a holder gives its key back.
var ending = map[string]bool{"release": true, "bridge_release": true, "bridge_leave": true}

// judged returns the value that an attempt is to replace; empty: none.
func judged(c []string, name string) string {
	at := 7 // the number of the script's argument
	if name == "acquire" {
		at = 11
	}
	if n, _ := strconv.Atoi(c[2]); len(c) > n+2+at {
		return c[n+2+at]
	}
	return ""
}

// hurried is closed when an old client that overruns its lease is to end its
// job; nil: it has no cause to.
func (w *world) hurried(o Op) <-chan struct{} {
	if !o.Overruns {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rushes[o.ID] = make(chan struct{})
	return w.rushes[o.ID]
}

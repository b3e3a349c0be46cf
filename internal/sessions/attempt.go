// SPDX-License-Identifier: Apache-2.0

package sessions

import (
	"errors"
	"sync"

	"github.com/getsetlock/getsetlock/lock/backend"
)

// Trouble is an error of the store, or of the way to it. An Acquire waits while
// it may pass.
type Trouble struct {
	Text    string
	Err     error
	Passes  bool
	Replied bool // the store itself said so
}

func (e *Trouble) Error() string { return e.Text + ": " + e.Err.Error() }
func (e *Trouble) Unwrap() error { return e.Err }

// Passing is [Trouble.Passes].
func (e *Trouble) Passing() bool { return e.Passes }

// Answered is [Trouble.Replied].
func (e *Trouble) Answered() bool { return e.Replied }

// Known reports whether err needs no more explanation.
func Known(err error) bool {
	var ready *Trouble
	return errors.Is(err, ErrOver) || errors.Is(err, backend.ErrLost) || errors.As(err, &ready)
}

// Retried calls try again if the session was found to be over, with which
// nothing was done. why is the text of the error after three such sessions.
func Retried[T any](why string, try func() (T, error)) (got T, err error) {
	for range 3 {
		if got, err = try(); !errors.Is(err, ErrOver) {
			return got, err
		}
	}
	return got, &Trouble{Text: why, Err: err, Passes: true}
}

// ExtendAll extends grants of several sessions, those of one session by one
// call of extend. It returns what [backend.BatchExtender] does.
func ExtendAll[S comparable, G backend.Grant](gs []backend.Grant, of func(G) S,
	extend func(S, []G) ([]backend.Term, []error)) ([]backend.Term, []error) {
	terms, errs := make([]backend.Term, len(gs)), make([]error, len(gs))
	places := map[S][]int{}
	for i, g := range gs {
		s := of(g.(G))
		places[s] = append(places[s], i)
	}
	for s, at := range places {
		some := make([]G, len(at))
		for i, place := range at {
			some[i] = gs[place].(G)
		}
		t, e := extend(s, some)
		for i, place := range at {
			terms[place], errs[place] = t[i], e[i]
		}
	}
	return terms, errs
}

// Names is a set of names that forgets all of them when it becomes too large.
type Names struct {
	mu   sync.Mutex
	have map[string]bool
}

const mostNames = 4096

// Has reports whether the set has a name.
func (n *Names) Has(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.have[name]
}

// Set adds a name to the set, or takes it out.
func (n *Names) Set(name string, in bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case !in:
		delete(n.have, name)
	case n.have == nil || len(n.have) >= mostNames:
		n.have = map[string]bool{name: true}
	default:
		n.have[name] = true
	}
}

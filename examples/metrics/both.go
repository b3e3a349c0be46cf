// SPDX-License-Identifier: Apache-2.0

package metrics

import "github.com/getsetlock/getsetlock/lock"

// Both returns hooks that call those of a and then those of b.
func Both(a, b lock.Hooks) lock.Hooks {
	return lock.Hooks{
		Waiting:     both(a.Waiting, b.Waiting),
		Acquired:    both(a.Acquired, b.Acquired),
		Renewed:     both(a.Renewed, b.Renewed),
		RenewFailed: both(a.RenewFailed, b.RenewFailed),
		Endangered:  both(a.Endangered, b.Endangered),
		Lost:        both(a.Lost, b.Lost),
		Released:    both(a.Released, b.Released),
	}
}

func both(a, b func(lock.Event)) func(lock.Event) {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return func(e lock.Event) { a(e); b(e) }
}

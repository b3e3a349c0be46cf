// SPDX-License-Identifier: Apache-2.0

// Package polite decides when getsetlock clients leave a key to old clients,
// and what M has then.
//
// An old client looks at a key once in each poll. A release wakes getsetlock
// clients at once. So without a pause they take the key again before an old
// client has looked, and several of them keep it for ever. A polite release
// therefore writes [Value] to M instead of deleting it, for [Gap]. No client
// holds the key then. No getsetlock client takes it, in any process, and every
// old client that polls finds it free.
//
// [Memory] is one process's knowledge: for how long getsetlock clients worked
// on a key, and when an old client was seen there. It does not use a server.
package polite

import (
	"strings"
	"time"

	"github.com/getsetlock/getsetlock/internal/scope"
)

// Left is how the value of M begins while no client holds the key. Tokens are
// longer, so no token is mistaken for it.
const Left = "left "

// Value returns what a polite release of the holder with this token leaves on
// M.
func Value(token string) string { return Left + token }

// Token returns the token of the holder that left the key. ok is false for
// every value that no release writes: such a key is held.
func Token(value string) (token string, ok bool) {
	token, ok = strings.CutPrefix(value, Left)
	if !ok || !scope.IsToken(token) {
		return "", false
	}
	return token, true
}

// defaultPoll is assumed for old clients without a poll of their own.
const defaultPoll = 100 * time.Millisecond

// Gap returns for how long a key is left to old clients with this poll: five
// quarters of a poll, and 20 ms for the way to the server.
func Gap(poll time.Duration) time.Duration {
	if poll <= 0 {
		poll = defaultPoll
	}
	return poll + poll/4 + 20*time.Millisecond
}

// Millis returns a gap in the scripts' unit, milliseconds, rounded up.
func Millis(gap time.Duration) int64 { return max(1, int64((gap+time.Millisecond-1)/time.Millisecond)) }

// Span returns for how long getsetlock clients work on a key, at the least,
// before they leave it to old clients that were not seen. It is a second, or
// seven gaps if that is longer. It bounds the cost of politeness where there is
// no old client.
func Span(gap time.Duration) time.Duration { return max(time.Second, 7*gap) }

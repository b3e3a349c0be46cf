// SPDX-License-Identifier: Apache-2.0

// Package wire speaks to one Redis server over one shared connection. For every
// command it says what became of it: executed or refused, certainly not sent,
// or unknown.
//
// Most callers need [New], [Mux.Do], [Mux.Eval] and [Mux.Batch].
//
// # Connections
//
// A [Mux] takes the commands of any number of goroutines, writes them together
// and hands each goroutine its reply. It dials by the Dial or DialContext hook
// of a redigo pool, but never takes a connection out of that pool. So user
// traffic that exhausts the pool does not delay a renewal, and closing the pool
// does not lose a lock. The bounds of the pool (MaxActive, MaxIdle, Close)
// therefore do not bound a Mux. A Mux has one connection for commands. It has a
// second one when a goroutine waits for a key ([Tracker]) or a message
// ([Notices]).
//
// A goroutine returns at once when its context ends. If its command is then
// without a reply, and the connection has been silent for a quarter of the
// Timeout, the next caller dials anew. A connection that was idle gets a PING
// first: see prove.go.
//
// # The fate of a command
//
//	             submit            the writer takes it         the reply comes
//	new call ──────────▶ queued ───────────────────▶ in flight ───────────────▶ decided: the reply
//	                       │                             │
//	                       │ ctx or the                  │ ctx or the connection
//	                       │ connection ends             │ ends
//	                       ▼                             ▼
//	                 NotSentError                   UnknownError: Pending still
//	                                                delivers a late reply
//
// # What is not promised
//
// A command may run more than once for one call of the layer above. Only
// [Mux.Repeat] itself sends a command twice, but a caller that repeats after an
// [*UnknownError] may run it twice. There is no order between calls of
// different goroutines. Calls of one goroutine run in their order, except that
// a call whose outcome is unknown may run later, after others.
//
// Clocks: network deadlines run in real time on purpose, by the machine's
// monotonic clock, never by a clock that a test or a user may step. They bound
// how long a goroutine can be stuck, and decide nothing about who holds a lock.
//
// HAZARD: one connection is one queue. A command that keeps the server busy
// delays all commands after it. If the oldest has no reply for
// [Options.Timeout], every command in flight ends as unknown. So no command
// that blocks on the server (BLPOP, WAIT) may be sent through a Mux that others
// use.
package wire

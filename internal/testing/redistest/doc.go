// SPDX-License-Identifier: Apache-2.0

// Package redistest is a world for tests: one Redis server, clocks that
// disagree about the time, and a wire that fails where a test says so.
//
// Most tests need [New], [World.Pool], [World.Clock] and [World.Pass].
//
// # Parts
//
// A World owns an embedded server and the time itself. Pass moves key TTLs, the
// server's TIME and every client's clock together. A Clock is one client's view
// of that time, with its own offset, rate and steps. A Wire connects a client
// to any server. It records the commands that pass, and cuts, holds, silences
// or answers the ones that its rules name. Real starts a server binary.
//
// # Determinism
//
// A test is deterministic only if it waits for events. Pass fires timers, but
// it cannot know when the goroutines that they wake have finished talking to
// the server. Await what they do (a timer armed, a command sent, a gate
// reached) before moving time again. Only in a Bubble does Pass itself wait
// until every goroutine is blocked.
//
// HAZARD: the embedded server is not Redis. It has no tracking, MONITOR, CONFIG
// or keyspace events, and it rounds numbers in scripts differently. Code that
// depends on those is tested on Real servers.
//
// HAZARD: only one goroutine may move time. Call Pass, StepServer and Tick from
// the test's own goroutine, never from two at once.
package redistest

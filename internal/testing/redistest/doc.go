// Package redistest is a world for tests: one Redis server, clocks that disagree about the time, and
// a wire that breaks where a test says so.
//
// A World owns an embedded server and the time itself. Pass moves key TTLs, the server's TIME and
// every client's clock together; a Clock is one client's view of that time, with an offset, a rate and
// steps of its own. A Wire stands between a client and any server, records the commands that cross
// it, and cuts, holds, silences or answers the ones its rules name. Real starts a server binary.
//
// It promises determinism only where a test waits for events: Pass fires timers, but it can't know
// when the goroutines that they wake have finished talking to the server. Await what they do (a timer
// asked for, a command seen, a gate reached) before time is moved again. Only in a Bubble does
// Pass itself wait until every goroutine has come to rest.
//
// HAZARD: the embedded server is not Redis. It has no tracking, MONITOR, CONFIG or keyspace events
// and rounds numbers in scripts in its own way; what hangs on those is tested on Real servers.
//
// HAZARD: time has one driver. Pass, StepServer and Tick are called from the test's own goroutine,
// never from two at once.
package redistest

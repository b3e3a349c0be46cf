// Package locktest checks that a [lock.Backend] keeps what the interfaces of package lock promise,
// and holds a store in memory whose backends do.
//
// [Run] is the conformance kit. A backend that cannot keep a promise declares so in [Traits], and
// the kit then checks that it really does not: a trait nobody needs any more fails its test.
//
// The kit does not check speed, nor what happens when a server fails: those belong to the tests of
// each backend, since only they can break its server.
package locktest

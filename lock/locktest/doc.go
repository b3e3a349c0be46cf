// SPDX-License-Identifier: Apache-2.0

// Package locktest checks that a [backend.Backend] keeps what the interfaces of
// package lock/backend ask for. It also has a store in memory whose backends
// keep it.
//
// Most programs need [NewStore] only: [Store.Full] is a backend without a
// server, with which code that uses a [lock.Client] can be tested. [Fault],
// [Store.Seize] and [Store.Break] make that store fail. docs/guide/testing.md
// shows such tests.
//
// # The conformance kit
//
// Authors of a Backend call [Run]. A backend that cannot keep a promise
// declares so in [Traits], and the kit then checks that it really does not: a
// declared trait that is untrue fails its test.
//
// The kit does not check speed, nor what happens when a server fails. Those
// belong to the tests of each backend, since only they can break its server.
package locktest

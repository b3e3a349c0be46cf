// SPDX-License-Identifier: Apache-2.0

// Package proof compares the model, the code and the specification with each
// other. It consists of tests only.
//
//   - Replays and walks: the real clients of packages legacy, modern and
//     migrate follow the model in internal/model.
//   - Folder internal/model: the model itself, the search through it, and the
//     mutants of its rules.
//   - Matrix, dialects: failure modes of clock drift that the tests
//     at the root do not show.
//   - Folder spec: the TLA+ specification, checked by TLC, and traces that the
//     model and the specification share.
//
// # Replays
//
// A replay runs the model one event at a time. After each event it compares
// what is stored on the server and what every client believes. So model and
// code cannot drift apart unnoticed: the test fails where the model allows what
// the code does not do, and where the code does what the model does not allow.
//
// Every command of every client waits before the server until the schedule lets
// it run, and so does its reply. Time is the world's and moves by ticks. The
// schedule sets what each reading of an old client's clock shows.
//
// A replay checks one schedule and proves nothing about others. It cannot see
// what is finer than a tick (that the settle is 100 ms longer than the gap,
// say), nor wake-ups: the embedded server has no tracking.
package proof

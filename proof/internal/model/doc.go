// SPDX-License-Identifier: Apache-2.0

// Package model is the model of the getsetlock protocol that the tests of
// folder proof compare with the real code: members, their scripts on both keys,
// the fleet's record, and the verbs that move it. Old clients are those of
// internal/explore, and so is the search.
//
// It is for tests alone. Its own tests take out each safety rule in turn and
// keep the trace of what it prevents, in proof/testdata/traces. The replays in
// folder proof follow those traces with real clients.
package model

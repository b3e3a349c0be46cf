// SPDX-License-Identifier: Apache-2.0

//go:build race

package legacy_test

// raced says that the race detector is on.
const raced = true

// SPDX-License-Identifier: Apache-2.0

//go:build race

package raced

// On says that the race detector is on.
const On = true

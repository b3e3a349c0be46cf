// SPDX-License-Identifier: Apache-2.0

// Package demo has a fleet of old clients with wrong clocks on an embedded
// server, to try the audit on. It runs in virtual time, so that minutes take a
// moment, and reports every command as MONITOR would.
//
// The clients follow the rules of package dialect, one command at a time, in
// the order of their instants. The same seed gives the same run. The fleet is
// no model of real rates: its mishaps are arranged so that each happens within
// a minute or two. For rates see package internal/operator/simulate.
package demo

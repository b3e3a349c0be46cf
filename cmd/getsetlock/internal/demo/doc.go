// Package demo is a fleet of old clients with wrong clocks around an embedded server, to look at: it runs in
// virtual time, so that minutes take a moment, and tells of every command as MONITOR would.
//
// The clients are played by the rules of package dialect, one command at a time, in the order of their instants;
// the same seed gives the same run. It is no model of a real fleet's rates: the mishaps are arranged so that
// each happens within a minute or two. For rates see package skew's simulator.
package demo

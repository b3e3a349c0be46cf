// SPDX-License-Identifier: Apache-2.0

// Package fleet moves a fleet of lock clients from phase to phase. It is the
// operator's part of package migrate.
//
// Most programs need nothing of it: services link package migrate alone, and
// the command getsetlock migrate calls this package.
//
// # Phases
//
// Each arrow is a call that passes a gate. The record on the server says the
// phase, and members follow it with their next heartbeat.
//
//	          Init           Advance        Advance         Advance         CleanUp
//	(nothing) ----> observe <-------> dual <-------> sealed <-------> modern ----> clean
//	                   ^      Back           Back             Back                  |
//	                   +------------------------- Init ----------------------------+
//
// # Gates
//
// [Advance] and [Back] move the record by one step, when everything that the
// step needs has been seen. Otherwise they say what blocks the step. [Status]
// and [Plan] show the same and change nothing. [WatchClients] watches the old
// clients and keeps what it sees on the server, where the gates read it.
//
// The package does not know old clients that neither registered nor touched a
// key during a watch. Anything not measured must be claimed by the operator.
// Every answer marks claims as claims.
//
// # Clocks
//
// Heartbeats carry the server's time. A window without old clients counts by
// the lesser of the server's time and the watcher's own elapsed time. It begins
// again when the two disagree.
package fleet

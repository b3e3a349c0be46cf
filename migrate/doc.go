// SPDX-License-Identifier: Apache-2.0

// Package migrate moves a running fleet from old clients' timestamp locks to
// token locks. It goes one phase at a time, on one Redis server, and at no
// moment do an old and a getsetlock client both hold.
//
// Most programs need [Join] and [New]: a [Member] that follows the fleet's
// record, and a [Bridge] that takes locks by the member's phase. The operator
// moves the phase with the command getsetlock migrate.
//
// # Two keys
//
// A lock has two keys on the server. L is the old clients' key. M is a second
// key for the token of the getsetlock client that holds the lock. The phase
// says what a getsetlock client writes on L:
//
//	phase    on L                    old clients             getsetlock clients
//	-------  ----------------------  ----------------------  -------------------------
//	observe  a stamp, as theirs      take turns              take turns with them
//	dual     a guard                 take turns              take turns with them
//	sealed   a tombstone             wait, and give up       hold alone
//	modern   a tombstone             wait, and give up       hold alone, leases of any length
//	clean    (not used)              must be gone            hold by M alone
//
// The way goes down the table one row at a time, and back up from dual, sealed
// and modern. After clean a new beginning in observe is possible.
//
// # Phases and members
//
// The phase is stored in a record for each namespace of keys. A [Member]
// registers there, says by which phase it acts and which leases it still holds,
// and proves on a probe key that it may run the scripts that the next phase
// needs.
//
// # What is assumed
//
// A lease is trusted by the program's own clock, from before its request was
// sent. Heartbeats carry the server's time.
//
// A fail-over may lose a write that the server acknowledged, and with it these
// guarantees. docs/guide/migration.md says what still holds then.
package migrate

// Package migrate moves a running fleet from a lock of the old kind to token locks, one phase at a
// time, on one Redis, with no moment in which an old and a new client both hold.
//
// A Bridge is the lock of a program on the way: what it writes beside the old clients' key hangs on
// the [Phase] that the fleet is in. The phase stands on the server, in a record for each namespace of
// keys. A [Member] registers there, says by which phase it acts and what leases it still holds, and
// proves on a probe key that it may run the very scripts that the next phase needs. [Advance] and
// [Back] move the record by one step, when everything that the step needs has been seen, else they
// say what blocks.
//
// The package does not know clients that neither registered nor touched a key while they were
// watched. What nobody measured is claimed by a human, and every answer says which is which. A server
// that loses a write it has acknowledged, as a fail-over may, takes the promises with it; what then
// holds and what does not stands in docs/migration.md.
//
// Of clocks it assumes this: leases are trusted by the program's own clock from before the request was
// sent. Heartbeats carry the server's time. A window without old clients counts by the lesser of the
// server's time and the watcher's own elapsed time, and begins again when the two disagree.
package migrate

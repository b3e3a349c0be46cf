// Package migrate moves a running fleet from a lock of the old kind to token locks, one phase at a
// time, on one Redis, with no moment in which an old and a new client both hold. It is what a service
// links; who moves the phase uses package fleet.
//
// A Bridge is the lock of a program on the way: what it writes beside the old clients' key hangs on
// the [Phase] that the fleet is in. The phase stands on the server, in a record for each namespace of
// keys. A [Member] registers there, says by which phase it acts and what leases it still holds, and
// proves on a probe key that it may run the very scripts that the next phase needs.
//
// A server that loses a write it has acknowledged, as a fail-over may, takes the promises with it; what
// then holds and what does not stands in docs/migration.md.
//
// Of clocks it assumes this: leases are trusted by the program's own clock from before the request was
// sent. Heartbeats carry the server's time.
package migrate

// Package fleet is what an operator needs to move a fleet from phase to phase. Services link package
// migrate alone.
//
// [Advance] and [Back] move the record by one step, when everything that the step needs has been seen,
// else they say what blocks. [Status] and [Plan] show the same and change nothing. [WatchClients] gathers
// what is seen of the old clients.
//
// The package does not know clients that neither registered nor touched a key while they were
// watched. What nobody measured is claimed by a human, and every answer says which is which.
//
// Of clocks it assumes this: heartbeats carry the server's time. A window without old clients counts by
// the lesser of the server's time and the watcher's own elapsed time, and begins again when the two
// disagree.
package fleet

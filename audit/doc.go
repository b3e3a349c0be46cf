// Package audit says what a live server shows of a fleet of old locks: which dialects are spoken, who
// writes, whose clock is wrong and by how much, what went wrong while it looked.
//
// [Watch] looks and counts, [Replay] reads a record of an earlier look and comes to the same result.
// Both hand [offset.Observed] events to a [census.Census] and nothing else, so what it says can be
// checked elsewhere, by others, later. The result is [census.Evidence]: each fact with its source, the
// instant by the server's clock, and whether it was measured, given, claimed or guessed.
//
// It does not promise to see everything. Polls miss what comes and goes between two looks, MONITOR runs
// in bursts, a source may be refused; every such blindness is in [census.Coverage], and what was not seen is not
// taken for absent. Nothing can be said of a client that wrote nothing while somebody looked.
//
// Nothing on the server is changed: no key is written, no setting set, KEYS is never sent, and all
// that a watcher leaves when it is killed are connections, which the server closes itself. Only
// [ApplyFixes] changes locks, and only [Doctor] with Remember writes looks alongside them.
//
// Clocks: facts are dated by the server's clock. Elapsed time of the observer, by [Config.Clock], only
// tells whether that clock stepped. Offsets are client less server, positive where a client is ahead.
//
// HAZARD: offsets hang on the lease that the client adds to its clock. One that was guessed moves all
// offsets of its writer by what the guess is off; differences within a fleet that shares one lease stay
// right. HAZARD: MONITOR slows the server down while it runs. Its bursts end by themselves, but a server
// that has no room at all should be watched with polls.
package audit

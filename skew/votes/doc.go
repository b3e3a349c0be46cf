// Package votes answers what failing members do to a lock over several servers:
// a quorum lock, such as Redlock. It answers with a closed form ([Law]) and
// with an exhaustive search over the clients' messages ([Explore]).
//
// Most programs need [Law.Verdict]. How often two clients hold is a question
// for the command getsetlock skew --quorum.
//
// # Words
//
// A member is one of the servers. A vote is a key with the holder's token on
// one member. A client holds while it has the votes of a majority, by its own
// clock and less its margin. A vote ends early if the member frees the key
// before the TTL that the holder counts on is over: its data is lost, it
// restarts empty, or its clock jumps forwards by more than the margin.
//
// # What it does not do
//
// Like package skew, the package is pure: no I/O, no clock, no randomness of
// its own. It measures nothing.
//
// HAZARD: no number of members helps against a holder that writes after its
// lease has ended, because its process stood still. The law does not count it.
// Only a fence, checked by the resource, keeps such a write out.
//
// HAZARD: if one cause strikes several members, each of them counts. Such a
// cause is a rack, an image or an operator, and it is what breaks real quorums.
package votes

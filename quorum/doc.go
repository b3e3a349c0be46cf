// SPDX-License-Identifier: Apache-2.0

// Package quorum takes a lock on a majority of independent Redis servers: the
// idea of Redlock, with the holes closed that can be closed. No server
// replicates to another, so no fail-over loses a lock.
//
// It is the right choice for few programs. One server with fencing numbers
// (modern.Config.Fence) is simpler, faster and as safe for a store that checks
// the numbers. Package etcd or zookeeper is safer where servers may lose
// memory, since their members agree. docs/guide/quorum.md compares them.
//
//	members := []quorum.Member{a, b, c} // *modern.Backend, each with a Name
//	backend, err := quorum.New(members, quorum.Config{})
//	client, err := lock.New(backend, lock.Config{})
//
// # The law
//
// A vote is a key with the client's token on one member, taken by SET NX PX.
// The token is the same on every member. A client that has a majority of the
// votes holds the lock: any two majorities have a member in common, and a
// member has one token at a time. So two clients hold at the same time only if
// a member ended a vote before the time that it granted.
//
// More exactly, of N members: while one client holds v votes, another gets a
// majority m only from the N−v other members and from votes that ended early.
// Two clients can hold if and only if at least m−(N−v) votes ended early, each
// member counted once. A client that stops at a majority (v = m) has no
// reserve: of an odd number of members, one such vote is enough.
//
// # What the package does about votes that end early
//
//  1. An attempt asks all members at once and returns at a majority. The votes
//     past it are taken too, and lost ones again. A release gives back every
//     vote, for as long as the TTL if a member is away.
//  2. A renewal renews first. If fewer than a majority of the votes that count
//     are left, the lease is lost, and nothing is taken. Else the missing votes
//     are taken again. A holder that took votes first could get its majority
//     back after another client held the lock.
//  3. A vote that came after the acquisition counts only once a renewal has
//     confirmed it: its request may have been under way while another client
//     held and released. That renewal goes out as soon as the vote has come. It
//     confirms the vote if it finds a majority of those that counted before.
//  4. A vote counts until its own term is over, unless it is renewed.
//  5. Trust ends with the majority-th latest term: until then a majority
//     stands. Each term counts from before its own command was sent.
//  6. Fencing numbers ([Config.Fences]) take a second round. Each member that
//     votes draws a number. The greatest is written back to a majority, on each
//     member only where the token is still on the key. A later majority has one
//     of these members, which draws a greater number.
//
// # Who votes
//
// Every member has a record: the name that clients call it, the names of all
// members, the greatest TTL, an epoch, and the id of the run in which the
// server votes. It is looked at on each new connection before anything else is
// sent, and again every 15 s. A member whose record is of another quorum stops
// the client altogether: other members may be a majority of that client's list
// while another client holds by a majority of the record's.
//
// A server whose run is not the one in its record may have forgotten votes. It
// votes when its run was watched for [Config.GreatestTTL], counted by elapsed
// clocks of clients; uptime and the server's TTLs are matters of wall clocks,
// which NTP may step. A client adds to the record what passed since its last
// look if nobody else did, or since the last look of its machine. So no moment
// counts twice, and all clients learn at once that a member votes.
//
// A server without a record may have forgotten votes of clients with any TTL.
// If a majority of the others votes, all clients have used this quorum's
// greatest TTL. Else nothing is watched before every member has been reached
// once, and then it takes two minutes: more than [LongestTTL], and than a
// connection of an older epoch is used.
//
// # Waiting
//
// Waiters stand in no queue. A release wakes those that have waited about as
// long as waits take, and the others ask now and then. The client that has
// waited longest asks first, and one that just released lets others go first.
// Clients whose votes were split ask again after pauses drawn at random.
//
// # Hazards
//
// HAZARD: the wall clock of a server that steps forward ends its votes early,
// by the law above. So does a key deleted by hand or FLUSHALL. With fencing
// numbers the store that the holder writes to refuses the older holder.
//
// HAZARD: a member must be named by its own address, and no other server may
// answer there while that one is up and a client is connected to it. Behind a
// proxy or a sentinel, a connection may survive a restart.
//
// HAZARD: what an administrator changes while a server runs is noticed within
// 15 s. A server that became a replica and a master again has lost its votes.
//
// HAZARD: servers that lost their records cannot tell two quorums apart that
// share only them. Programs must agree on the list, whatever the records catch.
//
// HAZARD: clients of other libraries on the same keys (redsync, npm's redlock,
// redlock-py) have the same bytes and none of these rules. They vote on servers
// that just restarted. Their TTLs must not exceed GreatestTTL.
//
// HAZARD: a lease can end although a majority has its token. While votes that
// came late are not confirmed, the loss of a member of a bare majority leaves
// too few votes that count.
//
// The package assumes of clocks what package modern does, of each server: while
// a vote counts, the server's clock does not run ahead of the client's by more
// than [lock.Config.Margin].
package quorum

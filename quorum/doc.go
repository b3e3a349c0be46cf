// Package quorum takes a lock on a majority of independent Redis servers: the
// idea of Redlock, with the holes closed that can be closed. No server
// replicates to another, so no fail-over loses a lock.
//
// It is the right choice for few programs. One server with fencing numbers
// (modern.Config.Fence) is simpler, faster and as safe for a store that checks
// the numbers. Package etcd or zookeeper is safer where servers may lose
// memory, since their members agree. docs/quorum.md compares them.
//
//	members := []quorum.Member{a, b, c} // *modern.Backend, each with a Name
//	backend, err := quorum.New(members, quorum.Config{})
//	client, err := lock.New(backend, lock.Config{})
//
// # The argument
//
// A vote is a key with the client's token on one member, taken by SET NX PX.
// The token is the same on every member. A client that has a majority of the
// votes holds the lock: any two majorities have a member in common, and a
// member has one token at a time. So two clients hold at the same time only if
// a member ended a vote before the time that it granted.
//
// More exactly, of N members: while one client holds v votes, another gets a
// majority m only from the N−v other members and from votes that ended early.
// Two clients can hold iff at least m−(N−v) votes ended early. A client that
// stops at a majority (v = m) has no reserve: one such vote is enough. redsync
// stops there with WithFailFast. Without that option it takes all votes, and
// never takes a lost one again. This package takes the votes past the majority
// too, and takes lost ones again.
//
// # What the package does about votes that end early
//
//  1. A renewal renews first. If fewer than a majority of the votes that count
//     are left, the lease is lost, and nothing is taken. Else the missing votes
//     are taken again. A holder that took votes first could get its majority
//     back after another client held the lock. For the same reason a vote that
//     was taken again, or came after the acquisition, counts only once a
//     renewal has confirmed it: its request may have been under way while
//     another client held and released.
//  2. A server that restarted may have forgotten votes. It does not vote until
//     it has been up for [Config.GreatestTTL] and two seconds: by then all
//     votes that it may have forgotten are over. The server is asked once on
//     each connection, and votes go over that very connection, which a restart
//     ends. A server that has replicas, was one, or may evict keys is refused.
//     So is a second name of one server, at renewals too: all votes have one
//     token, so one server would renew two of them. Append-only files make the
//     wait needless, not wrong.
//  3. Trust ends with the majority-th longest term: until then a majority
//     stands. Each term counts from before its own command was sent.
//  4. Fencing numbers ([Config.Fences]) take a second round. Each member that
//     votes draws a number. The greatest is written back to a majority, on each
//     member only where the token is still on the key. A later majority has one
//     of these members, which draws a greater number.
//  5. Clients that split the votes ask one member first from then on: the first
//     by rendezvous hash of the key, which is the same in every process, or the
//     next one if that is down. An attempt that got this member's vote asks the
//     others again for a moment.
//  6. Waiters stand in a queue on that member's server, which a modern.Backend
//     has. A release calls one of them, and that one asks the others when it
//     has this member's vote. The queue is for order and speed; it decides
//     nothing.
//
// # When calls return
//
// An attempt asks all members at once. When a majority voted, it waits for
// slower members at most a fifth as long again, since votes that came before it
// returns count at once. Others are confirmed by the next renewal, and count
// from the one after that on. If the lease was released meanwhile, they are
// given back when they come. Renewals return at a majority that counts. A
// release waits for every member, but only as long again for those that are
// slower than the majority. What is left is given back in the background, until
// the member confirms it or the TTL has passed.
//
// # Hazards
//
// HAZARD: the wall clock of a server that steps forward ends its votes early,
// by the law above. So does a key deleted by hand or FLUSHALL. With fencing
// numbers the store that the holder writes to refuses the older holder.
//
// HAZARD: a server whose memory came from an old snapshot, or whose clock was
// set forward while nobody watched, may look older than it is. Uptime is a
// difference of wall clocks; only steps that this process saw are subtracted.
// Let servers run chrony or ntpd from boot.
//
// HAZARD: a member must be named by its own address. Behind a proxy or a
// sentinel, a connection may survive a restart, and the rule for young servers
// fails. What gives itself away by INFO is refused; a proxy that forwards INFO
// is not noticed.
//
// HAZARD: what an administrator changes while a server runs is noticed at the
// next connection. A server that became a replica and a master again has lost
// its votes, and may vote; so may one that was told to evict keys.
//
// HAZARD: clients of other libraries on the same keys (redsync, npm's redlock,
// redlock-py) have the same bytes and none of these rules. They vote on
// servers that just restarted. Their TTLs must not exceed GreatestTTL.
//
// HAZARD: a lease can end although a majority has its token. Votes that came
// late do not count before a renewal has confirmed them. If a member whose vote
// counts loses it until then, too few votes that count may be left.
//
// The package assumes of clocks what package modern does, of each server: while
// a vote counts, the server's clock does not run ahead of the client's by more
// than [lock.Config.Margin].
package quorum

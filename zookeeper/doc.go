// SPDX-License-Identifier: Apache-2.0

// Package zookeeper takes locks in ZooKeeper, on the nodes of Curator's
// InterProcessMutex and of go-zookeeper's Lock. All of them and getsetlock
// exclude each other on one path, and wait in one queue.
//
// Most programs need [Open] and [lock.Client.Acquire]:
//
//	client, err := zookeeper.Open(ctx, "zookeeper://127.0.0.1:2181/locks", zookeeper.Options{})
//	…
//	lease, err := client.Acquire(ctx, "nightly")
//
// A program that needs the [Backend] too, for [Backend.List] or
// [Backend.SetServers], calls [New] and [lock.New]. A lock.Client closes its
// Backend.
//
// # Nodes
//
// A client that holds or awaits the lock NAME has a node below the node NAME,
// which ends with the client's session. It is called _c_ID-lock-NUMBER. ID is
// random; NUMBER has ten digits and comes from the server. The least number
// holds the lock; the others wait, each for the node before its own. A first
// attempt looks before it writes, so a refusal writes nothing. A client that
// used the lock last, and alone, does not look; if another client was faster,
// it deletes its own node again.
//
// The server numbers at most 2³¹ nodes below one parent. An attempt that finds
// the numbers used up fails: delete the node NAME while nobody uses the lock.
//
// Every child that ends in ten digits contends, whatever stands before them.
// Other children are ignored. A client of kazoo sees these nodes only if its
// Lock was made with extra_lock_patterns=("-lock-",). Curator does not see the
// nodes of kazoo: let only one of the two use a lock. One child that
// go-zookeeper's own Lock cannot parse makes that Lock fail. Config.Logger
// reports ignored children and nodes of kazoo, once a lock, and [Info] has
// them.
//
// A missing NAME is made as a container, which the server deletes when it has
// been empty for a while. Servers before 3.5.1 get persistent nodes. A Lock of
// kazoo makes a missing NAME at its first use only, and fails after the server
// deleted the container. Where kazoo takes part, create NAME by hand.
//
// # Leases
//
// All locks of one [Backend] with one TTL share one ZooKeeper session, and the
// TTL is its timeout. If the servers keep sessions for a shorter time
// (maxSessionTimeout, usually 40 s), Open makes that time the Client's TTL, and
// Config.Logger says so. A Client of lock.New keeps its TTL, and trusts its
// leases for that shorter time. An attempt fails if its Margin exceeds a
// quarter of it. [Backend.Longest] asks for the time beforehand. If the servers
// keep sessions for a longer time (minSessionTimeout, usually 4 s), an attempt
// fails and names that time.
//
// A third of the timeout after the last one, the session sends a sign of life:
// a transaction that only checks a node. A majority of the servers commits it.
// Neither reads nor the library's pings count: a server that was cut off from
// its leader goes on answering them. Trust counts from the sending of the sign
// of life before the last one, since only then the leader surely knows it. So a
// new lease is trusted for a part of its TTL: at least a quarter, less
// [lock.Config].Margin, and its renewals keep it alive. A lock.Config whose
// RenewEvery is negative should have four times the TTL that its holder needs.
//
// HAZARD: servers count time in ticks (tickTime, usually 2 s). Anything that a
// client sends touches its session. A server passes touches on to its leader
// within half a tick. Trust relies on the timeout being at least two ticks,
// ZooKeeper's default for minSessionTimeout. An observer, a server without a
// vote, may get its data from a follower: there it relies on four ticks. With a
// shorter timeout, a lock may be granted again up to one tick before its holder
// learns of the loss. So each server is asked for its tick by the word conf,
// and whether it is an observer by srvr. A session under two ticks is refused.
// At an observer, a session under four ticks is reported to Config.Logger. By
// default servers answer srvr alone. Where minSessionTimeout was set below two
// ticks, add conf to 4lw.commands.whitelist, or choose the TTL by hand. The
// leader must also ask its followers in time. It must not stand still for three
// tenths of the timeout right before a follower is cut off from it.
//
// A node that may be left after an error stays on a list of the session. The
// session deletes it as soon as ZooKeeper answers, however late. A session that
// expired is never continued; the next attempt opens a new one.
//
// # Clocks
//
// The leader counts a session by its own monotonic clock, in steps of a tick
// that lengthen it. A new leader begins to count anew. No wall clock takes
// part. Only the rate of the leader's clock matters. Within one TTL it may run
// ahead of this machine's by [lock.Config].Margin, a tenth of the TTL by
// default.
//
// # Fencing numbers
//
// [lock.Lease.Fence] is the number of the write that created the lock's node:
// its czxid. It grows with every acquisition, also after the node NAME was
// deleted, and after the election of a leader. It does not grow after the
// servers' data were restored from a backup: raise what compares it then.
//
// # Errors
//
// An error that may pass, such as a lost connection or a missing majority,
// makes an Acquire wait. Missing rights, a wrong password and a TTL that does
// not fit the servers end it at once. So does a missing chroot that may not be
// created. So do certificates that are not trusted or that every server misses,
// and names that do not exist.
//
// The library's requests cannot be cancelled. If a context ends before the
// reply, the request runs on; what it created is deleted.
package zookeeper

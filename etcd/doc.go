// SPDX-License-Identifier: Apache-2.0

// Package etcd takes locks in etcd, on the keys of concurrency.Mutex,
// `etcdctl lock` and the v3lock service, which jetcd calls. All of them and
// getsetlock exclude each other on one name, and wait in one queue.
//
// Most programs need [Open] and [lock.Client.Acquire]:
//
//	client, err := etcd.Open(ctx, []string{"127.0.0.1:2379"}, etcd.Options{})
//	…
//	lease, err := client.Acquire(ctx, "nightly")
//
// A program that has an etcd client already gives it to [New], and the Backend
// to [lock.New].
//
// # Keys
//
// A client that holds or awaits the lock NAME has a key NAME/ID, where ID is
// its etcd lease in hexadecimal. The key with the least create revision holds
// the lock; the others wait. If one process has several keys under one name, a
// dot and a number follow the ID. The value of our keys is a random nonce. So a
// command whose reply was lost can be undone without harm to a later key.
//
// A name that is a path prefix of another shares its keys: while "stock/1" is
// held, "stock" counts as held, in concurrency.Mutex too. The
// [backend.HeldError] then names the other name. Choose names of which none
// continues another after a slash. It also names a key below the name that no
// lock has written: such a key keeps the lock from every library.
//
// # Leases
//
// All locks of one [Backend] with one TTL share one etcd lease, the session.
// One message renews it for all of them. An etcd lease lasts whole seconds, at
// least [LeastTTL]; a TTL between two seconds is rounded up. A session that has
// had no key for ten TTLs is revoked.
//
// Trust counts from before the last renewal was sent. A renewal counts only if
// a linearizable read after it shows the same Raft term: a leader that was
// deposed meanwhile may have answered it. So a new lease is trusted for a part
// of its TTL, at least half; its renewals, every third of the TTL, make that
// whole. A lock.Config whose RenewEvery is negative should have twice the TTL
// that its holder needs.
//
// All renewals of a Backend travel on one stream. So where etcd has users, a
// renewal needs no login. Through etcd's grpc-proxy each has a stream of its
// own.
//
// A key that may be left after an error stays on a list of the session. The
// session deletes it as soon as etcd answers, however late. See "Keys that free
// themselves" in package lock/backend.
//
// # Clocks
//
// etcd counts a lease by the monotonic clock of the leader, and a new leader
// lengthens all leases. No wall clock takes part. Only the rate of the leader's
// clock matters. Within one TTL it may run ahead of this machine's by
// [lock.Config].Margin, a tenth of the TTL by default.
//
// HAZARD: a leader that stood still for a TTL and runs again may, seldom,
// revoke leases that its successor has renewed. The next holder may then be at
// work before this one learns of the loss. Where two holders do harm, compare
// fencing numbers.
//
// # Fencing numbers
//
// [lock.Lease.Fence] is the create revision of the lock's key. It grows with
// every acquisition, whichever client makes it. [Backend.Held] compares it
// within a transaction of your own, so that etcd itself refuses the write of a
// holder that has lost its lock. ETCD_LOCK_REV of etcdctl is another revision,
// which may exceed the next holder's create revision; do not compare the two.
//
// # Servers
//
// The Backend needs etcd 3.4 or later, and each attempt refuses an older one. A
// load balancer or etcd's grpc-proxy may stand before the servers. The first
// session asks each server for its version. A warning in [Config].Logger names
// each server that may renew a lease after it was revoked: 3.4 before 3.4.38,
// 3.5 before 3.5.23, 3.6 before 3.6.5. Such a server may grant a lock twice.
//
// # Errors
//
// An error that may pass, such as a lost connection, a missing leader or a full
// database, makes an Acquire wait. Missing rights or a wrong password end it at
// once. While etcd's NOSPACE alarm is on, held locks are renewed and released,
// and new ones are refused.
package etcd

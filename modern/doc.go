// SPDX-License-Identifier: Apache-2.0

// Package modern is the token lock: it takes a key by SET key token NX PX ms,
// and its release deletes the key only if that still carries the token.
//
// Most programs need [Open], which gives a lock client in one call:
//
//	client, err := modern.Open(ctx, "rediss://app:secret@cache.internal", modern.Options{})
//
// Programs with a redigo pool give it to [New], and the result to [lock.New].
//
// # Which other clients can share its keys
//
// The bytes are those of redsync, redislock, redis-py since 2.10, Spring's
// RedisLockRegistry and the Java listings around jedis.set(key, id, "NX", "PX",
// ms). On one key, those clients and this package keep each other out. The
// bytes promise no more than that. A waiter of Spring's in its mode
// PUB_SUB_LOCK does not hear of this package's releases, since they publish
// nothing on its channel.
//
// The other clients must compare the token at release, and at renewal if they
// renew. Clients that do not (dialects SetDel, SetGetDel, SetPexpire,
// BareExpire of package legacy/dialect) have the format and not the rules.
// [Backend.Inspect] reports such habits that it saw.
//
// # The queue of waiters
//
// Waiters of different processes wait in a queue on the server. A place in it
// has these states:
//
//	              try: the key is held       a release gives the key to it
//	prepared ───────────────────────▶ waiting ─────────────────────────▶ given
//	    │                              │   │                               │
//	    │ try: the key is free         │   │ no try for 15 s (3 s if it    │ try
//	    │                              │   │ cannot be called), or a       │
//	    │                              │   │ release that nobody heard     │
//	    ▼                              │   ▼                               │
//	  taken ◀──────────────────────────┘  gone: the next try               │
//	    ▲    try: the key is free         begins at the queue's end        │
//	    └──────────────────────────────────────────────────────────────────┘
//
// A key that was given carries the waiter's token, like any key that is held,
// and ends with its TTL. Leaving a place hands what it was given to the next
// waiter.
//
// # Hazards
//
// The package assumes one thing of clocks: while a lease is held, the server's
// clock does not run ahead of the client's by more than [lock.Config.Margin],
// steps included. Redis ends a key by its wall clock.
//
// HAZARD: Redis replicates asynchronously. If a primary fails between granting
// and replicating, a replica is promoted that grants the key again while the
// first holder works on. [Config.Replicas] narrows that gap and does not close
// it. The fencing number closes it: the store that the holder writes to refuses
// a number that is not greater than the last one it saw.
//
// Numbers are drawn as max(last + 1, the server's clock in microseconds). A
// promoted replica that lost writes may give the same number again, or a
// smaller one. That needs a clock that is behind by more than the fail-over
// took less 100 ms. A number lags behind the clock by at most 100 ms, plus what
// the client's clocks drift from it in that time. Before Redis 3.2 it lags by
// as long as it takes to ask for the time and to send the script.
//
// HAZARD: a key that an old client holds (package legacy) looks like any
// foreign value: it is held, and if it has no TTL, for ever. Package legacy
// shares keys with old clients.
package modern

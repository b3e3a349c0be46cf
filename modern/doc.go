// Package modern is the token lock: SET key token NX PX ms, and a release that deletes only what
// carries the token.
//
//	backend, err := modern.New(pool, modern.Config{Fence: true})
//	…
//	client, err := lock.New(backend, lock.Config{TTL: 30 * time.Second})
//
// The bytes are those of redsync, redislock, redis-py since 2.10, Spring's RedisLockRegistry and the
// Java listings around jedis.set(key, id, "NX", "PX", ms): they and ours keep each other out on one
// key. That is all that the bytes promise: a waiter of Spring's in its mode PUB_SUB_LOCK sleeps on
// after our release, since we publish nothing on its channel. Their clients must compare the token at release, and at renewal if they renew. Clients that do
// not (dialects SetDel, SetGetDel, SetPexpire, BareExpire of package legacy/dialect) have the format
// and not the rules; [Backend.Inspect] names their habits where it saw them.
//
// It assumes nothing of clocks but this: while a lease is held, the server's clock does not run ahead
// of ours by more than [lock.Config.Margin], steps included. Redis ends a key by its wall clock.
//
// HAZARD: Redis replicates asynchronously. A primary that fails between granting and replicating
// leaves a replica that grants the key again, while the first holder works on. [Config.Replicas]
// narrows that gap and does not close it. What closes it is the fencing number: the store that the
// holder writes to refuses a number that is not greater than the last it saw. Numbers are drawn as
// max(last + 1, the server's clock in microseconds), so that a promoted replica that lost writes
// gives the same number again, or a smaller one, only if its clock is behind by more than the fail-over
// took less 100 ms. By so much a number lags behind the clock at the most, plus what our clocks drift
// from it in that time; before Redis 3.2 by as long as it takes to ask for the time and to be asked.
//
// HAZARD: a key that a timestamp client holds (package legacy) looks like any foreign value: it is
// held, and without a TTL for ever. Package legacy takes turns with its clients.
package modern

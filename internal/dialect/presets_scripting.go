// SPDX-License-Identifier: Apache-2.0

package dialect

import "time"

// RedisPy is redis-py's Lock from 2.8.0 to 2.9.1 (redis/client.py). Its text is
// Python's repr of a double; 2.2.4 to 2.7.6 wrote whole seconds with ".0",
// earlier versions integers. A Lock without timeout writes 2147483649.0, one
// past the last 32-bit second. The caller gives the lease.
func RedisPy() Dialect {
	return Dialect{
		Name:    "RedisPy",
		Library: "redis-py 2.8.0 to 2.9.1 (redis/client.py, class Lock)",
		Unit:    UnitFloatSeconds, Shape: ShapeNumber,
		Reader: ReadPythonFloat, Empty: EmptyIsNil,
		OnNil: NilGetset, Unreadable: UnreadableThrows, Wins: WinsExpiredOrNil,
		Acquire: AcquireSetnx, KeyTTL: TTLNone, Release: ReleaseValueAtLeastOwn, Renews: RenewsNever,
		Poll: 100 * time.Millisecond, WaitsForever: true,
		KeyPattern: "NAME", KeyEncoding: Plain, ValueEncoding: Plain,
	}
}

// TaskTiger is the copy of that lock in tasktiger up to 0.12
// (tasktiger/redis_lock.py). It treats an unreadable value as held instead of
// throwing. It renews with a GETSET of a *whole* second cut from now.
func TaskTiger() Dialect {
	d := RedisPy()
	d.Name = "TaskTiger"
	d.Library = "tasktiger up to 0.12 (tasktiger/redis_lock.py)"
	d.Unreadable = UnreadableHeld
	d.Renews = RenewsGetset
	return d
}

// RedisObjects is the lock of nateware/redis-objects 0.2.4 to 1.4.1
// (lib/redis/lock.rb) with an :expiration. That has no default: without one the
// client writes "1" and judges nothing. It reads the clock anew for the GETSET
// and for every comparison. A value that is not a number reads as 0.0.
func RedisObjects() Dialect {
	return Dialect{
		Name:    "RedisObjects",
		Library: "redis-objects 0.2.4 to 1.4.1 (lib/redis/lock.rb)",
		Unit:    UnitFloatSeconds, Shape: ShapeNumber, Slack: time.Second, Restamp: true,
		Reader: ReadRubyFloat, JudgesAnew: true,
		OnNil: NilGetset, Unreadable: UnreadableZero, Wins: WinsExpiredOrNil,
		Acquire: AcquireSetnx, KeyTTL: TTLNone, Release: ReleaseOwnAhead, Renews: RenewsNever,
		Poll: 100 * time.Millisecond, Wait: 5 * time.Second,
		KeyPattern: "NAME", KeyEncoding: Plain, ValueEncoding: Plain,
	}
}

// RedisMutex is kenn/redis-mutex 0.9 to 4.x (lib/redis_mutex.rb). Up to 4.0.0
// it reads a missing key as 0 and overwrites it with GETSET. From 4.0.1 on it
// tries SETNX again: set OnNil to NilSetnx.
func RedisMutex() Dialect {
	return Dialect{
		Name:    "RedisMutex",
		Library: "redis-mutex 0.9 to 4.0.0 (lib/redis_mutex.rb); later ones with OnNil setnx",
		Unit:    UnitFloatSeconds, Shape: ShapeNumber,
		Reader: ReadRubyFloat, Inclusive: true,
		OnNil: NilGetset, Unreadable: UnreadableZero, Wins: WinsExpiredOrNil,
		Acquire: AcquireSetnx, KeyTTL: TTLNone, Release: ReleaseValueOwn, Renews: RenewsNever,
		Lease: 10 * time.Second, Poll: 100 * time.Millisecond, Wait: time.Second,
		KeyPattern: "RedisMutex:NAME", KeyEncoding: Plain, ValueEncoding: Plain,
	}
}

// Errorception is npm's redis-lock 0.0.6 to 0.0.9 (index.js). It reads the
// clock anew for the comparison and the GETSET, and waits for ever. It treats a
// value that it cannot read as expired but never wins it, since NaN equals
// nothing.
func Errorception() Dialect {
	return Dialect{
		Name:    "Errorception",
		Library: "npm redis-lock 0.0.6 to 0.0.9 (index.js)",
		Unit:    UnitMillis, Shape: ShapeNumber, Slack: time.Millisecond, Restamp: true,
		Reader: ReadJSParseFloat, Inclusive: true, JudgesAnew: true, Empty: EmptyIsNil,
		OnNil: NilWaits, Unreadable: UnreadableNaN, Wins: WinsEqualNumber,
		Acquire: AcquireSetnx, KeyTTL: TTLNone, Release: ReleaseOwnAhead, Renews: RenewsNever,
		Lease: 5 * time.Second, Poll: 50 * time.Millisecond, WaitsForever: true,
		KeyPattern: "lock.NAME", KeyEncoding: Plain, ValueEncoding: Plain,
	}
}

// Faye is faye-redis (faye-redis.js, _withLock). It makes one attempt, and the
// reading that made the stamp judges too. A value that is not a number is NaN,
// which it takes over, and it wins, since it compares the text.
func Faye() Dialect {
	return Dialect{
		Name:    "Faye",
		Library: "faye-redis 0.2.0 (faye-redis.js, _withLock)",
		Unit:    UnitMillis, Shape: ShapeNumber, Slack: time.Millisecond,
		Reader: ReadJSParseInt, Inclusive: true, Empty: EmptyIsNil,
		OnNil: NilGivesUp, Unreadable: UnreadableNaN, Wins: WinsSameText,
		Acquire: AcquireSetnx, KeyTTL: TTLNone, Release: ReleaseOwnAhead, Renews: RenewsNever,
		Lease:      120 * time.Second,
		KeyPattern: "/locks/NAME", KeyEncoding: Plain, ValueEncoding: Plain,
	}
}

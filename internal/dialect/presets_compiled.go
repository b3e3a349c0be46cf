// SPDX-License-Identifier: Apache-2.0

package dialect

import "time"

// ServiceStack is AcquireLock of ServiceStack.Redis, 2012 to 2015
// (src/ServiceStack.Redis/RedisLock.cs). Its one TimeSpan is both lease and
// wait; without one it holds for a year. It pauses for a random time that grows
// with the cube of the attempt's number; Poll is close to the first pauses.
// Later releases of those years overwrite inside WATCH and MULTI instead of
// GETSET, with the same bytes and comparison.
func ServiceStack() Dialect {
	return Dialect{
		Name:    "ServiceStack",
		Library: "ServiceStack.Redis 2012 to 2015 (src/ServiceStack.Redis/RedisLock.cs)",
		Unit:    UnitMillis, Shape: ShapeNumber, Slack: time.Millisecond,
		Reader: ReadDotNetLong, Inclusive: true, JudgesAnew: true,
		OnNil: NilWaits, Unreadable: UnreadableHeld, Wins: WinsSameText,
		Acquire: AcquireSetnx, KeyTTL: TTLNone, Release: ReleaseDel, Renews: RenewsNever,
		Poll: 10 * time.Millisecond, WaitsForever: true,
		KeyPattern: "NAME", KeyEncoding: Plain, ValueEncoding: Plain,
	}
}

// Machinery is RichardKnop/machinery's lock around its periodic tasks
// (v2/locks/redis/redis.go, live). The caller gives the instant itself, the
// next tick less a nanosecond. The key means "this tick is done" and is never
// released. An acquire makes four attempts without a pause, and everything but
// a win is an error. v1 also used the instant as TTL, so its keys outlive all
// clients.
func Machinery() Dialect {
	return Dialect{
		Name:    "Machinery",
		Library: "RichardKnop/machinery v2 (v2/locks/redis/redis.go)",
		Unit:    UnitNanos, Shape: ShapeNumber,
		Reader: ReadGoInt, Empty: EmptyZeroIsHeld,
		OnNil: NilErrorRetry, Unreadable: UnreadableErrorRetry, Wins: WinsExpired,
		Acquire: AcquireSetNXGo, KeyTTL: TTLGetsetExpire, Release: ReleaseNever, Renews: RenewsNever,
		Attempts:   4,
		KeyPattern: "NAME", KeyEncoding: Plain, ValueEncoding: Plain,
	}
}

// Gorlock is vanng822/gorlock (lock.go, live in 2026), as RunWaiting uses it.
// It reads the clock anew for the comparison and the GETSET. Nil and unreadable
// values end the acquire with an error.
func Gorlock() Dialect {
	return Dialect{
		Name:    "Gorlock",
		Library: "vanng822/gorlock (lock.go, gorlock.go)",
		Unit:    UnitNanos, Shape: ShapeNumber, Restamp: true,
		Reader: ReadGoInt, JudgesAnew: true,
		OnNil: NilError, Unreadable: UnreadableThrows, Wins: WinsEqualNumber,
		Acquire: AcquireSetNXGo, KeyTTL: TTLWinExpire, Release: ReleaseDel, Renews: RenewsNever,
		Lease: 15 * time.Second, Poll: 150 * time.Millisecond, Wait: 15 * time.Second,
		KeyPattern: "NAME", KeyEncoding: Plain, ValueEncoding: Plain,
	}
}

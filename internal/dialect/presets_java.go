// SPDX-License-Identifier: Apache-2.0

package dialect

import "time"

// Each preset is a function, so that no caller can change another caller's
// preset. Its comment names the source that was read. Where copies of a listing
// differ, the preset is the commonest form, and the comment names the others.
// To follow another version, change a field of a copy.

// Jedis is jedis-lock 1.0.0: com.github.jedis.lock.JedisLock, method
// acquire(Jedis), and its copies in WxJava until 2025. The value is a bare
// number in milliseconds.
func Jedis() Dialect {
	return Dialect{
		Name:    "Jedis",
		Library: "jedis-lock 1.0.0 (JedisLock.java); WxJava until 2025",
		Unit:    UnitMillis, Shape: ShapeNumber, Slack: time.Millisecond,
		Reader: ReadJavaLong, JudgesAnew: true,
		OnNil: NilWaits, Unreadable: UnreadableThrows, Wins: WinsSameText,
		Acquire: AcquireSetnx, KeyTTL: TTLNone, Release: ReleaseDel, Renews: RenewsNever,
		Lease: time.Minute, Poll: 100 * time.Millisecond, Wait: 10 * time.Second, CountsSleeps: true,
		KeyPattern: "NAME", KeyEncoding: Plain, ValueEncoding: Plain,
	}
}

// JedisUUID is jedis-lock after its merge of 2015 (JedisLock.java at the head
// of abelaska/jedis-lock, published as 1.0.1 by a fork). Its parser catches
// every exception and then treats the value as no lock at all. So it takes over
// locks of [Jedis], empty values and nil. It also takes over its own uuid, so
// its clients do not exclude each other.
func JedisUUID() Dialect {
	d := Jedis()
	d.Name = "JedisUUID"
	d.Library = "jedis-lock at its head, published as 1.0.1 by a fork (JedisLock.java)"
	d.Shape = ShapeUUIDNumber
	d.Reader = ReadJavaUUID
	d.OrMine = true
	d.OnNil = NilGetset
	d.Unreadable = UnreadableExpired
	d.Renews = RenewsReacquire
	return d
}

// JedisAQS is the class RedisBasedDistributedLock on a copied AbstractLock,
// found in blogs since 2015. It polls without sleeping. Its release parses the
// value without a check, so a missing key makes it throw. The lease is a
// constructor argument.
func JedisAQS() Dialect {
	d := Jedis()
	d.Name = "JedisAQS"
	d.Library = "RedisBasedDistributedLock.java copies (package …distribute.lock.redis)"
	d.Wins = WinsExpired
	d.Release = ReleaseValueLive
	d.Lease, d.Poll, d.Wait, d.CountsSleeps = 0, 0, 0, false
	d.WaitsForever = true
	return d
}

// Template is the lock(key, value) on Spring's StringRedisTemplate from a much
// copied course (RedisLock.java). The caller makes the value, mostly now + 10 s
// without a millisecond more. An empty value counts as nil. Copies on a plain
// RedisTemplate write [JDK] keys and values. Other copies catch the exception
// of an unreadable value, which then counts as held.
func Template() Dialect {
	return Dialect{
		Name:    "Template",
		Library: "lock(key, value) on RedisTemplate (RedisLock.java, com.imooc.sell and copies)",
		Unit:    UnitMillis, Shape: ShapeNumber,
		Reader: ReadJavaLong, JudgesAnew: true, Empty: EmptyIsNil,
		OnNil: NilGivesUp, Unreadable: UnreadableThrows, Wins: WinsSameText,
		Acquire: AcquireSetnx, KeyTTL: TTLNone, Release: ReleaseValueOwn, Renews: RenewsNever,
		Lease:      10 * time.Second,
		KeyPattern: "NAME", KeyEncoding: Plain, ValueEncoding: Plain,
	}
}

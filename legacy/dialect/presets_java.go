package dialect

import "time"

// Each preset is a function, so that no caller can change another's. Its comment names the source
// that was read; where copies of a listing differ, the commonest form is the preset and the comment
// says what else is met. A copy with one field changed is how to follow another version.

// Jedis is jedis-lock 1.0.0: com.github.jedis.lock.JedisLock, method acquire(Jedis), and the copies of
// it that WxJava carried until 2025. A bare number in milliseconds.
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

// JedisUUID is jedis-lock after its merge of 2015 (JedisLock.java at the head of abelaska/jedis-lock,
// published as 1.0.1 by a fork). Its parser catches every exception and then takes the value for no
// lock at all, so it steals from [Jedis], from an empty value, from nil; and it takes over its own
// uuid, so its clients do not exclude each other.
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

// JedisAQS is the class RedisBasedDistributedLock on a copied AbstractLock, handed on in blogs since
// 2015. It polls without sleeping. Its release parses the value unguarded, so a key that is gone makes
// it throw. The lease is a constructor's argument.
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

// Template is the lock(key, value) on Spring's StringRedisTemplate that a much copied course taught
// (RedisLock.java). The caller makes the value, mostly now + 10 s without a millisecond more, and an
// empty value counts as nil. Copies on a plain RedisTemplate write [JDK] keys and values; others catch
// the exception of an unreadable value, which then is held.
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

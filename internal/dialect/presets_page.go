// SPDX-License-Identifier: Apache-2.0

package dialect

import "time"

// Page is the lock of Redis' old SETNX page as most translations read it. It
// writes whole seconds, waits at a missing key, and a GETSET wins if what it
// returned has expired too. cronlock writes and compares the same stamps and
// differs at the end: it leaves now + 41 s on the key instead of deleting it.
func Page() Dialect {
	return Dialect{
		Name:    "Page",
		Library: "redis.io SETNX page until 2014, \"Handling deadlocks\"; kvz/cronlock",
		Unit:    UnitSeconds, Shape: ShapeNumber, Slack: time.Second,
		Reader: ReadRubyInt, JudgesAnew: true,
		OnNil: NilWaits, Unreadable: UnreadableZero, Wins: WinsExpired,
		Acquire: AcquireSetnx, KeyTTL: TTLNone, Release: ReleaseOwnNotPast, Renews: RenewsNever,
		Poll: 100 * time.Millisecond, WaitsForever: true,
		KeyPattern: "NAME", KeyEncoding: Plain, ValueEncoding: Plain,
	}
}

// PageNil is the page as Go articles retell it: a missing key counts as
// expired, and a GETSET that returned nil wins.
func PageNil() Dialect {
	d := Page()
	d.Name = "PageNil"
	d.Library = "the SETNX page as retold in Go articles"
	d.Reader = ReadGoInt
	d.OnNil = NilGetset
	d.Unreadable = UnreadableExpired
	d.Wins = WinsExpiredOrNil
	d.Release = ReleaseDel
	return d
}

// PageGet is the page's own pseudo-code, including its release, which checks
// whether the value has expired and not which client wrote it.
func PageGet() Dialect {
	d := PageNil()
	d.Name = "PageGet"
	d.Library = "the SETNX page's own pseudo-code"
	d.Release = ReleaseValueLive
	return d
}

// ResqueTimeout is the Ruby gem resque-lock-timeout
// (lib/resque/plugins/lock_timeout.rb). It makes one attempt and does not wait:
// a job that is not acquired is dropped from the queue. The lease is the job's
// own lock_timeout; with 0 it writes "true", which this dialect then takes for
// expired.
func ResqueTimeout() Dialect {
	return Dialect{
		Name:    "ResqueTimeout",
		Library: "resque-lock-timeout (lib/resque/plugins/lock_timeout.rb)",
		Unit:    UnitSeconds, Shape: ShapeNumber,
		Reader: ReadRubyInt,
		OnNil:  NilSetnx, SetnxAfterHeld: true, Unreadable: UnreadableZero, Wins: WinsExpiredOrNil,
		Acquire: AcquireSetnx, KeyTTL: TTLNone, Release: ReleaseOwnNotPast, Renews: RenewsSet,
		KeyPattern: "resque:lock:NAME", KeyEncoding: Plain, ValueEncoding: Plain,
	}
}

// Kdyby is Kdyby/Redis' ExclusiveLock (src/Kdyby/Redis/ExclusiveLock.php, live
// in 2023). It reads the clock again for the GETSET. At a missing key it tries
// again without a pause; at a held one after 7.5 ms, 10 ms, 12.5 ms and so on.
// The preset reads as PHP 7 does. Under PHP 8 set Reader to ReadPHP8, which
// treats a value that is not a number as held.
func Kdyby() Dialect {
	return Dialect{
		Name:    "Kdyby",
		Library: "Kdyby/Redis (src/Kdyby/Redis/ExclusiveLock.php)",
		Unit:    UnitSeconds, Shape: ShapeNumber, Slack: time.Second, CutLease: true, Restamp: true,
		Reader: ReadPHP7, JudgesAnew: true, Empty: EmptyZeroIsNil,
		OnNil: NilSetnx, Unreadable: UnreadableZero, Wins: WinsSameText,
		Acquire: AcquireSetnx, KeyTTL: TTLNone, Release: ReleaseOwnAhead, Renews: RenewsGetset,
		Lease: 15 * time.Second, Poll: 7500 * time.Microsecond, WaitsForever: true,
		KeyPattern: "NAME:lock", KeyEncoding: Plain, ValueEncoding: Plain,
	}
}

// SPDX-License-Identifier: Apache-2.0

package dialect

import "time"

// Bare is SETNX of a constant, with no time at all: a crashed holder holds for
// ever.
func Bare() Dialect {
	return Dialect{
		Name:    "Bare",
		Library: "SETNX key lock, DEL",
		Unit:    UnitNone, Shape: ShapeConstant, Constant: "lock",
		Reader: ReadNothing,
		OnNil:  NilNever, Unreadable: UnreadableHeld, Wins: WinsNever,
		Acquire: AcquireSetnx, KeyTTL: TTLNone, Release: ReleaseDel, Renews: RenewsNever,
		Poll: 100 * time.Millisecond, WaitsForever: true,
		KeyPattern: "NAME", KeyEncoding: Plain, ValueEncoding: Plain,
	}
}

// BareExpire sends an EXPIRE after every SETNX, including the lost ones. So
// each poll of a waiter prolongs the holder's key, or shortens it. A crashed
// holder's key never ends while other clients poll.
func BareExpire() Dialect {
	d := Bare()
	d.Name = "BareExpire"
	d.Library = "SETNX key lock, EXPIRE key s (also when lost), DEL"
	d.KeyTTL = TTLEverybody
	return d
}

// SetDel is SET key constant NX EX seconds, released by DEL.
func SetDel() Dialect {
	d := Bare()
	d.Name = "SetDel"
	d.Library = "SET key 1 NX EX s, DEL"
	d.Constant = "1"
	d.Acquire = AcquireSetNXEX
	d.KeyTTL = TTLOnSet
	return d
}

// SetGetDel is SetDel with a random value that GET compares before a separate
// DEL.
func SetGetDel() Dialect {
	d := SetDel()
	d.Name = "SetGetDel"
	d.Library = "SET key uuid NX EX s; GET, compare, DEL without a script"
	d.Shape, d.Constant = ShapeToken, ""
	d.Release = ReleaseValueOwn
	return d
}

// SetPexpire is the Go listing with rand.Int63 as token. Its release compares
// the token; its renewal is a bare PEXPIRE. Its tokens are decimals of up to 19
// digits, like guards.
func SetPexpire() Dialect {
	d := SetGetDel()
	d.Name = "SetPexpire"
	d.Library = "Go listings: SET key rand.Int63() NX PX ms; script; PEXPIRE"
	d.Shape = ShapeDecimal
	d.Acquire = AcquireSetNXPX
	d.Release = ReleaseCompare
	d.Renews = RenewsPexpire
	return d
}

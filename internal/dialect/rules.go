// SPDX-License-Identifier: Apache-2.0

package dialect

import "time"

// Unit is what one step of the value's number is worth. To a reader with a
// larger unit a value never expires (milliseconds read as seconds). To a reader
// with a smaller unit it has always expired (seconds read as milliseconds).
type Unit string

// The units in use. UnitNone is for values without a time.
const (
	UnitMillis       Unit = "ms"      // milliseconds since 1970
	UnitSeconds      Unit = "s"       // whole seconds since 1970
	UnitFloatSeconds Unit = "float_s" // seconds since 1970 with a fraction
	UnitNanos        Unit = "ns"      // nanoseconds since 1970
	UnitTicks        Unit = "ticks"   // .NET: 100 ns since the year 1
	UnitNone         Unit = "none"
)

// Step returns the unit's length; zero for UnitNone. For float seconds it is a
// microsecond, which is finer than the agreement of the clocks that write them.
func (u Unit) Step() time.Duration {
	switch u {
	case UnitMillis:
		return time.Millisecond
	case UnitSeconds:
		return time.Second
	case UnitFloatSeconds:
		return time.Microsecond
	case UnitNanos:
		return time.Nanosecond
	case UnitTicks:
		return 100 * time.Nanosecond
	}
	return 0
}

// Shape is the form of the value's text.
type Shape string

// The shapes. The caller supplies a token's bytes: this package draws no random
// numbers.
const (
	ShapeNumber     Shape = "number"      // the stamp alone
	ShapeUUIDNumber Shape = "uuid_number" // uuid, colon, stamp
	ShapeConstant   Shape = "constant"    // always the same text
	ShapeToken      Shape = "token"       // random text
	ShapeDecimal    Shape = "decimal"     // a random number of up to 63 bits, in decimal
)

// Reader names the number parser that reads a value. It decides what a foreign
// value does: one parser throws where another reads zero and takes the lock
// over.
type Reader string

// The readers.
const (
	ReadJavaLong     Reader = "java_long"      // Long.parseLong: sign, digits of any script, 64 bits
	ReadJavaUUID     Reader = "java_uuid_long" // split at ":", UUID.fromString, Long.parseLong
	ReadPythonFloat  Reader = "python_float"   // float(): blanks around, underscores, exponent, inf, nan
	ReadRubyFloat    Reader = "ruby_to_f"      // leading number, else 0.0
	ReadRubyInt      Reader = "ruby_to_i"      // leading whole number, else 0
	ReadJSParseFloat Reader = "js_parse_float" // leading number, else NaN
	ReadJSParseInt   Reader = "js_parse_int"   // leading whole number, else NaN
	ReadPHP7         Reader = "php7"           // compared with an int: leading number, else 0
	ReadPHP8         Reader = "php8"           // a numeric text as number, any other text as text
	ReadDotNetLong   Reader = "dotnet_long"    // long.TryParse: blanks around, sign, 64 bits
	ReadGoInt        Reader = "go_int"         // strconv.ParseInt: sign, ASCII digits, 64 bits
	ReadNothing      Reader = "none"           // the value is never read as a time
)

// EmptyRule says which texts the client's language treats as no value at all.
type EmptyRule string

// The empty rules.
const (
	EmptyIsText     EmptyRule = ""            // the empty text is read like any other
	EmptyIsNil      EmptyRule = "nil"         // "" counts as nil (JavaScript, Python, isEmpty)
	EmptyZeroIsNil  EmptyRule = "nil_or_zero" // "" and "0" count as nil (PHP's empty)
	EmptyZeroIsHeld EmptyRule = "zero_held"   // a number that reads as 0 is held
)

// NilRule says what a client does when the key is gone between its lost SETNX
// and its GET.
type NilRule string

// The nil rules. Never is for clients that send no GET.
const (
	NilWaits      NilRule = "waits"       // sleeps, then the next attempt
	NilGetset     NilRule = "getset"      // counts as expired: GETSET at once
	NilGivesUp    NilRule = "gives_up"    // the acquire ends, not acquired
	NilSetnx      NilRule = "setnx"       // SETNX again at once
	NilError      NilRule = "error"       // the acquire ends with an error
	NilErrorRetry NilRule = "error_retry" // an error inside, after which the next attempt follows
	NilNever      NilRule = "never"
)

// UnreadableRule says what a client does with a value that is not a number to
// its Reader.
type UnreadableRule string

// The unreadable rules.
const (
	UnreadableThrows     UnreadableRule = "throws"      // an exception ends the acquire
	UnreadableExpired    UnreadableRule = "expired"     // counts as expired: taken over
	UnreadableHeld       UnreadableRule = "held"        // counts as held
	UnreadableZero       UnreadableRule = "zero"        // reads as 0 or as its leading number: taken over
	UnreadableNaN        UnreadableRule = "nan"         // NaN, which never counts as live: GETSET
	UnreadableErrorRetry UnreadableRule = "error_retry" // an error inside, then the next attempt
)

// WinRule says which reply to its GETSET makes a client believe that it holds
// the lock.
type WinRule string

// The winning rules.
const (
	WinsSameText     WinRule = "same_text"      // not nil and the same text as the GET before
	WinsExpired      WinRule = "expired"        // not nil and itself expired
	WinsExpiredOrNil WinRule = "expired_or_nil" // expired, or nil
	WinsEqualNumber  WinRule = "equal_number"   // numerically equal to the GET before
	WinsNever        WinRule = "never"          // the client sends no GETSET
)

// AcquireCommand is the first command of an attempt.
type AcquireCommand string

// The acquiring commands. With SET, an option sets the key's TTL.
const (
	AcquireSetnx   AcquireCommand = "setnx"
	AcquireSetNXPX AcquireCommand = "set_nx_px"
	AcquireSetNXEX AcquireCommand = "set_nx_ex"
	// AcquireSetNXGo is what go-redis sends: EX for whole seconds, PX for the
	// rest.
	AcquireSetNXGo AcquireCommand = "set_nx_go"
)

// TTLRule says which commands put a TTL on the key.
type TTLRule string

// The TTL rules. A GETSET always removes the former TTL.
const (
	TTLNone         TTLRule = "none"
	TTLOnSet        TTLRule = "set"         // the acquiring SET's own option
	TTLGetsetExpire TTLRule = "getset"      // option of SET, and EXPIRE after a won GETSET
	TTLWinExpire    TTLRule = "every_win"   // option of SET, and EXPIRE after every win
	TTLAfterSetnx   TTLRule = "after_setnx" // EXPIRE after a won SETNX, as a second command
	TTLEverybody    TTLRule = "every_setnx" // EXPIRE after every SETNX, won or lost
)

// ReleaseRule says what a release does. All rules but ReleaseNever and
// ReleaseCompare can delete another client's key, since the check and the DEL
// are two commands.
type ReleaseRule string

// The release rules.
const (
	ReleaseDel             ReleaseRule = "del"                 // DEL by a local flag
	ReleaseValueLive       ReleaseRule = "del_if_value_live"   // GET; DEL if that value is not expired
	ReleaseValueOwn        ReleaseRule = "del_if_value_own"    // GET; DEL if that value is its own text
	ReleaseValueAtLeastOwn ReleaseRule = "del_if_value_ge_own" // GET; DEL if that number is >= its own
	ReleaseOwnNotPast      ReleaseRule = "del_if_own_not_past" // DEL if its own stamp >= now
	ReleaseOwnAhead        ReleaseRule = "del_if_own_ahead"    // DEL if its own stamp > now
	// compared and deleted on the server, by a script
	ReleaseCompare ReleaseRule = "compare_and_delete"
	ReleaseNever   ReleaseRule = "never"
)

// RenewRule says how a client renews. None of the rules compares on the server.
type RenewRule string

// The renewal rules.
const (
	RenewsNever     RenewRule = "none"
	RenewsReacquire RenewRule = "reacquire" // repeats the acquire, which its own uuid lets through
	RenewsGetset    RenewRule = "getset"    // GETSET of a new stamp
	RenewsSet       RenewRule = "set"       // SET of a new stamp
	RenewsPexpire   RenewRule = "pexpire"   // PEXPIRE, whatever value is there
)

// Encoding is how a key's or a value's text becomes bytes.
type Encoding string

// The encodings.
const (
	Plain Encoding = "plain" // the text's UTF-8 bytes
	JDK   Encoding = "jdk"   // Java serialization of a String, Spring's default serializer
	JSON  Encoding = "json"  // a JSON string, quotes included
)

// SPDX-License-Identifier: Apache-2.0

//go:build real

package interop

import "time"

const jarHeader = `# What the jar does: com.github.jedis-lock:jedis-lock:1.0.0 with redis.clients:jedis:2.9.3 on a real redis-server,
# recorded, not written by hand. Record it anew with
#
#   ` + recordCommand + `
#
# which runs the jar's own class in a JVM whose wall clock stands still (Debian's faketime), one command at a time.
# Without -record the same test compares this file with the jar, byte for byte.
#
# Lines, their fields parted by one blank. Milliseconds are since 1970. default: what the jar does when it is not told.
#
#   stamp NOW_MS LEASE_MS VALUE
#       at a clock of NOW_MS an acquire of a missing key writes VALUE.
#   attempts WAIT_MS POLL_MS COUNT SLEEPS
#       on a key that stays held, an acquire sends COUNT SETNX, sleeps SLEEPS times and gives up. Its poll can't be
#       set.
#   foreign BEFORE NOW_MS OUTCOME WORD... left=STATE
#       the key is in the state BEFORE, the lock's wait is 0, its lease 60000, and the clock stands at NOW_MS: one
#       acquire ends as acquired, refused or exception:JAVA_CLASS. The words are what happened on the wire, in order;
#       STATE is what is on the key afterwards.
#   release BEFORE NOW_MS WORD... left=STATE
#       the same for a script: the words acquire and release are calls on one lock object, each followed by its
#       commands, and an acquire by its outcome too.
#
# A state is missing, list (a key of that type) or hex:BYTES (a string; hex: alone is the empty one).
# A word of the wire is COMMAND=REPLY: SETNX and GETSET carry the stamp that a stamp line shows; a reply is a number, nil,
# hex:BYTES or error. A word that begins with ! is another client's act at that moment: !DEL, !LIST (the key becomes a
# list), !SET=hex:BYTES.
`

const before1970 = -1000

// The first clock is the one of the foreign and release lines.
var pinnedClocks = []int64{1600000000000, 1234567890123, 253402300799999, 1, before1970}

var stampLeases = []time.Duration{
	Default, time.Minute, 300 * time.Millisecond, time.Millisecond, 0, -time.Millisecond, -time.Minute,
	(1<<31 - 1) * time.Millisecond,
}

var attemptWaits = []time.Duration{
	Default, -100 * time.Millisecond, -time.Millisecond, 0, time.Millisecond, 99 * time.Millisecond,
	100 * time.Millisecond,
	101 * time.Millisecond, 199 * time.Millisecond, 200 * time.Millisecond, 250 * time.Millisecond,
	time.Second,
}

// cell is a state of the key, and what other clients do to it just before a
// command of the recorded client is sent.
type cell struct {
	what   string
	before string
	acts   map[string]string
}

func text(s string) string { return hexWord([]byte(s)) }

const uuid = "0f9d5a3c-8f0e-4c57-9a7b-2d1e6f3c4b5a"

var foreignCells = []cell{
	{what: "nobody", before: "missing"},
	{what: "a live stamp", before: text("1600000030000")},
	{what: "a live stamp by one millisecond", before: text("1600000000001")},
	{what: "a stamp equal to now is live: dead is strictly less", before: text("1600000000000")},
	{what: "a stamp dead by one millisecond", before: text("1599999999999")},
	{what: "a dead stamp", before: text("1599999940000")},
	{what: "another unit: whole seconds of now are long dead", before: text("1600000000")},
	{what: "another unit: float seconds", before: text("1600000030.5")},
	{what: "another unit: nanoseconds of now never die", before: text("1600000000000000000")},
	{what: "another unit: .NET ticks of now never die", before: text("637355968000000000")},
	{what: "a uuid", before: text(uuid)},
	{what: "uuid:ms, live", before: text(uuid + ":1600000030000")},
	{what: "uuid:ms, dead", before: text(uuid + ":1599999940000")},
	{what: "a random token of a modern lock", before: text("q3xwYc0mT1yQd8rZ5v2KfA")},
	{what: "19 digits: the least guard", before: text("4000000000000000000")},
	{what: "19 digits: the greatest guard", before: text("9223372036854775806")},
	{what: "19 digits: the greatest long", before: text("9223372036854775807")},
	{what: "19 digits: one more does not parse", before: text("9223372036854775808")},
	{what: "20 digits", before: text("18446744073709551615")},
	{what: "the least long", before: text("-9223372036854775808")},
	{what: "one less does not parse", before: text("-9223372036854775809")},
	{what: "zero", before: text("0")},
	{what: "one: a lock with no time at all is dead", before: text("1")},
	{what: "a negative number", before: text("-1")},
	{what: "leading zeros, dead", before: text("0001599999940000")},
	{what: "leading zeros, live, more digits than a long has", before: text("000000000001600000030000")},
	{what: "a leading plus, live", before: text("+1600000030000")},
	{what: "a leading plus, dead", before: text("+1599999940000")},
	{what: "a plus alone", before: text("+")},
	{what: "a minus alone", before: text("-")},
	{what: "two signs", before: text("+-1")},
	{what: "the empty string", before: text("")},
	{what: "a blank", before: text(" ")},
	{what: "a leading blank", before: text(" 1599999940000")},
	{what: "a trailing blank", before: text("1599999940000 ")},
	{what: "a trailing newline", before: text("1599999940000\n")},
	{what: "a trailing zero byte", before: text("1599999940000\x00")},
	{what: "an exponent", before: text("1.59e12")},
	{what: "hexadecimal", before: text("0x1")},
	{what: "an underscore", before: text("1_599_999_940_000")},
	{what: "a trailing L", before: text("1599999940000L")},
	{what: "letters", before: text("locked")},
	{what: "Unicode digits: Arabic-Indic, dead", before: text("١٥٩٩٩٩٩٩٤٠٠٠٠")},
	{what: "Unicode digits: Arabic-Indic, live", before: text("١٦٠٠٠٠٠٠٣٠٠٠٠")},
	{what: "Unicode digits: full width, dead", before: text("１５９９９９９９４００００")},
	{what: "Unicode digits: Devanagari among ASCII, dead", before: text("१599999940000")},
	{what: "Unicode digits beyond 16 bits (mathematical bold) do not parse", before: text("𝟏𝟓𝟗𝟗𝟗𝟗𝟗𝟗𝟒𝟎𝟎𝟎𝟎")},
	{what: "a full-width plus does not parse", before: text("＋1599999940000")},
	{what: "a Unicode minus does not parse", before: text("−1")},
	{what: "a byte order mark does not parse", before: text("\uFEFF1599999940000")},
	{what: "bytes that are not UTF-8", before: text("\xff\xfe")},
	{what: "what Spring's default serializer writes for a dead stamp",
		before: text("\xac\xed\x00\x05t\x00\x0d1599999940000")},
	{what: "a JSON string", before: text(`"1599999940000"`)},
	{what: "another type", before: "list"},
	{what: "gone between the lost SETNX and the GET", before: text("1600000030000"),
		acts: map[string]string{"get": "!DEL"}},
	{what: "died between the SETNX and the GET", before: text("1600000030000"),
		acts: map[string]string{"get": "!SET=" + text("1599999940000")}},
	{what: "another type between the SETNX and the GET", before: text("1600000030000"),
		acts: map[string]string{"get": "!LIST"}},
	{what: "clobber: another takes over between GET and GETSET, and loses its stamp to ours",
		before: text("1599999940000"),
		acts:   map[string]string{"getset": "!SET=" + text("1600000059999")}},
	{what: "another takes over in the same millisecond, and the same bytes stay",
		before: text("1599999940000"),
		acts:   map[string]string{"getset": "!SET=" + text("1600000060001")}},
	{what: "the same number in other digits is another string", before: text("1599999940000"),
		acts: map[string]string{"getset": "!SET=" + text("+1599999940000")}},
	{what: "replaced by the same bytes: string equality can't know", before: text("1599999940000"),
		acts: map[string]string{"getset": "!SET=" + text("1599999940000")}},
	{what: "ghost: gone between GET and GETSET, not acquired, and our stamp stays",
		before: text("1599999940000"),
		acts:   map[string]string{"getset": "!DEL"}},
	{what: "another type between GET and GETSET", before: text("1599999940000"),
		acts: map[string]string{"getset": "!LIST"}},
}

var foreignBefore1970 = []cell{
	{what: "a clock before 1970: an older stamp is dead", before: text("-1001")},
	{what: "a clock before 1970: a stamp equal to now is live", before: text("-1000")},
	{what: "a clock before 1970: zero is live", before: text("0")},
	{what: "a clock before 1970: nobody", before: "missing"},
}

// releaseCell is a script for one lock object on a key whose state is before.
type releaseCell struct{ what, before, script string }

var releaseCells = []releaseCell{
	{"of what is held", "missing", "acquire release"},
	{"after a takeover", text("1599999940000"), "acquire release"},
	{"without a hold: nothing is sent", text("1600000030000"), "release"},
	{"after a refusal: nothing is sent", text("1600000030000"), "acquire release"},
	{"after an exception: nothing is sent", text("locked"), "acquire release"},
	{"twice: the second sends nothing", "missing", "acquire release release"},
	{"twice with another's in between: the other's stays", "missing",
		"acquire release !SET=" + text("1600000030000") + " release"},
	{"late: it deletes another's", "missing", "acquire !SET=" + text("1600000030000") + " release"},
	{"late: it deletes a guard", "missing", "acquire !SET=" + text("9223372036854775806") + " release"},
	{"late: it deletes another type", "missing", "acquire !LIST release"},
	{"late: nothing is left to delete, and it does not say so", "missing", "acquire !DEL release"},
	{"not reentrant: the second acquire is refused, one release frees", "missing", "acquire acquire release"},
	{"a refused second acquire leaves the flag: it deletes another's", "missing",
		"acquire !SET=" + text("1600000030000") + " acquire release"},
	{"an exception in a second acquire leaves the flag: it deletes another's", "missing",
		"acquire !SET=" + text("locked") + " acquire release"},
	{"and again: the object can be used anew", "missing", "acquire release acquire release"},
}

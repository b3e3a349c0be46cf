// SPDX-License-Identifier: Apache-2.0

//go:build real

package interop

import "strings"

const (
	mine   = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
	theirs = uuid
)

var uuidRecording = recording{
	file:   "jedis-jar-uuid.txt",
	header: uuidHeader + format + "\n",
	kind:   UUID,
	me:     mine,
	held:   "00000000-0000-0000-0000-000000000000:9223372036854775807",
	cells:  uuidCells,
	before: uuidBefore1970,
	script: uuidReleaseCells,
}

const uuidHeader = `# What the rules that jedis-lock took up after 1.0.0 do (uuid:ms, expired or mine). No jar of them is in the public
# registry, so this is recorded from a transliteration of ours, class getsetlock.interop.UuidLock, with
# redis.clients:jedis:2.9.3 on a real redis-server. Record it anew with
#
#   ` + recordCommand + `
#
# The client's own uuid is 7c9e6679-7425-40de-944b-e07fc1f90ae7 throughout; a reader whose client has another puts it in
# its place.
`

var uuidCells = []cell{
	{what: "nobody", before: "missing"},
	{what: "another's, live", before: text(theirs + ":1600000030000")},
	{what: "another's, equal to now, is live", before: text(theirs + ":1600000000000")},
	{what: "another's, dead by one millisecond", before: text(theirs + ":1599999999999")},
	{what: "another's, dead", before: text(theirs + ":1599999940000")},
	{what: "mine, live: taken again", before: text(mine + ":1600000030000")},
	{what: "mine, dead", before: text(mine + ":1599999940000")},
	{what: "mine in upper case: a uuid is compared as a number",
		before: text(strings.ToUpper(mine) + ":1600000030000")},
	{what: "what 1.0.0 writes, live: stolen", before: text("1600000030000")},
	{what: "what 1.0.0 writes, dead", before: text("1599999940000")},
	{what: "a bare number guard does not hold: stolen", before: text("9223372036854775806")},
	{what: "a guard of these rules", before: text(theirs + ":9223372036854775806")},
	{what: "the greatest long", before: text(theirs + ":9223372036854775807")},
	{what: "one more does not parse: stolen", before: text(theirs + ":9223372036854775808")},
	{what: "the zero uuid with the greatest long: a tombstone",
		before: text("00000000-0000-0000-0000-000000000000:9223372036854775807")},
	{what: "a negative time", before: text(theirs + ":-1")},
	{what: "a leading plus, live", before: text(theirs + ":+1600000030000")},
	{what: "Unicode digits, live", before: text(theirs + ":١٦٠٠٠٠٠٠٣٠٠٠٠")},
	{what: "a uuid alone: stolen", before: text(theirs)},
	{what: "a uuid and a colon: stolen", before: text(theirs + ":")},
	{what: "two colons: stolen", before: text(theirs + "::1600000030000")},
	{what: "no uuid: stolen", before: text(":1600000030000")},
	{what: "more parts are not looked at", before: text(theirs + ":1600000030000:more")},
	{what: "a trailing colon is not looked at", before: text(theirs + ":1600000030000:")},
	{what: "a blank before the time: stolen", before: text(theirs + ": 1600000030000")},
	{what: "a blank before the uuid: stolen", before: text(" " + theirs + ":1600000030000")},
	{what: "a short uuid is one", before: text("1-1-1-1-1:1600000030000")},
	{what: "four groups are none: stolen", before: text("1-1-1-1:1600000030000")},
	{what: "a uuid without hyphens: stolen",
		before: text(strings.ReplaceAll(theirs, "-", "") + ":1600000030000")},
	{what: "a uuid in braces: stolen", before: text("{" + theirs + "}:1600000030000")},
	{what: "the empty string: stolen", before: text("")},
	{what: "a random token of a modern lock: stolen", before: text("q3xwYc0mT1yQd8rZ5v2KfA")},
	{what: "bytes that are not UTF-8: read as text that differs, and GETSET returns the same text",
		before: text("\xff\xfe")},
	{what: "another type", before: "list"},
	{what: "ghost: gone between the lost SETNX and the GET counts as expired, and our value stays",
		before: text(theirs + ":1600000030000"), acts: map[string]string{"get": "!DEL"}},
	{what: "back again between the nil GET and the GETSET: clobbered",
		before: text(theirs + ":1600000030000"),
		acts:   map[string]string{"get": "!DEL", "getset": "!SET=" + text(theirs+":1600000060001")}},
	{what: "clobber: another takes over between GET and GETSET, and loses its value to ours",
		before: text(theirs + ":1599999940000"),
		acts: map[string]string{"getset": "!SET=" +
			text("11111111-2222-3333-4444-555555555555:1600000059999")}},
	{what: "replaced by the same bytes", before: text(theirs + ":1599999940000"),
		acts: map[string]string{"getset": "!SET=" + text(theirs+":1599999940000")}},
	{what: "ghost: gone between GET and GETSET", before: text(theirs + ":1599999940000"),
		acts: map[string]string{"getset": "!DEL"}},
	{what: "another type between GET and GETSET", before: text(theirs + ":1599999940000"),
		acts: map[string]string{"getset": "!LIST"}},
}

var uuidBefore1970 = []cell{
	{what: "a clock before 1970: what is unreadable is alive", before: text("x")},
	{what: "a clock before 1970: and so is what is missing", before: text("x"),
		acts: map[string]string{"get": "!DEL"}},
	{what: "a clock before 1970: an older stamp is dead", before: text(theirs + ":-1001")},
}

var uuidReleaseCells = []releaseCell{
	{"of what is held", "missing", "acquire release"},
	{"after a takeover", text(theirs + ":1599999940000"), "acquire release"},
	{"without a hold: nothing is sent", text(theirs + ":1600000030000"), "release"},
	{"after a refusal: nothing is sent", text(theirs + ":1600000030000"), "acquire release"},
	{"twice: the second sends nothing", "missing", "acquire release release"},
	{"late: it deletes another's", "missing", "acquire !SET=" + text(theirs+":1600000030000") + " release"},
	{"late: it deletes another type", "missing", "acquire !LIST release"},
	{"late: nothing is left to delete", "missing", "acquire !DEL release"},
	{"a second acquire finds its own value and wins again; one release frees", "missing",
		"acquire acquire release"},
	{"a refused second acquire leaves the flag: it deletes another's", "missing",
		"acquire !SET=" + text(theirs+":1600000030000") + " acquire release"},
	{"double grant: the loser's value stays, and is its own at the next poll",
		text(theirs + ":1600000030000"),
		"acquire !SET=" + text(mine+":1600000059999") + " acquire release"},
}

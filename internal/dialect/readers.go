// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// readNumber reads a text as the language's own parser does.
func readNumber(reader Reader, text string) reading {
	switch reader {
	case ReadJavaLong:
		return intOr(javaLong(text))
	case ReadJavaUUID:
		return javaUUIDLong(text)
	case ReadPythonFloat:
		return floatOr(pythonFloatOf(text))
	case ReadRubyFloat:
		return floatOr(rubyFloat(text), true)
	case ReadRubyInt:
		return intOr(saturated(strings.ReplaceAll(rubyIntPrefix(text), "_", "")), true)
	case ReadJSParseFloat:
		return floatOr(jsParseFloat(text), true)
	case ReadJSParseInt:
		return floatOr(jsParseInt(text), true)
	case ReadPHP7, ReadPHP8:
		return phpNumber(text, reader == ReadPHP7)
	case ReadDotNetLong:
		return intOr(strict64(strings.TrimRight(strings.Trim(text, "\t\n\v\f\r "), "\x00")))
	case ReadGoInt:
		return intOr(strict64(text))
	}
	return reading{Kind: kindUnreadable}
}

func intOr(n int64, ok bool) reading {
	if !ok {
		return reading{Kind: kindUnreadable}
	}
	return reading{Kind: kindNumber, Int: n}
}

func floatOr(f float64, ok bool) reading {
	if !ok {
		return reading{Kind: kindUnreadable}
	}
	return reading{Kind: kindNumber, IsFloat: true, Float: f}
}

// strict64 reads a sign and ASCII digits within 64 bits.
func strict64(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

// saturated reads a sign and digits for a language with unbounded integers; an
// empty text is 0.
func saturated(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0
	}
	return n
}

// javaLong is Long.parseLong in radix 10. It accepts a sign of either kind (the
// plus since Java 7), then decimal digits of any script of the first plane, one
// UTF-16 unit each.
func javaLong(text string) (int64, bool) {
	if !utf8.ValidString(text) {
		return 0, false
	}
	var ascii strings.Builder
	for i, r := range text {
		if i == 0 && (r == '+' || r == '-') {
			ascii.WriteRune(r)
			continue
		}
		digit, ok := decimalDigit(r)
		if !ok {
			return 0, false
		}
		ascii.WriteByte('0' + digit)
	}
	return strict64(ascii.String())
}

// decimalDigit is Character.digit(r, 10) for one UTF-16 unit, so only
// characters of the first plane are digits. Unicode lays out every script's
// digits as ten in a row.
func decimalDigit(r rune) (byte, bool) {
	if r >= '0' && r <= '9' {
		return byte(r - '0'), true
	}
	for _, block := range unicode.Nd.R16 {
		if r >= rune(block.Lo) && r <= rune(block.Hi) {
			return byte((r - rune(block.Lo)) % 10), true
		}
	}
	return 0, false
}

// javaUUIDLong follows JedisUUID's parser. The number is what lies between the
// first two colons, and the rest is ignored. UUID.fromString accepts short
// groups ("0-0-0-0-0").
func javaUUIDLong(text string) reading {
	parts := strings.Split(text, ":")
	if len(parts) < 2 {
		return reading{Kind: kindUnreadable}
	}
	uuid, ok := javaUUID(parts[0])
	if !ok {
		return reading{Kind: kindUnreadable}
	}
	r := intOr(javaLong(parts[1]))
	if r.Kind == kindNumber {
		r.UUID = uuid
	}
	return r
}

// javaUUID is UUID.fromString: five groups of hex digits, of which each keeps
// only its last bits.
func javaUUID(text string) (string, bool) {
	groups := strings.Split(text, "-")
	if len(groups) != 5 || len(text) > 36 {
		return "", false
	}
	out := make([]string, 5)
	for i, digits := range []int{8, 4, 4, 4, 12} {
		n, err := strconv.ParseInt(groups[i], 16, 64)
		if err != nil {
			return "", false
		}
		hex := strings.Repeat("0", 16) + strconv.FormatInt(n, 16)
		out[i] = hex[len(hex)-digits:]
	}
	return strings.Join(out, "-"), true
}

// asciiBlanks are the blanks that PHP, Ruby and Python's float of bytes skip.
const asciiBlanks = " \t\n\r\v\f"

// pythonFloatOf is float(): blanks around, underscores between digits, an
// exponent, and inf and nan in any case with a sign. The old clients gave it
// bytes, so only ASCII blanks count.
func pythonFloatOf(text string) (float64, bool) {
	text = strings.Trim(text, asciiBlanks)
	body := strings.ToLower(strings.TrimLeft(text, "+-"))
	if len(text)-len(body) > 1 {
		return 0, false
	}
	switch body {
	case "nan":
		return math.NaN(), true
	case "inf", "infinity":
		return math.Inf(1 - 2*strings.Count(text, "-")), true
	}
	if n := decimalPrefix(text, true); n == 0 || n != len(text) {
		return 0, false
	}
	return parsedFloat(text), true
}

// rubyFloat is String#to_f: the leading number, otherwise 0.0. A dot counts
// only before a digit. (Ruby 3.4 also accepts a dot after a digit; only an
// exponent can follow it.)
func rubyFloat(text string) float64 {
	text = strings.TrimLeft(text, asciiBlanks)
	number := text[:decimalPrefix(text, true)]
	if whole, rest, found := strings.Cut(number, "."); found && (rest == "" || !isDigit(rest[0])) {
		number = whole
	}
	return parsedFloat(number)
}

// rubyIntPrefix returns what String#to_i reads: a sign, digits, single
// underscores between them.
func rubyIntPrefix(text string) string {
	text = strings.TrimLeft(text, asciiBlanks)
	i := signLength(text)
	n := digitsLength(text[i:], true)
	return text[:i+n]
}

// jsParseFloat is JavaScript's parseFloat: the leading number, otherwise NaN.
func jsParseFloat(text string) float64 {
	text = strings.TrimLeftFunc(text, jsBlank)
	if rest := text[signLength(text):]; strings.HasPrefix(rest, "Infinity") {
		return math.Inf(1 - 2*strings.Count(text[:len(text)-len(rest)], "-"))
	}
	n := decimalPrefix(text, false)
	if n == 0 {
		return math.NaN()
	}
	return parsedFloat(text[:n])
}

// jsNumber is the Number that == makes of a text when it is compared with a
// number. All of the text must be one number, blanks around are skipped, an
// empty text is 0, and 0x, 0o and 0b are accepted.
func jsNumber(text string) float64 {
	text = strings.TrimFunc(text, jsBlank)
	if text == "" {
		return 0
	}
	if len(text) > 2 && text[0] == '0' && !strings.Contains(text, "_") &&
		strings.Contains("xXoObB", text[1:2]) {
		if n, err := strconv.ParseUint(text, 0, 64); err == nil {
			return float64(n)
		}
		return math.NaN()
	}
	if body := text[signLength(text):]; body != "Infinity" && decimalPrefix(text, false) != len(text) {
		return math.NaN()
	}
	return jsParseFloat(text)
}

// jsParseInt is parseInt(text, 10): the leading whole number as a double,
// otherwise NaN.
func jsParseInt(text string) float64 {
	text = strings.TrimLeftFunc(text, jsBlank)
	i := signLength(text)
	n := digitsLength(text[i:], false)
	if n == 0 {
		return math.NaN()
	}
	return parsedFloat(text[:i+n])
}

// jsBlank reports what StrWhiteSpace lists: Unicode's spaces, line ends and the
// byte order mark, but not the next-line control that Go counts as a space.
func jsBlank(r rune) bool { return r == 0xfeff || unicode.IsSpace(r) && r != 0x85 }

// phpNumber reads the left side of PHP's "$text < $int". A whole number that
// fits is an integer, any other number a float. PHP 7 reads a leading number,
// otherwise 0. PHP 8 reads only a wholly numeric text, with blanks around.
func phpNumber(text string, prefix bool) reading {
	body := strings.TrimLeft(text, asciiBlanks)
	n := decimalPrefix(body, false)
	if !prefix && (n == 0 || strings.Trim(body[n:], asciiBlanks) != "") {
		return reading{Kind: kindUnreadable}
	}
	if n == 0 {
		return intOr(0, true)
	}
	if whole, ok := strict64(body[:n]); ok {
		return intOr(whole, true)
	}
	return floatOr(parsedFloat(body[:n]), true)
}

// parsedFloat returns the nearest double of a well-formed decimal. Beyond the
// range it is infinite, as in all the languages here.
func parsedFloat(text string) float64 {
	f, _ := strconv.ParseFloat(strings.ReplaceAll(text, "_", ""), 64)
	return f
}

// decimalPrefix returns the length of the leading decimal number: sign, digits,
// fraction, exponent. A dot may lack digits on one side.
func decimalPrefix(text string, underscores bool) int {
	i := signLength(text)
	whole := digitsLength(text[i:], underscores)
	i += whole
	fraction := 0
	if i < len(text) && text[i] == '.' {
		fraction = digitsLength(text[i+1:], underscores)
		if whole+fraction > 0 {
			i += 1 + fraction
		}
	}
	if whole+fraction == 0 {
		return 0
	}
	if i < len(text) && (text[i] == 'e' || text[i] == 'E') {
		sign := signLength(text[i+1:])
		if n := digitsLength(text[i+1+sign:], underscores); n > 0 {
			i += 1 + sign + n
		}
	}
	return i
}

func signLength(text string) int {
	if text != "" && (text[0] == '+' || text[0] == '-') {
		return 1
	}
	return 0
}

// digitsLength returns the length of the leading digits. An underscore counts
// only between two of them.
func digitsLength(text string, underscores bool) int {
	i := 0
	for i < len(text) {
		between := underscores && text[i] == '_' && i > 0 && text[i-1] != '_' && i+1 < len(text) &&
			isDigit(text[i+1])
		if !isDigit(text[i]) && !between {
			break
		}
		i++
	}
	return i
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

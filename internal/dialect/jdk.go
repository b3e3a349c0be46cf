// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Java's stream of one String: magic and version, a type byte, a length in
// bytes (16 bits, or 64 for longer texts), then modified UTF-8.
const (
	jdkHeader     = "\xac\xed\x00\x05"
	jdkString     = 0x74
	jdkLongString = 0x7c
	jdkShortest   = len(jdkHeader) + 1 + 2
)

func encodeJDK(text string) (string, error) {
	body, err := modifiedUTF8(text)
	if err != nil {
		return "", err
	}
	out := []byte(jdkHeader)
	if len(body) <= 0xffff {
		out = append(out, jdkString)
		out = binary.BigEndian.AppendUint16(out, uint16(len(body)))
	} else {
		out = append(out, jdkLongString)
		out = binary.BigEndian.AppendUint64(out, uint64(len(body)))
	}
	return string(out) + body, nil
}

func decodeJDK(raw string) (string, error) {
	if len(raw) < jdkShortest || raw[:len(jdkHeader)] != jdkHeader {
		return "", fmt.Errorf("%w: no Java serialization header", errEncoding)
	}
	var length uint64
	body := raw[len(jdkHeader)+1:]
	switch kind := raw[len(jdkHeader)]; {
	case kind == jdkString:
		length, body = uint64(binary.BigEndian.Uint16([]byte(body))), body[2:]
	case kind == jdkLongString && len(body) >= 8:
		length, body = binary.BigEndian.Uint64([]byte(body)), body[8:]
		if length <= 0xffff {
			return "", fmt.Errorf("%w: a short string in the long form", errEncoding)
		}
	default:
		return "", fmt.Errorf("%w: a Java object that is no String (type byte %#02x)", errEncoding, kind)
	}
	if length != uint64(len(body)) {
		return "", fmt.Errorf("%w: Java string of %d bytes says %d", errEncoding, len(body), length)
	}
	return fromModifiedUTF8(body)
}

// modifiedUTF8 writes NUL in two bytes, and a character beyond the first plane
// as two surrogates of three bytes each.
func modifiedUTF8(text string) (string, error) {
	if !utf8.ValidString(text) {
		return "", fmt.Errorf("%w: %s is not UTF-8", errEncoding, quoteShort(text))
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == 0:
			b.WriteString("\xc0\x80")
		case r < 0x10000:
			b.WriteRune(r)
		default:
			writeSurrogate(&b, 0xd800+(r-0x10000)>>10)
			writeSurrogate(&b, 0xdc00+(r-0x10000)&0x3ff)
		}
	}
	return b.String(), nil
}

// writeSurrogate writes one surrogate, which WriteRune refuses.
func writeSurrogate(b *strings.Builder, r rune) {
	b.WriteByte(0xe0 | byte(r>>12))
	b.WriteByte(0x80 | byte(r>>6)&0x3f)
	b.WriteByte(0x80 | byte(r)&0x3f)
}

// fromModifiedUTF8 refuses bytes that Java would not write, and half
// characters, which a Go string cannot hold.
func fromModifiedUTF8(body string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(body); {
		unit, n := modifiedUnit(body[i:])
		if n == 0 {
			return "", fmt.Errorf("%w: broken modified UTF-8 at byte %d", errEncoding, i)
		}
		i += n
		if unit < 0xd800 || unit > 0xdfff {
			b.WriteRune(unit)
			continue
		}
		low, n := modifiedUnit(body[i:])
		if unit > 0xdbff || n == 0 || low < 0xdc00 || low > 0xdfff {
			return "", fmt.Errorf("%w: half a character at byte %d", errEncoding, i)
		}
		i += n
		b.WriteRune(0x10000 + (unit-0xd800)<<10 + (low - 0xdc00))
	}
	return b.String(), nil
}

// modifiedUnit reads one UTF-16 unit and returns how many bytes it took; 0 when
// they are not in the shortest form.
func modifiedUnit(s string) (rune, int) {
	if len(s) == 0 || s[0] == 0 {
		return 0, 0
	}
	if s[0] < 0x80 {
		return rune(s[0]), 1
	}
	if len(s) >= 2 && s[0]&0xe0 == 0xc0 && s[1]&0xc0 == 0x80 {
		if r := rune(s[0]&0x1f)<<6 | rune(s[1]&0x3f); r >= 0x80 || r == 0 {
			return r, 2
		}
	}
	if len(s) >= 3 && s[0]&0xf0 == 0xe0 && s[1]&0xc0 == 0x80 && s[2]&0xc0 == 0x80 {
		if r := rune(s[0]&0x0f)<<12 | rune(s[1]&0x3f)<<6 | rune(s[2]&0x3f); r >= 0x800 {
			return r, 3
		}
	}
	return 0, 0
}

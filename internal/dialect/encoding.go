// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// errEncoding is wrapped by every error about bytes that are not what the
// encoding writes.
var errEncoding = errors.New("bytes are not in the dialect's encoding")

// EncodeKey returns the key's bytes on the server. Give it the key, not the
// name (see Key).
func (d Dialect) EncodeKey(key string) (string, error) { return encodeText(d.KeyEncoding, key) }

// DecodeKey is the inverse of EncodeKey. It refuses bytes that EncodeKey would
// not write.
func (d Dialect) DecodeKey(raw string) (string, error) { return decodeText(d.KeyEncoding, raw) }

// EncodeValue returns the bytes of a value's text.
func (d Dialect) EncodeValue(text string) (string, error) { return encodeText(d.ValueEncoding, text) }

// DecodeValue is the inverse of EncodeValue. It refuses bytes that EncodeValue
// would not write.
func (d Dialect) DecodeValue(raw string) (string, error) { return decodeText(d.ValueEncoding, raw) }

func encodeText(e Encoding, text string) (string, error) {
	switch e {
	case JDK:
		return encodeJDK(text)
	case JSON:
		return encodeJSON(text)
	}
	return text, nil
}

func decodeText(e Encoding, raw string) (string, error) {
	switch e {
	case JDK:
		return decodeJDK(raw)
	case JSON:
		return decodeJSON(raw)
	}
	return raw, nil
}

// encodeJSON escapes only what JSON demands, as Jackson does. Go's default
// would also escape <, > and &, and then Go and Java would write different
// keys.
func encodeJSON(text string) (string, error) {
	if !utf8.ValidString(text) {
		return "", fmt.Errorf("%w: %s is not UTF-8", errEncoding, quoteShort(text))
	}
	const hex = "0123456789ABCDEF"
	short := map[byte]byte{'"': '"', '\\': '\\', '\b': 'b', '\t': 't', '\n': 'n', '\f': 'f', '\r': 'r'}
	out := []byte{'"'}
	for i := range len(text) {
		c := text[i]
		if s, ok := short[c]; ok {
			out = append(out, '\\', s)
		} else if c < 0x20 {
			out = append(out, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		} else {
			out = append(out, c)
		}
	}
	return string(append(out, '"')), nil
}

// decodeJSON accepts only the form that encodeJSON writes: two byte strings for
// one text would be two keys.
func decodeJSON(raw string) (string, error) {
	var text string
	if err := json.Unmarshal([]byte(raw), &text); err != nil {
		return "", fmt.Errorf("%w: %s is no JSON string", errEncoding, quoteShort(raw))
	}
	if again, err := encodeJSON(text); err != nil || again != raw {
		return "", fmt.Errorf("%w: %s is escaped in another way", errEncoding, quoteShort(raw))
	}
	return text, nil
}

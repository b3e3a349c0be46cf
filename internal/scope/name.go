// SPDX-License-Identifier: Apache-2.0

package scope

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// names encodes a namespace as one word of a key's name. A colon would end the
// word, and braces would choose a slot of Redis Cluster.
var names = strings.NewReplacer("%", "%25", ":", "%3A", "{", "%7B", "}", "%7D")

// plains is the inverse of names.
var plains = strings.NewReplacer("%25", "%", "%3A", ":", "%7B", "{", "%7D", "}")

// InName returns a namespace as it appears in the names of getsetlock's own
// keys on the server: the record of "order:" is gsl:phase:order%3A. No two
// namespaces have the same name, and no name followed by a colon begins
// another. So the keys of "a" are never taken for those of "a:b".
func InName(namespace string) string { return names.Replace(namespace) }

// OfName returns the namespace that InName encoded. It returns false for a text
// that InName never returns.
func OfName(name string) (namespace string, ok bool) {
	namespace = plains.Replace(name)
	return namespace, InName(namespace) == name
}

// IsName reports whether people can read a namespace: it is UTF-8 without
// control characters. Any such text is a namespace; it owns the keys that begin
// with it.
func IsName(namespace string) bool {
	return !strings.ContainsFunc(namespace,
		func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) })
}

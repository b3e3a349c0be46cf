package scope

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// names writes a namespace so that it can be one word of a key's name. A colon
// ends such a word, and braces would choose the slot of a Redis Cluster.
var names = strings.NewReplacer("%", "%25", ":", "%3A", "{", "%7B", "}", "%7D")

// plains is the opposite of names.
var plains = strings.NewReplacer("%25", "%", "%3A", ":", "%7B", "{", "%7D", "}")

// InName returns a namespace as it stands in the names of getsetlock's own keys
// on the server: the record of "order:" is gsl:phase:order%3A. No two
// namespaces have the same name, and none is the beginning of another up to a
// colon, so that the keys of "a" are never taken for those of "a:b".
func InName(namespace string) string { return names.Replace(namespace) }

// OfName returns the namespace that InName wrote. It reports false for a text
// that InName never writes.
func OfName(name string) (namespace string, ok bool) {
	namespace = plains.Replace(name)
	return namespace, InName(namespace) == name
}

// IsName reports that people can read a namespace: it is UTF-8 without control
// characters. Any such text is a namespace; it owns the keys that begin with it.
func IsName(namespace string) bool {
	return !strings.ContainsFunc(namespace, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) })
}

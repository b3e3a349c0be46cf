// SPDX-License-Identifier: Apache-2.0

// Package dialect names the clients of a timestamp lock that are known: what
// they write on a Redis key, and how they read what others wrote there.
//
//	legacy.Config{Dialect: dialect.Named("JedisUUID")}
//
// docs/reference/dialects.md lists them, and the words in which a file or a
// [Dialect] describes another one. What the clients do is data; getsetlock's
// clients, the explorer and the audit read it in one place.
package dialect

import "github.com/getsetlock/getsetlock/internal/dialect"

// Dialect is one kind of old client. Its fields are words and times, as in a
// dialect file.
type Dialect = dialect.Dialect

// Terms are the times of a fleet of old clients, as far as they are claimed:
// smallest and greatest lease, clock spread and gap, and how far clocks are
// behind the server's or ahead of it at most.
type Terms = dialect.Terms

// Zero claims that a quantity of [Terms] is zero, as in
// Terms{Behind: dialect.Zero}. An unset field claims nothing.
const Zero = dialect.Zero

// Named returns the dialect with a name: "Jedis", "JedisUUID", "RedisPy". Case,
// hyphens and underscores do not matter. If there is none, what takes the
// Dialect refuses it: Named is for names in a program's text, and [Lookup] for
// those that a user gives.
func Named(name string) Dialect {
	d, err := dialect.Lookup(name)
	if err != nil {
		return Dialect{Name: name}
	}
	return d
}

// Lookup is Named, with an error that lists the most similar names or all.
func Lookup(name string) (Dialect, error) { return dialect.Lookup(name) }

// Names returns the names of all dialects, sorted.
func Names() []string { return dialect.Names() }

// Parse reads a dialect file: JSON, with the fields that differ from "base".
func Parse(data []byte) (Dialect, error) { return dialect.Parse(data) }

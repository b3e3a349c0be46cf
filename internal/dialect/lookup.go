// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"fmt"
	"slices"
	"strings"
)

// Presets returns every preset, sorted by name, as copies.
func Presets() []Dialect {
	all := []Dialect{
		Jedis(), JedisUUID(), JedisAQS(), Template(), Page(), RedisPy(), TaskTiger(), RedisObjects(),
		RedisMutex(), ResqueTimeout(), Errorception(), Faye(), ServiceStack(), Kdyby(), Machinery(),
		Gorlock(), PageNil(), PageGet(), Bare(), BareExpire(), SetDel(), SetGetDel(), SetPexpire(),
	}
	slices.SortFunc(all, func(a, b Dialect) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Names returns the names of the presets, sorted.
func Names() []string {
	var names []string
	for _, d := range Presets() {
		names = append(names, d.Name)
	}
	return names
}

// Lookup finds a preset by name, ignoring case, hyphens and underscores:
// "jedis-uuid" is JedisUUID. The error for an unknown name lists the most
// similar names, or all.
func Lookup(name string) (Dialect, error) {
	want := Fold(name)
	for _, d := range Presets() {
		if Fold(d.Name) == want {
			return d, nil
		}
	}
	if near := nearest(want); len(near) > 0 {
		return Dialect{}, fmt.Errorf("no dialect is called %q; near: %s", name, strings.Join(near, ", "))
	}
	return Dialect{}, fmt.Errorf("no dialect is called %q; there are: %s", name, strings.Join(Names(), ", "))
}

// Fold returns a dialect's name for comparison: in lower case, without hyphens
// and underscores.
func Fold(name string) string { return joiners.Replace(strings.ToLower(name)) }

var joiners = strings.NewReplacer("-", "", "_", "")

// nearest returns the names that contain want or are contained in it, and those
// at most two typing errors away. With more errors allowed, every short name
// would be near to every other.
func nearest(want string) []string {
	var near []string
	for _, name := range Names() {
		have := Fold(name)
		within := len(want) >= 3 && (strings.Contains(have, want) || strings.Contains(want, have))
		if within || TypingErrors(have, want) <= 2 {
			near = append(near, name)
		}
	}
	return near
}

// TypingErrors is how many letters of b someone has to insert, leave out,
// replace, or swap with their neighbour to write a.
func TypingErrors(a, b string) int {
	from, to := []rune(a), []rune(b)
	// d[i][j] is the distance of the first i letters of a and j of b.
	d := make([][]int, len(from)+1)
	for i := range d {
		d[i] = make([]int, len(to)+1)
		d[i][0] = i
	}
	for j := range d[0] {
		d[0][j] = j
	}
	for i := 1; i <= len(from); i++ {
		for j := 1; j <= len(to); j++ {
			d[i][j] = min(d[i-1][j], d[i][j-1]) + 1
			replaced := d[i-1][j-1]
			if from[i-1] != to[j-1] {
				replaced++
			}
			d[i][j] = min(d[i][j], replaced)
			if i > 1 && j > 1 && from[i-1] == to[j-2] && from[i-2] == to[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(from)][len(to)]
}

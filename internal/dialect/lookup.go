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
	want := fold(name)
	for _, d := range Presets() {
		if fold(d.Name) == want {
			return d, nil
		}
	}
	if near := nearest(want); len(near) > 0 {
		return Dialect{}, fmt.Errorf("no dialect is called %q; near: %s", name, strings.Join(near, ", "))
	}
	return Dialect{}, fmt.Errorf("no dialect is called %q; there are: %s", name, strings.Join(Names(), ", "))
}

func fold(name string) string {
	return strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(name))
}

// nearest returns the names that contain want or are contained in it, and those
// at most two typing errors away. With more errors allowed, every short name
// would be near to every other.
func nearest(want string) []string {
	var near []string
	for _, name := range Names() {
		have := fold(name)
		within := len(want) >= 3 && (strings.Contains(have, want) || strings.Contains(want, have))
		if within || typingErrors(have, want) <= 2 {
			near = append(near, name)
		}
	}
	return near
}

// typingErrors returns the number of insertions, deletions and replacements
// between a and b.
func typingErrors(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

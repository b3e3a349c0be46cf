// SPDX-License-Identifier: Apache-2.0

package zookeeper

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// LeastTTL is the shortest TTL. A server whose tickTime is the usual two
// seconds asks for four.
const LeastTTL = time.Second

// longestTTL is the longest timeout that fits the wire, in milliseconds.
const longestTTL = (1<<31 - 1) * time.Millisecond

// sequenceDigits is how many digits a server appends to a sequential node, the
// sign of a number below zero included.
const sequenceDigits = 10

// sequence returns the number at the end of a child's name. Whatever stands
// before it, such a child contends: go-zookeeper, Curator, kazoo and others put
// different words there. The server counts in 32 bits. A number below zero has
// a sign, behind the dash or the underscore of the name, and may have nine
// digits.
func sequence(child string) (number int32, contends bool) {
	at := len(child) - sequenceDigits
	if at < 0 || strings.Trim(child[at+1:], "0123456789") != "" {
		return 0, false
	}
	wide, err := strconv.ParseInt(child[at:], 10, 32)
	before := child[:at]
	switch {
	case child[at] == '-': // else nine digits that a client wrote, and a dash of the name
		return int32(wide), strings.HasSuffix(before, "-") || strings.HasSuffix(before, "_")
	case strings.HasSuffix(before, "--"), err != nil && strings.HasSuffix(before, "-"):
		wide, err = strconv.ParseInt(child[at-1:], 10, 32)
	}
	return int32(wide), err == nil
}

// usedUp reports whether a node's number may be another node's too. Of more
// than 2³¹ nodes below one parent, the server gives them all the greatest
// number, or one below zero while several are created at once.
func usedUp(number int32) bool { return number < 0 || number == math.MaxInt32 }

// isKazoos tells whether a contender is of kazoo's Lock, ReadLock or WriteLock.
func isKazoos(child string) bool {
	return strings.Contains(child, "__lock__") || strings.Contains(child, "__rlock__")
}

// contender is a child of a lock that waits for it or holds it.
type contender struct {
	name   string
	number int32
}

// contenders returns the children that contend, the holder first, and the names
// of the others. Numbers below zero come after all others.
func contenders(children []string) (queue []contender, others []string) {
	for _, child := range children {
		if number, contends := sequence(child); contends {
			queue = append(queue, contender{child, number})
		} else {
			others = append(others, child)
		}
	}
	slices.SortFunc(queue, func(a, b contender) int {
		return cmp.Or(cmp.Compare(uint32(a.number), uint32(b.number)), strings.Compare(a.name, b.name))
	})
	return queue, others
}

// valid refuses names and TTLs that make no lock.
func valid(name string, ttl time.Duration) error {
	if name == "" {
		return errors.New("zookeeper: the name is empty")
	}
	if why := refused("/" + name); why != "" {
		return fmt.Errorf("zookeeper: the name %q %s", name, why)
	}
	parts := strings.Split(name, "/")
	for _, part := range parts[1:] {
		if _, contends := sequence(part); contends {
			return fmt.Errorf(
				"zookeeper: the name %q has a part that ends in ten digits; it would count as a client that waits for %q: choose another name",
				name, parts[0])
		}
	}
	return fits(ttl)
}

func fits(ttl time.Duration) error {
	switch {
	case ttl < LeastTTL:
		return fmt.Errorf("zookeeper: Config.TTL is %v; a session lasts at least %v", ttl, LeastTTL)
	case ttl > longestTTL:
		return fmt.Errorf("zookeeper: Config.TTL is %v; a session lasts at most %v", ttl, longestTTL)
	}
	return nil
}

// refused says why ZooKeeper has no such path, or nothing.
func refused(path string) string {
	if !utf8.ValidString(path) {
		return "is not UTF-8"
	}
	for part := range strings.SplitSeq(path[1:], "/") {
		switch part {
		case "":
			return "has an empty part: leave out slashes at its ends and doubled ones"
		case ".", "..":
			return "has a part that is a dot or two; ZooKeeper has no relative paths"
		}
	}
	if path == "/zookeeper" || strings.HasPrefix(path, "/zookeeper/") {
		return `begins with "zookeeper", which belongs to the server`
	}
	unfit := func(r rune) bool {
		return unicode.IsControl(r) || r >= 0xf000 && r <= 0xf8ff || r >= 0xfff0 && r <= 0xffff
	}
	if strings.ContainsFunc(path, unfit) {
		return "has a control character, or one that ZooKeeper reserves"
	}
	return ""
}

// notices remembers for which locks a warning was logged.
type notices struct {
	mu   sync.Mutex
	seen map[string]bool
}

// mostNoticed is how many warnings are remembered.
const mostNoticed = 1024

// first reports whether this is the first time that it is called with text. It
// stops reporting when it remembers enough.
func (n *notices) first(text string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.seen[text] || len(n.seen) >= mostNoticed {
		return false
	}
	if n.seen == nil {
		n.seen = map[string]bool{}
	}
	n.seen[text] = true
	return true
}

// notice logs a warning, once a lock, about children that other clients do not
// treat as this package does.
func (b *engine) notice(name string, queue []contender, others []string) {
	if len(others) > 0 && b.noticed.first("ignored "+name) {
		b.cfg.Logger.Warn(
			"children that do not end in a sequence number are ignored; go-zookeeper's own Lock fails because of them: delete them, or move them elsewhere",
			"node", b.path(name), "children", others[:min(len(others), mostNamed)])
	}
	for _, c := range queue {
		if isKazoos(c.name) && b.noticed.first("kazoo "+name) {
			b.cfg.Logger.Warn(
				`a client of kazoo uses this lock; it sees the nodes of other libraries only if its Lock was made with extra_lock_patterns=("-lock-",), and Curator does not see it: either may hold the lock alongside it, so check how it was made, and keep Curator away`,
				"node", b.path(name), "child", c.name)
		}
	}
}

// mostNamed is how many children one warning names.
const mostNamed = 5

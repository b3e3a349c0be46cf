package zookeeper

import (
	"errors"
	"fmt"
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

// sequenceDigits is how many digits a server appends to a sequential node.
const sequenceDigits = 10

// sequence returns the number at the end of a child's name. Whatever stands
// before it, such a child contends: go-zookeeper, Curator, kazoo and others put
// different words there. The server counts in 32 bits; a number below zero has
// a sign of its own behind the dash of the name.
func sequence(child string) (number int32, contends bool) {
	at := len(child) - sequenceDigits
	if at < 0 || strings.Trim(child[at:], "0123456789") != "" {
		return 0, false
	}
	if at > 1 && child[at-2:at] == "--" {
		at--
	}
	wide, err := strconv.ParseInt(child[at:], 10, 32)
	return int32(wide), err == nil
}

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
// of the others. Numbers are compared by their difference, so that the order
// survives an overflow of the server's counter.
func contenders(children []string) (queue []contender, others []string) {
	for _, child := range children {
		if number, contends := sequence(child); contends {
			queue = append(queue, contender{child, number})
		} else {
			others = append(others, child)
		}
	}
	slices.SortFunc(queue, func(a, b contender) int {
		if a.number == b.number {
			return strings.Compare(a.name, b.name)
		}
		return int(a.number - b.number)
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

// SPDX-License-Identifier: Apache-2.0

package zookeeper

import (
	"fmt"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/lock/backend"
)

func at(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// sentAt is a write that was sent at a time and took a tenth of a second.
func sentAt(seconds float64) write {
	return write{sent: backend.Instant{Elapsed: at(seconds)}, done: at(seconds + 0.1)}
}

// Trust counts from the write before the last one. The first is the request
// that created the session.
func TestTrustCountsFromTheWriteBeforeTheLast(t *testing.T) {
	const timeout = 30 * time.Second
	known := begin(sentAt(0))
	for _, c := range []struct{ sent, mark float64 }{{10, 0}, {20, 10}, {30, 20}, {45, 30}} {
		known = known.committed(sentAt(c.sent), timeout)
		if known.mark.Elapsed != at(c.mark) {
			t.Errorf("after the write at %v s trust counts from %v, not %v s", c.sent, known.mark.Elapsed,
				c.mark)
		}
	}
}

// A write proves nothing of the one before it if the follower has not passed
// the touch on between them.
func TestTrustIgnoresAWriteThatFollowsTooSoon(t *testing.T) {
	const timeout = 30 * time.Second
	known := begin(sentAt(0)).committed(sentAt(10), timeout)
	for _, sent := range []float64{10.2, 14, 19} {
		if got := known.committed(sentAt(sent), timeout); got != known {
			t.Errorf("the write at %v s counts: %+v", sent, got)
		}
	}
	slow := write{sent: backend.Instant{Elapsed: at(10)}, done: at(15)}
	known = begin(sentAt(0)).committed(slow, timeout)
	if got := known.committed(sentAt(20), timeout); got != known {
		t.Errorf("a write 5 s after the reply to the one before counts: %+v", got)
	}
	if due := known.due(timeout); due != at(24) {
		t.Errorf("the next write is due at %v, not 9 s after the reply", due)
	}
}

func TestSequenceReadsTenDigitsAtTheEnd(t *testing.T) {
	for _, c := range []struct {
		child    string
		number   int32
		contends bool
	}{
		{"_c_0123-lock-0000000007", 7, true},
		{"lock-0000000007", 7, true},
		{"0000000007", 7, true},
		{"f00__lock__0000000012", 12, true},
		{"_c_0123-lock--2147483648", -2147483648, true},
		{"_c_0123-lock--1000000000", -1000000000, true},
		{"_c_0123-lock--999999999", -999999999, true},
		{"_c_0123-lock--000000007", -7, true},
		{"f00__lock__-000000007", -7, true},
		{"f00__lock__-2147483648", -2147483648, true},
		{"job-000000007", 0, false},
		{"-000000007", 0, false},
		{"000000007-0", 0, false},
		{"thief-0000000001", 1, true},
		{"lock-000000001", 0, false},
		{"leases", 0, false},
		{"", 0, false},
		{"lock-9999999999", 0, false}, // more than the server counts
	} {
		number, contends := sequence(c.child)
		if contends != c.contends || contends && number != c.number {
			t.Errorf("%q: %d, %t", c.child, number, contends)
		}
	}
}

// The server's counter overflows after 2³¹ nodes below one parent.
func TestContendersKeepOrderAfterAnOverflow(t *testing.T) {
	queue, others := contenders([]string{"d-lock--000000001", "a-lock--2147483648", "b-lock-2147483647",
		"locks", "c-lock--2147483647", "e-lock-0000000000"})
	if got := fmt.Sprint(queue); got != "[{e-lock-0000000000 0} {b-lock-2147483647 2147483647} "+
		"{a-lock--2147483648 -2147483648} {c-lock--2147483647 -2147483647} {d-lock--000000001 -1}]" {
		t.Errorf("queue: %v", queue)
	}
	if len(others) != 1 || others[0] != "locks" {
		t.Errorf("others: %q", others)
	}
}

func TestValidRefusesNamesThatMakeNoLock(t *testing.T) {
	for name, good := range map[string]bool{
		"nightly": true, "shop/stock": true, "Übung": true, "locktest:x": true, "job-0000000001": true,
		"": false, "/a": false, "a/": false, "a//b": false, "a/../b": false, ".": false, "a\x00": false,
		"\xff": false, "shop/job-0000000001": false,
	} {
		if err := valid(name, time.Minute); (err == nil) != good {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestNewRefusesConfigsThatCannotWork(t *testing.T) {
	for _, cfg := range []Config{{Chroot: "locks"}, {Chroot: "/a//b"}, {Chroot: "/zookeeper"}, {Timeout: -1},
		{Password: "secret"}, {User: "a:b"}} {
		if _, err := New([]string{"127.0.0.1:2181"}, cfg); err == nil {
			t.Errorf("%+v was accepted", cfg)
		}
	}
	for _, servers := range [][]string{nil, {"a:b:c"}} {
		if _, err := New(servers, Config{}); err == nil {
			t.Errorf("%q was accepted", servers)
		}
	}
}

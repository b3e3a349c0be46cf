// SPDX-License-Identifier: Apache-2.0

package zookeeper

import (
	"strings"
	"testing"
	"time"
)

func TestReadRoleReadsWhatServersSay(t *testing.T) {
	const refused = "conf is not executed because it is not in the whitelist.\n"
	for _, c := range []struct {
		conf, srvr string
		want       role
	}{
		{"clientPort=2181\ntickTime=2000\nminSessionTimeout=4000\n", "", role{tick: 2 * time.Second}},
		{"tickTime=500\npeerType=0\n", "", role{tick: time.Second / 2}},
		{"tickTime=500\npeerType=1\n", "", role{tick: time.Second / 2, observer: true}},
		{refused, "Zookeeper version: 3.9.3\nMode: observer\nNode count: 5\n", role{observer: true}},
		{refused, "Zookeeper version: 3.9.3\nMode: follower\nNode count: 5\n", role{}},
		{refused, refused, role{}},
		{"", "", role{}},
	} {
		if got := readRole(c.conf, c.srvr); got != c.want {
			t.Errorf("%q, %q: %+v, not %+v", c.conf, c.srvr, got, c.want)
		}
	}
}

// Trust counts from the write before the last one. That is right where a
// session lasts two ticks, and four behind observers.
func TestRefuseWantsTwoTicksAndFourAtAnObserver(t *testing.T) {
	for _, c := range []struct {
		role    role
		timeout time.Duration
		warning string
		refusal string
	}{
		{role{tick: 2 * time.Second}, 3999 * time.Millisecond, "", "set Config.TTL to 4s"},
		{role{tick: 2 * time.Second}, 4 * time.Second, "", ""},
		{role{}, time.Second, "", ""},
		{role{tick: 2 * time.Second, observer: true}, 3 * time.Second, "", "set Config.TTL to 4s"},
		{role{tick: 2 * time.Second, observer: true}, 7 * time.Second, "set Config.TTL to 8s", ""},
		{role{tick: 2 * time.Second, observer: true}, 8 * time.Second, "", ""},
		{role{observer: true}, 11 * time.Second, "four ticks", ""},
		{role{observer: true}, 12 * time.Second, "", ""},
	} {
		warning, err := c.role.refuse(c.timeout)
		if (warning == "") != (c.warning == "") || !strings.Contains(warning, c.warning) {
			t.Errorf("%+v, %v: the warning is %q", c.role, c.timeout, warning)
		}
		if (err == nil) != (c.refusal == "") || err != nil && !strings.Contains(err.Error(), c.refusal) {
			t.Errorf("%+v, %v: the error is %v", c.role, c.timeout, err)
		}
	}
}

func TestNoticesAreFirstOnce(t *testing.T) {
	var n notices
	if !n.first("a") || n.first("a") || !n.first("b") {
		t.Error("a notice is not first exactly once")
	}
	for i := range 2 * mostNoticed {
		n.first(strings.Repeat("x", i))
	}
	if len(n.seen) > mostNoticed {
		t.Errorf("%d notices are remembered", len(n.seen))
	}
}

func TestSessionsSpreadOverTheServers(t *testing.T) {
	h := &hosts{}
	if err := h.set([]string{"a:1", "b:1", "c:1"}); err != nil {
		t.Fatal(err)
	}
	first := map[string]bool{}
	for range 100 {
		server, _ := h.turns(func() {}).Next()
		first[server] = true
	}
	if len(first) != 3 {
		t.Errorf("the first server of 100 sessions was one of %v", first)
	}
}

// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Envoy's microseconds count from 1970.
func TestClockRefusesAProxysClock(t *testing.T) {
	pair := func(parts ...string) []any {
		var reply []any
		for _, p := range parts {
			reply = append(reply, []byte(p))
		}
		return reply
	}
	for _, c := range []struct {
		reply     any
		sec, usec int64
		ok        bool
	}{
		{pair("1764000000", "0"), 1764000000, 0, true},
		{pair("1764000000", "999999"), 1764000000, 999999, true},
		{[]any{int64(1764000000), int64(7)}, 1764000000, 7, true},
		{pair("1764000000", "1000000"), 0, 0, false},
		{pair("1764000000", "1764000000999999"), 0, 0, false},
		{pair("1764000000", "-1"), 0, 0, false},
		{pair("-1", "0"), 0, 0, false},
		{pair("1764000000"), 0, 0, false},
		{pair("1", "2", "3"), 0, 0, false},
		{nil, 0, 0, false},
	} {
		sec, usec, err := Clock(c.reply, nil)
		if sec != c.sec || usec != c.usec || (err == nil) != c.ok {
			t.Errorf("%q: %d, %d, %v", c.reply, sec, usec, err)
		}
		if at, _ := Time(c.reply, nil); c.ok && !at.Equal(time.UnixMicro(c.sec*1e6+c.usec)) {
			t.Errorf("%q: %v", c.reply, at)
		}
		if err != nil && (!strings.Contains(Explain(err), "proxy") || (&NotSentError{err}).Passing()) {
			t.Errorf("%v: %s", err, Explain(err))
		}
	}
	refusal := redis.Error("NOPERM no TIME")
	if _, _, err := Clock(nil, refusal); !errors.Is(err, refusal) {
		t.Error(err)
	}
	if _, _, err := Clock(pair("soon", "1"), nil); err == nil {
		t.Error("a reply of words was accepted")
	}
}

func TestInfoHasItsFieldsByName(t *testing.T) {
	info, err := Info([]byte("# Cluster\r\ncluster_size:3\r\nrun_id:a:b\n"), nil)
	if err != nil || len(info) != 2 || info["cluster_size"] != "3" || info["run_id"] != "a:b" {
		t.Errorf("%v, %v", info, err)
	}
	refusal := redis.Error("NOPERM no INFO")
	if info, err := Info(nil, refusal); !errors.Is(err, refusal) || info["run_id"] != "" {
		t.Errorf("%v, %v", info, err)
	}
}

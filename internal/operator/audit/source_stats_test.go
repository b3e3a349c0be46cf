// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"strings"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/operator/census"
)

func TestReplicaOrAnotherServerIsAHole(t *testing.T) {
	last := lastStats{}
	for i, c := range []struct {
		ms           int
		server, role string
		want         census.HoleReason
	}{
		{0, "a", "", ""}, {1000, "a", "master", ""}, {7000, "a", "master", ""},
		{8000, "b", "master", census.HoleReset}, {9000, "b", "master", ""},
		{10_000, "b", "slave", census.HoleReset}, {11_000, "b", "slave", census.HoleReset},
		{12_000, "b", "master", ""},
	} {
		got := last.hole(at(c.ms), c.server, c.role)
		if len(got) > 0 != (c.want != "") || len(got) > 0 &&
			(!strings.HasPrefix(got[0].Reason, "monitor "+string(c.want)) || got[0].For != time.Second ||
				!got[0].At.Add(got[0].For).Equal(at(c.ms))) {
			t.Errorf("reading %d: %v, want %q", i, got, c.want)
		}
	}
}

func TestStatsAndClientListAreParsed(t *testing.T) {
	text := "# Commandstats\r\ncmdstat_setnx:calls=12,usec=30,usec_per_call=2.50,rejected_calls=1,failed_calls=0\r\ncmdstat_get:calls=5,usec=1,usec_per_call=0.2\r\n"
	if n, refused, used := callsIn(text, "setnx"); n != 12 || refused != 1 || used != 30*time.Microsecond {
		t.Errorf("%d calls, %v", n, used)
	}
	if n, _, _ := callsIn(text, "getset"); n != 0 {
		t.Errorf("%d calls of a command that is not listed", n)
	}
	o, ok := clientIn("id=7 addr=10.0.0.7:5 laddr=10.0.0.1:6379 fd=8 name=stock-7 age=3 user=app lib-name=jedis lib-ver=5.1.0 cmd=get")
	if !ok || o.Addr != "10.0.0.7:5" || o.Name != "stock-7" || o.Library != "jedis 5.1.0" || o.User != "app" {
		t.Errorf("%+v", o)
	}
	if _, ok := clientIn(""); ok {
		t.Error("an empty row is a client")
	}
}

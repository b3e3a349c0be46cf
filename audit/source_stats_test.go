package audit

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/audit/census"
)

func TestLateOrForeignStatsAreAHole(t *testing.T) {
	last := lastStats{}
	for i, c := range []struct {
		ms           int
		server, role string
		want         census.HoleReason
		sources      int
	}{
		{0, "a", "", "", 0}, {1000, "a", "master", "", 0}, {3900, "a", "master", "", 0},
		{7000, "a", "master", census.HoleAbsent, 1},
		{8000, "b", "master", census.HoleReset, 2}, {9000, "b", "master", "", 0},
		{10_000, "b", "slave", census.HoleReset, 2}, {11_000, "b", "slave", census.HoleReset, 2},
		{12_000, "b", "master", "", 0},
	} {
		got := last.hole(at(c.ms), time.Duration(c.ms)*time.Millisecond, c.server, c.role)
		if len(got) != c.sources || len(got) > 0 &&
			got[0].Reason[:len("stats ")+len(c.want)] != "stats "+string(c.want) {
			t.Errorf("reading %d: %v, want %q", i, got, c.want)
		}
		if len(got) == 2 && (got[1].Reason[:len("monitor ")] != "monitor " || got[1].For != time.Second ||
			!got[1].At.Add(got[1].For).Equal(at(c.ms))) {
			t.Errorf("reading %d of MONITOR: %v", i, got[1])
		}
	}
}

func TestStatsAndClientListAreParsed(t *testing.T) {
	text := "# Commandstats\r\ncmdstat_setnx:calls=12,usec=30,usec_per_call=2.50,rejected_calls=1,failed_calls=0\r\ncmdstat_get:calls=5,usec=1,usec_per_call=0.2\r\n"
	if n, used := callsIn(text, "setnx"); n != 13 || used != 30*time.Microsecond {
		t.Errorf("%d calls, %v", n, used)
	}
	if n, _ := callsIn(text, "getset"); n != 0 {
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

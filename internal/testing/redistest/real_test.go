// SPDX-License-Identifier: Apache-2.0

//go:build real

package redistest_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

func TestPreparedServersHaveTheFeaturesOfTheirAge(t *testing.T) {
	servers := redistest.Servers(t)
	equal(t, "servers", len(servers), 4)
	oldest, newest := servers[0], servers[len(servers)-1]
	for _, b := range servers {
		t.Logf("%s: %+v", b.Name, b.Features)
		s := b.Start(t, redistest.Options{})
		equal(t, b.Name+" SET", s.Do("SET", "k", "v"), any("OK"))
		if b.Name != oldest.Name {
			equal(t, b.Name+" features", b.TimeThenWrite && b.Tracking && b.ACL && b.ClientID, true)
		}
	}
	equal(t, "oldest", oldest.Features, redistest.Features{})
	equal(t, "newest compares in SET", newest.SetIFEQ, true)
}

func TestRestartIsEmptyUnlessPersisted(t *testing.T) {
	for _, persist := range []bool{false, true} {
		s := redistest.Real(t, redistest.Options{Persist: persist})
		s.Do("SET", "k", "v")
		addr, pid := s.Addr(), s.PID()
		s.Restart()
		equal(t, "address", s.Addr(), addr)
		equal(t, "same process", s.PID() == pid, false)
		kept, _ := redis.Bool(s.Do("EXISTS", "k"), nil)
		equal(t, "kept", kept, persist)
	}
}

func TestKilledServerRefusesAndPausedServerIsSilent(t *testing.T) {
	s := redistest.Real(t, redistest.Options{})
	p := s.Pool()
	c := get(t, p)
	s.Pause()
	_, err := redis.DoWithTimeout(c, 50*time.Millisecond, "PING")
	equal(t, "paused", outcome(nil, err), "timeout")
	s.Continue()
	do(t, p, "PING")
	s.Kill()
	_, err = net.Dial("tcp", s.Addr())
	equal(t, "refused", err != nil, true)
}

func TestRealServerRunsARequestAfterItsClientLeft(t *testing.T) {
	s := redistest.Real(t, redistest.Options{})
	gate := redistest.NewGate()
	p := s.FaultyPool(redistest.Rule{Command: "SET", Do: redistest.HoldRequest(gate)})
	c := p.Get()
	redis.DoWithTimeout(c, time.Millisecond, "SET", "k", "late")
	c.Close()
	<-gate.Reached()
	s.Do("DEL", "k")
	gate.Open()
	equal(t, "value", string(s.Do("GET", "k").([]byte)), "late")
}

func TestInvalidationsPassThroughAWire(t *testing.T) {
	s := redistest.Real(t, redistest.Options{})
	p := s.Wire().Pool()
	listener, reader := get(t, p), get(t, p)
	id, _ := redis.Int64(listener.Do("CLIENT", "ID"))
	listener.Do("SUBSCRIBE", "__redis__:invalidate")
	reader.Do("CLIENT", "TRACKING", "ON", "REDIRECT", id)
	reader.Do("GET", "k")
	s.Do("SET", "k", "v")
	said, err := redis.Values(redis.ReceiveWithTimeout(listener, redistest.Patience))
	if err != nil {
		t.Fatal(err)
	}
	keys, _ := redis.Strings(said[2], nil)
	equal(t, "key", strings.Join(keys, " "), "k")
}

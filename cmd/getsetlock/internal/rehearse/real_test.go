// SPDX-License-Identifier: Apache-2.0

//go:build real

package rehearse

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// A server with tracking, in real time: holders die, and both kinds of client
// go on.
func TestOldAndNewClientsSellRightOnARealServer(t *testing.T) {
	s := redistest.Real(t, redistest.Options{})
	p := DefaultPlan()
	p.Acquisitions, p.Lease, p.Crashes = 400, 2*time.Second, 2
	dial := func(ctx context.Context) (redis.Conn, error) { return redis.DialURLContext(ctx, s.URL()) }
	res, err := OnServer(t.Context(), p, Server{Name: "real", Dial: dial}, quietly)
	if err != nil {
		t.Fatal(err)
	}
	if !res.OK || res.Overlaps != 0 || res.Oversold != 0 {
		t.Errorf("%+v", res)
	}
	old, young := res.group(t, "old"), res.group(t, "new")
	if old.Takeovers == 0 || young.Takeovers == 0 {
		t.Errorf("of 4 dead holders' keys old clients took %d over and new ones %d", old.Takeovers,
			young.Takeovers)
	}
	redistest.NoKeys(t, s.Pool())
}

// The migration waits for three windows without old clients, each of three
// leases or more, and for a client that is shut out to give up. It works for
// seconds.
func TestFleetMigratesOnARealServerByItsWatcher(t *testing.T) {
	s := redistest.Real(t, redistest.Options{})
	p := DefaultPlan()
	p.Move()
	p.ForServer(func(string) bool { return false })
	p.Acquisitions, p.Lease, p.Patience = 390, 2*time.Second, 5*time.Second
	res, err := OnServer(t.Context(), p, Server{Name: "here", Dial: s.Pool().DialContext}, func(Progress) {})
	if err != nil {
		t.Fatal(err)
	}
	if !res.OK || len(res.Phases) != 9 || res.GaveUp != 1 || len(res.Refusals) != 2 {
		t.Errorf("%s", asJSON(t, res))
	}
	redistest.NoKeys(t, s.Pool())
}

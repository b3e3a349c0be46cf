// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/cmd/getsetlock/internal/rehearse/dist"
	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

// listening returns a server outside any bubble, with another program's key on
// it. Its keys expire by the machine's clock. On a bare embedded server they
// would not, and a key left to old clients for a moment would stay left for
// ever.
func listening(t *testing.T) (*miniredis.Miniredis, Server) {
	t.Helper()
	m := redistest.Timely(t)
	m.Set("somebody's", "own")
	address := m.Addr()
	return m, Server{Name: "redis://test", Dial: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", address)
	}}
}

func shortPlan(protocol string) Plan {
	p := DefaultPlan()
	p.Protocol, p.Acquisitions, p.Clients = protocol, 60, 4
	p.Job, p.Crashes, p.Lease = must(dist.Parse("1ms..2ms")), 0, 5*time.Second
	return p
}

func onlySomebodys(t *testing.T, m *miniredis.Miniredis) {
	t.Helper()
	if keys := m.Keys(); !slices.Equal(keys, []string{"somebody's"}) {
		t.Errorf("keys left or deleted: %q", keys)
	}
}

func TestOnServerFindsTheSameAndLeavesNoKey(t *testing.T) {
	for protocol, ok := range map[string]bool{"none": false, "watch": true, "bare": true, "legacy": true} {
		m, s := listening(t)
		p := shortPlan(protocol)
		res, err := OnServer(t.Context(), p, s, func(Progress) {
			for _, key := range m.Keys() {
				if key != "somebody's" && !strings.Contains(key, realPrefix) {
					t.Errorf("wrote %q", key)
				}
			}
		})
		if err != nil {
			t.Fatalf("%s: %v", protocol, err)
		}
		if res.OK != ok || res.Server != s.Name || res.VirtualMS != nil || res.WallMS <= 0 {
			t.Errorf("%s: %+v", protocol, res)
		}
		onlySomebodys(t, m)
	}
}

func TestInterruptedRunOnAServerCleansUp(t *testing.T) {
	m, s := listening(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("a user pressed ^C")
	p := shortPlan("legacy")
	p.Acquisitions = mostAcquisitions
	_, err := OnServer(ctx, p, s, func(at Progress) {
		if at.Done > 0 {
			cancel(why)
		}
	})
	if !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
	onlySomebodys(t, m)
}

func TestServerThatGoesAwayEndsTheRun(t *testing.T) {
	m, s := listening(t)
	p := shortPlan("watch")
	p.Acquisitions = mostAcquisitions
	_, err := OnServer(t.Context(), p, s, func(at Progress) {
		if at.Done > 0 {
			m.Close()
		}
	})
	if err == nil || !strings.Contains(err.Error(), "still there") {
		t.Errorf("%v", err)
	}
}

// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
)

// TTLs follow the server's clock.
func TestServerStepShortensEveryTTL(t *testing.T) {
	s := plainFleet()
	s.Dialect, s.Lease = dialect.SetDel(), 10*sec
	s.Clocks.Server = ServerTroubles{Step: Steps{Kind: StepBy, By: sec, Every: time.Hour, Once: true}}
	m, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	ends := m.ending(int64(s.Lease))
	m.passServer(m.now + int64(time.Hour))
	if left := ends - m.server.time; left != int64(10*sec-time.Hour-sec) {
		t.Errorf("%v left", time.Duration(left))
	}
}

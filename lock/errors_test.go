// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/lock"
)

// A holder that renews keeps the key beyond any lease that can be seen. So no
// text may promise an end.
func TestHeldErrorDescribesTheLeasesEnd(t *testing.T) {
	at := time.Date(2026, 3, 2, 12, 0, 28, 900e6, time.FixedZone("", 8*3600)) // 04:00:28 in UTC
	for want, e := range map[string]lock.HeldError{
		"": {},
		", its lease runs for another 28s and may be renewed": {
			Left: 28 * time.Second},
		", its lease runs until 04:00:28Z (in 28.002s) and may be renewed": {
			Left: 28002400 * time.Microsecond, Until: at},
		", its lease runs until 2026-03-02 04:00:28Z (in 24h0m0s) and may be renewed": {
			Left: 24 * time.Hour, Until: at},
		", its lease ends at 04:00:28Z (in 28s) and is not renewed": {
			Left: 28 * time.Second, Until: at, Final: true},
		", its lease ends in 28s and is not renewed": {
			Left: 28 * time.Second, Final: true},
		", its stamp ends at 2026-03-02 04:00:28Z by its writer's clock": {Stamp: at},
		", its stamp ends at 2026-03-02 04:00:28Z by its writer's clock; if its holder does nothing more, the key can be taken in 29s": {
			Stamp: at, Left: 29 * time.Second, Until: at,
		},
	} {
		e.Key, e.Owner, e.Protocol = "stock:42", "host1", "Jedis"
		if got, whole := e.Error(), `key "stock:42" is held by "host1" (Jedis)`+want; got != whole {
			t.Errorf("%q, want %q", got, whole)
		}
	}
}

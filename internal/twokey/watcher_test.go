// SPDX-License-Identifier: Apache-2.0

package twokey

import (
	"fmt"
	"testing"
	"time"

	"github.com/getsetlock/getsetlock/internal/dialect"
)

func TestWatcherKeepsBoundedNumberOfKeys(t *testing.T) {
	e := newEngine(&Server{})
	e.period.Store(int64(time.Hour))
	look := func(key string, at time.Duration) time.Duration {
		o := Observation{Observation: dialect.Observation{
			Key: key, Exists: true, Value: "v", Sent: at, Received: at}}
		e.note(&o)
		return o.Unchanged()
	}
	for i := range watched + 100 {
		look(fmt.Sprint(i), time.Second)
		look("0", time.Second) // looked at all the time
	}
	if n := e.watch.recent.Len(); n != watched || len(e.watch.byKey) != watched {
		t.Errorf("%d and %d kept", n, len(e.watch.byKey))
	}
	for key, want := range map[string]time.Duration{
		"0": time.Minute, "1": 0, fmt.Sprint(watched + 99): time.Minute} {
		if got := look(key, time.Second+time.Minute); got != want {
			t.Errorf("key %s was followed for %v, want %v", key, got, want)
		}
	}
	e.watch.forget("0")
	if got := look("0", 2*time.Minute); got != 0 {
		t.Errorf("a forgotten key was followed for %v", got)
	}
}

// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

func TestSchedulerStaysArmedAfterAQuickRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(Machine)
		s := newScheduler(&k, slog.Default(), nil)
		defer s.close()
		at := k.now().Elapsed + time.Second
		l := &Lease{}
		s.set(l, at)
		s.drop(l)
		s.poke <- struct{}{} // the goroutine wakes now at the latest and finds nothing
		synctest.Wait()
		if armed := armedFor(s); armed != at {
			t.Errorf("it is armed for %v, want %v: the next lease would have to wake it", armed, at)
		}
		time.Sleep(2 * time.Second)
		if armedFor(s) != never {
			t.Error("the scheduler is armed again for the lease that is gone")
		}
	})
}

func armedFor(s *scheduler) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.armed
}

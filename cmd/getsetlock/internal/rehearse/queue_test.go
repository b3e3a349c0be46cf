// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// waiters lets programs wait for orders, by slot. It returns which of them got
// an order, and which were sent away without one.
func waiters(ctx context.Context, q *queue, retired *atomic.Bool, slots ...int) (served,
	sentAway func() []int) {
	got := make(map[int]*task)
	var mine []int
	turn := make(chan struct{}, 1)
	turn <- struct{}{}
	for _, slot := range slots {
		go func() {
			t := q.take(ctx, slot, retired)
			<-turn
			got[slot] = t
			mine = append(mine, slot)
			turn <- struct{}{}
		}()
	}
	which := func(with bool) func() []int {
		return func() []int {
			synctest.Wait()
			var all []int
			for _, slot := range mine {
				if (got[slot] != nil) == with {
					all = append(all, slot)
				}
			}
			slices.Sort(all)
			return all
		}
	}
	return which(true), which(false)
}

// Programs that began to wait at one instant get orders by slot. A program that
// has waited longer comes first, whatever the scheduler does.
func TestOrdersGoToTheLongestWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		q := newQueue(DefaultPlan())
		q.open = 0
		var stays atomic.Bool
		first, _ := waiters(ctx, q, &stays, 9)
		synctest.Wait()
		time.Sleep(time.Second)
		then, away := waiters(ctx, q, &stays, 5, 3, 7, 1)
		for n, want := range []string{"[9] []", "[9] [1]", "[9] [1 3]"} {
			synctest.Wait()
			q.let(1)
			if got := fmt.Sprint(first(), then()); got != want {
				t.Errorf("after %d orders programs %s have one, want %s", n+1, got, want)
			}
		}
		cancel()
		if got := fmt.Sprint(then(), away()); got != "[1 3] [5 7]" {
			t.Errorf("at the end %s", got)
		}
	})
}

func TestProgramAskedToEndWaitsForNoOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		q := newQueue(DefaultPlan())
		q.open = 0
		var stays, ends atomic.Bool
		_, away := waiters(ctx, q, &ends, 0)
		served, _ := waiters(ctx, q, &stays, 1)
		synctest.Wait()
		ends.Store(true)
		q.let(0)
		q.let(1)
		if got := fmt.Sprint(away(), served()); got != "[0] [1]" {
			t.Errorf("sent away, and served: %s", got)
		}
	})
}

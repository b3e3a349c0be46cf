// SPDX-License-Identifier: Apache-2.0

package rehearse

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/getsetlock/getsetlock/internal/testing/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// bubbled lets Embedded use bubbles of the test, which ends after them.
func bubbled(t *testing.T) {
	t.Helper()
	var all sync.WaitGroup
	was := inBubble
	inBubble = func(job func(*testing.T)) { all.Go(func() { synctest.Test(t, job) }) }
	t.Cleanup(func() { all.Wait(); inBubble = was })
}

func quietly(Progress) {}

func watchPlan(acquisitions int) Plan {
	p := DefaultPlan()
	p.Protocol, p.Acquisitions = "watch", acquisitions
	return p
}

func TestEmbeddedReportsProgress(t *testing.T) {
	bubbled(t)
	var all []Progress
	p := watchPlan(3000)
	res, err := Embedded(t.Context(), p, func(at Progress) { all = append(all, at) })
	if err != nil || !res.OK || res.WallMS <= 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	if len(all) == 0 {
		t.Fatal("no progress was reported")
	}
	for i, at := range all {
		if at.Orders != p.Acquisitions || at.Done > at.Orders || i > 0 && at.Done < all[i-1].Done {
			t.Errorf("report %d is %+v", i, at)
		}
	}
}

// This rehearsal would run for many minutes. Only the end of its context can
// end it.
func TestEndOfContextEndsTheRehearsal(t *testing.T) {
	bubbled(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("a user pressed ^C")
	_, err := Embedded(ctx, watchPlan(mostAcquisitions), func(Progress) { cancel(why) })
	if !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
}

func TestEmbeddedRefusesAnUnknownProtocol(t *testing.T) {
	p := watchPlan(1)
	p.Protocol = "chance"
	if _, err := Embedded(t.Context(), p, quietly); err == nil ||
		!strings.Contains(err.Error(), "--protocol chance") {
		t.Errorf("unknown protocol: %v", err)
	}
}

func TestWatchdogEndsAStuckRehearsal(t *testing.T) {
	bubbled(t)
	defer func(d time.Duration) { stuckAfter = d }(stuckAfter)
	stuckAfter = 50 * time.Millisecond
	inBubble = func(func(*testing.T)) {} // as if it never went on
	if _, err := Embedded(t.Context(), watchPlan(10), quietly); !errors.Is(err, errStuck) {
		t.Errorf("%v", err)
	}
}

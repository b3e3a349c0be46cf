// SPDX-License-Identifier: Apache-2.0

//go:build real

package interop

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// skewed is a JVM whose wall clock runs ahead of this machine's by a known
// time.
type skewed struct {
	*JVM
	ahead time.Duration
}

func sharedJVM(t *testing.T) skewed {
	t.Helper()
	return skewed{JVM: Shared(t)}
}

// startSkewed starts a JVM and checks that its clock is ahead by that time.
func startSkewed(t *testing.T, ctx context.Context, ahead time.Duration) skewed {
	t.Helper()
	o := Options{}
	if ahead != 0 {
		o = Pinned(time.Now())
		o.Prefix = []string{"faketime", "--exclude-monotonic", "-f", fmt.Sprintf("%+d", ahead/time.Second)}
	}
	j := skewed{must[*JVM](t)(Start(ctx, o)), ahead}
	t.Cleanup(func() { check(t, j.Close()) })
	earliest := time.Now().Add(ahead).UnixMilli()
	got := must[int64](t)(j.Clock(ctx))
	if latest := time.Now().Add(ahead).UnixMilli(); got < earliest || got > latest {
		t.Fatalf("the JVM's clock says %d, but %v ahead of this machine's is from %d to %d", got, ahead,
			earliest, latest)
	}
	return j
}

// instant converts an instant of the JVM's clock to this machine's clock, in
// µs.
func (j skewed) instant(micros int64) int64 { return micros - j.ahead.Microseconds() }

func (j skewed) spans(all ...Span) []Span {
	for i, s := range all {
		all[i] = Span{Asked: j.instant(s.Asked), Held: j.instant(s.Held), Released: j.instant(s.Released)}
	}
	return all
}

func (j skewed) refusals(all []Refusal) []Refusal {
	for i, r := range all {
		all[i] = Refusal{j.instant(r.Asked), j.instant(r.GaveUp)}
	}
	return all
}

// SPDX-License-Identifier: Apache-2.0

package twokey

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/getsetlock/getsetlock/internal/look"
	"github.com/getsetlock/getsetlock/internal/wire"
)

// judge completes a look that found the key taken. If the stamp has passed and
// only the age of a look is missing, judge asks the server for the look that it
// remembers. If there is none, the server remembers this one.
func (e *Engine) judge(ctx context.Context, k Keys, o Observation, ttl time.Duration) Observation {
	if !e.wantsLook(o) {
		return o
	}
	asker := look.Looker{Server: e.Mux, Machine: e.Clock.Boot}
	// Two machines share no clock but TIME, whose steps this process has seen.
	slack := o.Gained + max(e.Settings.Terms.DefaultMargin(ttl), time.Duration(e.margin.Load()))
	age, _, err := asker.Age(ctx, k.ArgL, k.argLook, o.Value, slack)
	if err != nil {
		o.Unremembered = e.lookTrouble(k, err)
		e.Count.Unremembered.Add(1)
		return o
	}
	o.Looked = age
	return o
}

// lookTrouble adds to the server's refusal what a remembered look needs.
func (e *Engine) lookTrouble(k Keys, err error) error {
	if errors.Is(err, look.ErrNoRun) {
		return fmt.Errorf("%w; set Behind (how far old clients' clocks are behind the server's), or wait for the key in one process", err)
	}
	if wire.IsNoPerm(err) || refusesRight(err) {
		return fmt.Errorf("the user needs rights on the key %q and to HMGET, HMSET, PEXPIRE and INFO: %w",
			k.argLook, err)
	}
	return e.Trouble(k, "remember a look at", err)
}

// wantsLook reports whether an older look would allow a takeover.
func (e *Engine) wantsLook(o Observation) bool {
	if !uses[byTerms](e.Settings.Takeover) || e.mayTakeOver(o) {
		return false
	}
	o.Looked = math.MaxInt64
	return e.mayTakeOver(o)
}

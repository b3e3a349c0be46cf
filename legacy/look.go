package legacy

import (
	"context"
	"math"
	"time"

	"github.com/getsetlock/getsetlock/internal/look"
	"github.com/getsetlock/getsetlock/internal/wire"
)

// judge completes a look that found the key taken. If the stamp has passed and
// only the age of a look is missing, it asks the server for the remembered look,
// which this one becomes if there is none.
func (h *hardened) judge(ctx context.Context, mux *wire.Mux, k keys, o Observation, ttl time.Duration) Observation {
	if !h.wantsLook(o) {
		return o
	}
	asker := look.Looker{Server: mux, Machine: h.clock.boot}
	age, _, err := asker.Age(ctx, k.argL, k.argLook, o.Value, max(h.cfg.Terms.DefaultMargin(ttl), time.Duration(h.margin.Load())))
	if err != nil {
		o.Unremembered = trouble(k, "remember a look at", err)
		h.count.unremembered.Add(1)
		return o
	}
	o.Looked = age
	return o
}

// wantsLook reports that an older look would allow a takeover.
func (h *hardened) wantsLook(o Observation) bool {
	if !uses[byTerms](h.cfg.Takeover) || h.mayTakeOver(o) {
		return false
	}
	o.Looked = math.MaxInt64
	return h.mayTakeOver(o)
}

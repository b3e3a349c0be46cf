// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/getsetlock/getsetlock/lock/backend"
)

// ExtendAll renews grants by few messages to either side, the target first. A
// lease is lost when either side is. The other one is not renewed then, and
// stays until the job has stopped.
func (c *composedEngine) ExtendAll(ctx context.Context, granted []backend.Grant, ttl time.Duration,
) ([]backend.Term, []error) {
	r := renewing{terms: make([]backend.Term, len(granted)), errs: make([]error, len(granted))}
	grants := make([]*composedGrant, len(granted))
	var members keeping
	for i := range granted {
		g, ok := granted[i].(*composedGrant)
		if !ok {
			r.errs[i] = fmt.Errorf("migrate: a grant of another backend (%T)", granted[i])
			continue
		}
		if r.errs[i] = members.keeps(ctx, g, ttl); r.errs[i] == nil {
			g.account.Sending(ttl)
			grants[i] = g
		}
	}
	r.side(ctx, c.target, grants, ttl, func(g *composedGrant) backend.Grant { return g.there },
		func(_, there backend.Term) backend.Term { return there })
	r.side(ctx, c.bridge, grants, ttl, func(g *composedGrant) backend.Grant { return g.here }, earlier)
	for i, g := range grants {
		if g != nil && errors.Is(r.errs[i], backend.ErrLost) {
			g.account.Orphan()
		}
	}
	return r.terms, r.errs
}

// renewing is one call of ExtendAll: what each grant has got so far.
type renewing struct {
	terms []backend.Term
	errs  []error
}

// side renews one side of the grants that have no error yet and have that side.
// with joins its term with the one before.
func (r *renewing) side(ctx context.Context, b backend.Backend, grants []*composedGrant, ttl time.Duration,
	of func(*composedGrant) backend.Grant, with func(before, term backend.Term) backend.Term) {
	var some []backend.Grant
	var at []int
	for i, g := range grants {
		if g != nil && r.errs[i] == nil && of(g) != nil {
			some, at = append(some, of(g)), append(at, i)
		}
	}
	if len(some) == 0 {
		return
	}
	terms, errs := extendAll(ctx, b, some, ttl)
	for n, i := range at {
		if r.errs[i] = errs[n]; errs[n] != nil {
			r.terms[i] = backend.Term{}
			continue
		}
		r.terms[i] = with(r.terms[i], terms[n])
	}
}

// extendTogether is how many grants of a backend without batches are renewed at
// the same time.
const extendTogether = 64

// extendAll renews grants by b, in one call if it can.
func extendAll(ctx context.Context, b backend.Backend, grants []backend.Grant, ttl time.Duration,
) ([]backend.Term, []error) {
	if batch, ok := b.(backend.BatchExtender); ok {
		return batch.ExtendAll(ctx, grants, ttl)
	}
	terms, errs := make([]backend.Term, len(grants)), make([]error, len(grants))
	var wg sync.WaitGroup
	for first := range min(extendTogether, len(grants)) {
		wg.Go(func() {
			for i := first; i < len(grants); i += extendTogether {
				terms[i], errs[i] = grants[i].Extend(ctx, ttl)
			}
		})
	}
	wg.Wait()
	return terms, errs
}

package sim

import (
	"context"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/lock/backend"
	"github.com/getsetlock/getsetlock/migrate"
	"github.com/getsetlock/getsetlock/modern"
)

// theTarget is the server that composed bridges take their locks on too.
const theTarget = 1

// composed reports whether the plan's bridges are composed with a target.
func (p *Plan) composed() bool { return p.Old != nil && p.Old.Target != "" }

// watched returns the key on which the lease's token stands.
func (p *Plan) watched(key string) string {
	if p.composed() {
		return key
	}
	return p.Form.watched(key)
}

// names returns the target that a process's member names.
func (o *Old) names(proc int) string {
	if o.Apart && proc == 0 {
		return "u"
	}
	return o.Target
}

// composes composes a bridge with the target.
func (p *process) composes(b *migrate.Bridge, c Proc, wake backend.Wake) (backend.Store, error) {
	pool := p.pool()
	dial := pool.DialContext
	pool.DialContext = func(ctx context.Context) (redis.Conn, error) {
		return dial(context.WithValue(ctx, nodeKey{}, theTarget))
	}
	target, err := modern.New(pool, modern.Config{Fence: p.w.plan.Old.Fence, Fair: p.w.plan.Seed%2 == 0,
		Wake: wake, Timeout: c.Timeout})
	if err != nil {
		return nil, err
	}
	return migrate.Compose(b, target)
}

// phaseOf returns the phase by which a lease was just taken. A composed one has
// a second token on M, but in clean. w.mu is held.
func (w *world) phaseOf(l *held) migrate.Phase {
	if !w.plan.composed() {
		return w.grants[word(l.token)].phase
	}
	w.redis.ServerNow()
	if m := w.read(l.key).m; w.grants[word(m)].proc == l.p.id && m != "" && word(m) != "left" {
		return w.grants[word(m)].phase
	}
	return migrate.Clean
}

// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/getsetlock/getsetlock/internal/record"
)

// since is what still counts of a sighting: facts younger than anew, the
// instant from which the evidence begins anew, and younger than sightingTTL. A
// fact without a date does not lapse.
func (s Sighting) since(anew, now time.Time) Sighting {
	from := now.Add(-sightingTTL)
	if anew.After(from) {
		from = anew
	}
	for _, f := range []*Fact{&s.Lease, &s.LeaseLooks, &s.Greatest, &s.Proved, &s.Gap, &s.Job, &s.Pause,
		&s.BehindProved, &s.AheadProved, &s.LeastLead, &s.MostLead, &s.Leads} {
		if f.Known() && !f.At.IsZero() && f.At.Before(from) {
			*f = Fact{}
		}
	}
	if s.Until.IsZero() || anew.IsZero() {
		return s
	}
	s.Quiet = min(s.Quiet, max(0, s.QuietUntil.Sub(anew)))
	if s.LastCalled.Before(anew) {
		s.LastCalled = time.Time{}
	}
	return s
}

// ForgetEvidence begins anew with what was seen of the old clients. No gate
// counts what was seen before, and a running watcher begins anew too. What the
// record has of it goes. Claims stay.
func ForgetEvidence(ctx context.Context, pool *redis.Pool, o Options) (*Report, error) {
	d, err := open(pool, o)
	if err != nil {
		return nil, err
	}
	defer d.close()
	for {
		f, err := d.gather(ctx)
		if err != nil {
			return nil, err
		}
		if !f.record.readable() {
			return d.closed(f, f.record.Phase, "", ""), nil
		}
		next := f.record.Record
		next.Evidence, next.SawBehind, next.SawAhead = f.now, 0, 0
		made, err := change(ctx, d.mux, d.opts.Namespace, f.record, next)
		if errors.Is(err, errRaced) {
			continue
		}
		if err != nil {
			return nil, d.refused(err)
		}
		if _, err := d.mux.Do(ctx, "DEL", record.SeenKey(d.opts.Namespace)); err != nil {
			return nil, d.refused(err)
		}
		f.record = made
		r := d.report(f)
		r.note("what was seen of old clients before now no longer counts; the window begins anew")
		return r, nil
	}
}

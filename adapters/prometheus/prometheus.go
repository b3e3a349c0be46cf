// SPDX-License-Identifier: Apache-2.0

// Package prometheus counts and times leases in metrics of Prometheus.
//
//	hooks, err := locks.Hooks(registry, "billing")
//	…
//	client, err := lock.New(backend, lock.Config{Hooks: hooks})
//	…
//	err = locks.Counts(registry, "billing", backend.Stats)
//	err = locks.Oldest(registry, "billing", client)
//
// examples/metrics has alert rules for these metrics, and joins these hooks
// with those of adapters/otel.
package prometheus

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/getsetlock/getsetlock/lock"
)

// Hooks returns hooks that count and time leases in metrics registered
// with r. Keys are no label: there may be millions of them. For each kind of
// job, make a Client (Client.With) and pass its name here as job.
func Hooks(r prometheus.Registerer, job string) (lock.Hooks, error) {
	labels := prometheus.Labels{"job_kind": job}
	held := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "lock_leases", Help: "Leases held now.", ConstLabels: labels,
	})
	waits := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "lock_wait_seconds", Help: "How long acquisitions took that succeeded.", ConstLabels: labels,
		Buckets: prometheus.ExponentialBuckets(0.0001, 4, 10),
	})
	holds := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "lock_held_seconds", Help: "How long leases were held.", ConstLabels: labels,
		Buckets: prometheus.ExponentialBuckets(0.001, 4, 10),
	})
	events := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lock_events_total",
		Help: "What happened: waiting, renewal_failed, endangered, lost, released.", ConstLabels: labels,
	}, []string{"event"})
	var failed []error
	for _, c := range []prometheus.Collector{held, waits, holds, events} {
		failed = append(failed, r.Register(c))
	}
	if err := errors.Join(failed...); err != nil {
		return lock.Hooks{}, err
	}
	count := func(event string) func(lock.Event) {
		c := events.WithLabelValues(event) // looked up once and not at every event
		return func(lock.Event) { c.Inc() }
	}
	ended := func(event string) func(lock.Event) {
		note := count(event)
		return func(e lock.Event) {
			held.Dec()
			holds.Observe(seconds(e.Held))
			note(e)
		}
	}
	return lock.Hooks{
		Waiting: count("waiting"),
		Acquired: func(e lock.Event) {
			held.Inc()
			waits.Observe(seconds(e.Wait))
		},
		RenewFailed: count("renewal_failed"),
		Endangered:  count("endangered"),
		Lost:        ended("lost"),
		Released:    ended("released"),
	}, nil
}

func seconds(d time.Duration) float64 { return d.Seconds() }

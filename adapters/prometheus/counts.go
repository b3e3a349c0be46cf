// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"reflect"
	"strings"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/getsetlock/getsetlock/lock"
)

// Counts registers what a backend counts: stats is the method Stats of a
// legacy.Backend, a modern.Backend or a migrate.Bridge. Each field becomes a
// counter with the label what, such as takeovers.
func Counts[T any](r prometheus.Registerer, job string, stats func() T) error {
	desc := prometheus.NewDesc("lock_backend_total", "What the backend counted, by its field.",
		[]string{"what"}, prometheus.Labels{"job_kind": job})
	return r.Register(counts{desc, func() any { return stats() }})
}

type counts struct {
	desc *prometheus.Desc
	read func() any
}

func (c counts) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

func (c counts) Collect(ch chan<- prometheus.Metric) {
	v := reflect.ValueOf(c.read())
	for i := range v.NumField() {
		var n float64
		switch f := v.Field(i); {
		case f.CanInt():
			n = float64(f.Int())
		case f.CanUint():
			n = float64(f.Uint())
		default:
			continue
		}
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.CounterValue, n, snake(v.Type().Field(i).Name))
	}
}

// snake is a Go name as a label's value: ReplicasMissing is replicas_missing.
func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// Oldest registers when the longest hold of this process began, in seconds of
// Unix time by the Client's clock, and 0 while nothing is held.
func Oldest(r prometheus.Registerer, job string, client *lock.Client) error {
	return r.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "lock_oldest_hold_timestamp_seconds", Help: "Begin of the longest hold, 0 if there is none.",
		ConstLabels: prometheus.Labels{"job_kind": job},
	}, func() float64 {
		began := client.Stats().Oldest
		if began.IsZero() {
			return 0
		}
		return float64(began.UnixMilli()) / 1000
	}))
}

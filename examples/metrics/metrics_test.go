// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/getsetlock/getsetlock/adapters/otel"
	prom "github.com/getsetlock/getsetlock/adapters/prometheus"
	"github.com/getsetlock/getsetlock/examples/metrics"
	"github.com/getsetlock/getsetlock/lock"
	"github.com/getsetlock/getsetlock/modern"
)

func TestReleasedAndLostLeasesAreCountedAndTraced(t *testing.T) {
	server, registry, recorder := miniredis.RunT(t), prometheus.NewRegistry(), tracetest.NewSpanRecorder()
	client := measured(t, server, registry, recorder)
	ctx := context.Background()
	defer client.Close(ctx)

	released, err := client.Acquire(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	if err := released.Renew(ctx); err != nil {
		t.Fatal(err)
	}
	if err := released.Release(); err != nil {
		t.Fatal(err)
	}
	lost, err := client.Acquire(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	server.Del("k")
	if err := lost.Release(); err == nil {
		t.Fatal("the loss was not noticed")
	}
	// A hook may be called a moment after Release returned. Close waits for it.
	if err := client.Close(ctx); err != nil {
		t.Fatal(err)
	}

	want := `
# HELP lock_events_total What happened: waiting, renewal_failed, endangered, lost, released.
# TYPE lock_events_total counter
lock_events_total{event="endangered",job_kind="billing"} 0
lock_events_total{event="lost",job_kind="billing"} 1
lock_events_total{event="released",job_kind="billing"} 1
lock_events_total{event="renewal_failed",job_kind="billing"} 0
lock_events_total{event="waiting",job_kind="billing"} 0
# HELP lock_leases Leases held now.
# TYPE lock_leases gauge
lock_leases{job_kind="billing"} 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "lock_events_total",
		"lock_leases"); err != nil {
		t.Error(err)
	}

	ended := recorder.Ended()
	if len(ended) != 2 {
		t.Fatalf("%d spans", len(ended))
	}
	if s := ended[0]; s.Status().Code != codes.Ok || len(s.Events()) != 1 || s.Events()[0].Name != "renewed" {
		t.Errorf("the released lease: %v, events %v", s.Status(), s.Events())
	}
	if s := ended[1]; s.Status().Code != codes.Error || !strings.Contains(s.Status().Description, "lost") {
		t.Errorf("the lost lease: %v", s.Status())
	}
}

// measured returns a client whose leases the registry counts and the recorder
// traces.
func measured(t *testing.T, server *miniredis.Miniredis, registry *prometheus.Registry,
	recorder *tracetest.SpanRecorder) *lock.Client {
	t.Helper()
	counts, err := prom.Hooks(registry, "billing")
	if err != nil {
		t.Fatal(err)
	}
	traces := otel.Hooks(sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)).Tracer("test"))
	pool := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "tcp", server.Addr())
	}}
	backend, err := modern.New(pool, modern.Config{})
	if err != nil {
		t.Fatal(err)
	}
	client, err := lock.New(backend, lock.Config{TTL: time.Minute, Hooks: metrics.Both(counts, traces)})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// TestBothForgetsNoHook fails if package lock gets a hook that Both does not
// know.
func TestBothForgetsNoHook(t *testing.T) {
	var all lock.Hooks
	fields := reflect.ValueOf(&all).Elem()
	calls := 0
	for i := range fields.NumField() {
		fields.Field(i).Set(reflect.ValueOf(func(lock.Event) { calls++ }))
	}
	v := reflect.ValueOf(metrics.Both(all, all))
	for i := range v.NumField() {
		if v.Field(i).IsNil() {
			t.Errorf("Both drops %s", v.Type().Field(i).Name)
			continue
		}
		v.Field(i).Call([]reflect.Value{reflect.ValueOf(lock.Event{})})
	}
	if calls != 2*v.NumField() {
		t.Errorf("%d calls for %d hooks", calls, v.NumField())
	}
}

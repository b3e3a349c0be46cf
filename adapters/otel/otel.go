// SPDX-License-Identifier: Apache-2.0

// Package otel makes a span of OpenTelemetry of every lease.
//
//	client, err := lock.New(backend, lock.Config{Hooks: locks.Hooks(otel.Tracer("billing"))})
//
// Keys are attributes of spans, so keep secrets out of them. examples/metrics
// joins these hooks with those of adapters/prometheus.
package otel

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/getsetlock/getsetlock/lock"
)

// Hooks returns hooks that make a span of every lease, from its acquisition to
// its end, with the events in between. The wait before it is an attribute.
// Hooks get no context of the caller, so the span has no parent; a link from
// the caller's own span can carry the token.
func Hooks(tracer trace.Tracer) lock.Hooks {
	s := &spans{tracer: tracer, open: map[string][]trace.Span{}}
	return lock.Hooks{
		Acquired:    s.begin,
		Renewed:     func(e lock.Event) { s.event(e, "renewed") },
		RenewFailed: func(e lock.Event) { s.event(e, "renewal failed") },
		Endangered:  func(e lock.Event) { s.event(e, "endangered") },
		Lost:        func(e lock.Event) { s.end(e, codes.Error) },
		Released:    func(e lock.Event) { s.end(e, codes.Ok) },
	}
}

// spans are the open spans of held leases, by key and token, the oldest first.
// A key that is handed over inside the process keeps its token. The hook of its
// next holder may be called before that of its last holder.
type spans struct {
	tracer trace.Tracer

	mu   sync.Mutex
	open map[string][]trace.Span
}

func name(e lock.Event) string { return e.Token + " " + e.Key }

func (s *spans) begin(e lock.Event) {
	_, span := s.tracer.Start(context.Background(), "lease", trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(
			attribute.String("lock.key", e.Key),
			attribute.Float64("lock.wait_seconds", e.Wait.Seconds()),
		))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[name(e)] = append(s.open[name(e)], span)
}

func (s *spans) event(e lock.Event, what string) {
	s.mu.Lock()
	open := s.open[name(e)]
	s.mu.Unlock()
	if len(open) == 0 {
		return
	}
	attributes := []attribute.KeyValue{
		attribute.String("lock.trusted_until", e.Until.UTC().Format(time.RFC3339Nano))}
	if e.Cause != nil {
		attributes = append(attributes, attribute.String("lock.cause", e.Cause.Error()))
	}
	open[len(open)-1].AddEvent(what, trace.WithAttributes(attributes...))
}

// take removes and returns the oldest span of a name.
func (s *spans) take(name string) trace.Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	open := s.open[name]
	switch len(open) {
	case 0:
		return nil
	case 1:
		delete(s.open, name)
	default:
		s.open[name] = open[1:]
	}
	return open[0]
}

func (s *spans) end(e lock.Event, code codes.Code) {
	span := s.take(name(e))
	if span == nil {
		return
	}
	if e.Cause != nil {
		span.RecordError(e.Cause)
	}
	said := ""
	if code == codes.Error && e.Cause != nil {
		said = e.Cause.Error()
	}
	span.SetStatus(code, said)
	span.End()
}

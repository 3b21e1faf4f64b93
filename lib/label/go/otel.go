// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only OR BSD-2-Clause

// Package ascribeotel gives goroutines the labels of the OpenTelemetry span that they are in: trace_id, span_id, and
// chosen entries of the baggage. They are Go's own labels, so runtime/pprof has them, too.
//
//	otel.SetTracerProvider(ascribeotel.Wrap(provider, "tenant"))
//
// A span labels the goroutine that starts it, and those that this one starts meanwhile. End it on the goroutine that
// started it: that one gets the labels of the context outside of the span.
package ascribeotel

import (
	"context"
	"runtime/pprof"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/trace"
)

type provider struct {
	trace.TracerProvider
	keys []string
}

type tracer struct {
	trace.Tracer
	keys []string
}

type span struct {
	trace.Span
	outer context.Context
}

// Wrap returns a provider whose spans have labels. Keys name entries of the baggage.
func Wrap(p trace.TracerProvider, keys ...string) trace.TracerProvider {
	return provider{p, keys}
}

func (p provider) Tracer(name string, options ...trace.TracerOption) trace.Tracer {
	return tracer{p.TracerProvider.Tracer(name, options...), p.keys}
}

func (t tracer) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	inner, started := t.Tracer.Start(ctx, name, options...)
	is := started.SpanContext()
	labels := []string{"trace_id", is.TraceID().String(), "span_id", is.SpanID().String()}
	for _, key := range t.keys {
		if value := baggage.FromContext(ctx).Member(key).Value(); value != "" {
			labels = append(labels, key, value)
		}
	}
	inner = pprof.WithLabels(inner, pprof.Labels(labels...))
	pprof.SetGoroutineLabels(inner)
	wrapped := span{started, ctx}
	return trace.ContextWithSpan(inner, wrapped), wrapped
}

func (s span) End(options ...trace.SpanEndOption) {
	s.Span.End(options...)
	pprof.SetGoroutineLabels(s.outer)
}

// SPDX-License-Identifier: Apache-2.0

// Labels of OpenTelemetry's spans in Go: trace and span id, and the tenant that the baggage has. Prints the trace and
// the CPU seconds of each tenant. traces [SECONDS]
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"

	"ascribeotel"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/baggage"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

type work struct {
	Trace   string  `json:"trace"`
	Span    string  `json:"span"`
	Seconds float64 `json:"seconds"`
}

func cpu() float64 {
	var r syscall.Rusage
	syscall.Getrusage(1 /* RUSAGE_THREAD */, &r)
	return float64(r.Utime.Nano()+r.Stime.Nano()) / 1e9
}

func burn(seconds float64) float64 {
	runtime.LockOSThread() // for the clock, not for the labels
	defer runtime.UnlockOSThread()
	begin := cpu()
	for cpu() < begin+seconds {
	}
	return cpu() - begin
}

func serve(tenant string, seconds float64) (work, float64) {
	member, _ := baggage.NewMember("tenant", tenant)
	bag, _ := baggage.New(member)
	ctx := baggage.ContextWithBaggage(context.Background(), bag)
	ctx, span := otel.Tracer("traces").Start(ctx, "serve")
	is := span.SpanContext()
	w := work{is.TraceID().String(), is.SpanID().String(), burn(seconds / 2)}
	// A span inside has an id of its own, and the same trace and tenant.
	_, inner := otel.Tracer("traces").Start(ctx, "inner")
	w.Seconds += burn(seconds / 2)
	inner.End()
	span.End()
	return w, burn(seconds / 10)
}

func main() {
	s := 0.5
	if len(os.Args) > 1 {
		s, _ = strconv.ParseFloat(os.Args[1], 64)
	}
	otel.SetTracerProvider(ascribeotel.Wrap(sdk.NewTracerProvider(), "tenant"))
	used := map[string]work{}
	var wg sync.WaitGroup
	var mutex sync.Mutex
	for tenant, seconds := range map[string]float64{"a": 3 * s, "b": s} {
		wg.Add(1)
		go func(tenant string, seconds float64) {
			defer wg.Done()
			w, outside := serve(tenant, seconds)
			mutex.Lock()
			defer mutex.Unlock()
			used[tenant] = w
			used["none"] = work{Seconds: used["none"].Seconds + outside}
		}(tenant, seconds)
	}
	wg.Wait()
	text, _ := json.Marshal(used)
	fmt.Println(string(text))
}

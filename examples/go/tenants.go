// SPDX-License-Identifier: Apache-2.0

// Labels in Go: those of runtime/pprof, which need no library and travel with goroutines. Prints the CPU seconds of
// each label. tenants [SECONDS]
package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"sync"
	"syscall"
)

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

func main() {
	s := 0.5
	if len(os.Args) > 1 {
		s, _ = strconv.ParseFloat(os.Args[1], 64)
	}
	var wg sync.WaitGroup
	var mutex sync.Mutex
	used := map[string]float64{}
	add := func(name string, seconds float64) {
		mutex.Lock()
		used[name] += seconds
		mutex.Unlock()
	}
	serve := func(tenant string, seconds float64) {
		defer wg.Done()
		pprof.Do(context.Background(), pprof.Labels("tenant", tenant, "query_id", "7"), func(context.Context) {
			for i := 0; i < 10; i++ {
				add(tenant, burn(seconds/10))
			}
		})
		add("none", burn(seconds/10))
	}
	wg.Add(2)
	go serve("a", 3*s)
	go serve("b", s)
	wg.Wait()
	fmt.Printf("{\"a\": %f, \"b\": %f, \"none\": %f}\n", used["a"], used["b"], used["none"])
}

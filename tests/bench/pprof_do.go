// SPDX-License-Identifier: Apache-2.0

// pprof_do: what Go's own labels cost, ns of CPU time: pprof.Do with one label, and setting two contexts made before in turns.
// The median of the rounds, one number each.
package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/pprof"
	"sort"
	"syscall"
)

const rounds, calls = 11, 20000

func cpuNs() float64 {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return float64(u.Utime.Nano() + u.Stime.Nano())
}

func measure(f func()) float64 {
	var ns []float64
	for r := 0; r < rounds; r++ {
		begin := cpuNs()
		for i := 0; i < calls*10; i++ {
			f()
		}
		ns = append(ns, (cpuNs()-begin)/(calls*10))
	}
	sort.Float64s(ns)
	return ns[rounds/2]
}

func main() {
	runtime.GOMAXPROCS(1)
	background := context.Background()
	labelled := pprof.WithLabels(background, pprof.Labels("query_id", "42"))
	do := measure(func() {
		pprof.Do(background, pprof.Labels("query_id", "42"), func(context.Context) {})
	})
	set := measure(func() {
		pprof.SetGoroutineLabels(labelled)
		pprof.SetGoroutineLabels(background)
	})
	fmt.Printf("%.2f %.2f\n", do, set)
}

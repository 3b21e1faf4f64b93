// SPDX-License-Identifier: Apache-2.0

// Goroutines with labels by runtime/pprof: golabels SECONDS. Two workers, each locked to a thread, and each with the
// labels tenant (its name), x (changing all the time) and y (a function of x); a third without labels.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"sync"
	"time"
)

var sink uint64

func spin(n uint64) uint64 {
	v := n
	for i := uint64(0); i < 20000; i++ {
		v = v*6364136223846793005 + 1442695040888963407
	}
	return v
}

func worker(name string, seed uint64, end time.Time) uint64 {
	changes, x := uint64(0), seed
	for time.Now().Before(end) {
		x = x*1103515245%999983 + 1
		labels := pprof.Labels("tenant", name, "x", strconv.FormatUint(x, 10), "y", strconv.FormatUint(x*7919%1000003, 10))
		pprof.Do(context.Background(), labels, func(context.Context) { sink += spin(x) })
		changes++
	}
	return changes
}

func main() {
	seconds, _ := strconv.ParseFloat(os.Args[1], 64)
	end := time.Now().Add(time.Duration(seconds * 1e9))
	var wg sync.WaitGroup
	var changes [2]uint64
	runtime.GOMAXPROCS(4)
	for i, name := range []string{"one", "two"} {
		wg.Add(1)
		go func(i int, name string) {
			defer wg.Done()
			changes[i] = worker(name, uint64(i+1), end)
		}(i, name)
	}
	for time.Now().Before(end) {
		sink += spin(1)
	}
	wg.Wait()
	fmt.Printf("{\"changes\": %d}\n", changes[0]+changes[1])
}

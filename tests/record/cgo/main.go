// SPDX-License-Identifier: Apache-2.0

// Go code that calls C, and C that calls Go again: cgo SECONDS. Half of the CPU time is spent in C called by main.inner, half in Go called back
// from C.
package main

/*
#cgo CFLAGS: -O2 -fomit-frame-pointer
unsigned long c_outer(unsigned long x);
unsigned long c_calls_back(unsigned long x);
*/
import "C"

import (
	"os"
	"strconv"
	"time"
)

var sink uint64

//export goBack
func goBack(x uint64) uint64 {
	return spin(x)
}

//go:noinline
func spin(x uint64) uint64 {
	for i := 0; i < 200000; i++ {
		x = x*6364136223846793005 + 1442695040888963407
	}
	return x
}

//go:noinline
func inner(x uint64) uint64 { return uint64(C.c_outer(C.ulong(x))) + 1 }

//go:noinline
func outer(x uint64) uint64 { return inner(x+1) + 1 }

//go:noinline
func around(x uint64) uint64 { return uint64(C.c_calls_back(C.ulong(x))) + 1 }

// The same in a goroutine, for a second.
//
//go:noinline
func called(done chan bool) {
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		outer(uint64(len(done)))
		around(uint64(len(done)))
	}
	done <- true
}

//go:noinline
func start(done chan bool) { go called(done) }

func main() {
	done := make(chan bool)
	defer func() { <-done }()
	defer start(done)
	seconds, _ := strconv.ParseFloat(os.Args[1], 64)
	for end := time.Now().Add(time.Duration(seconds * 1e9)); time.Now().Before(end); {
		sink += outer(sink)
		sink += around(sink)
	}
}

// SPDX-License-Identifier: Apache-2.0

// truth.h in Go: the work is in a goroutine, called by an interface.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"syscall"
	"unsafe"
)

var sink uint64

func cpu() float64 {
	var t syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, 3, uintptr(unsafe.Pointer(&t)), 0)
	return float64(t.Sec) + float64(t.Nsec)/1e9
}

func rename(name string) {
	text := append([]byte(name), 0)
	syscall.RawSyscall(syscall.SYS_PRCTL, 15, uintptr(unsafe.Pointer(&text[0])), 0)
}

type part interface{ work(n uint32) }
type isThree struct{}
type isOne struct{}

//go:noinline
func three(n uint32) { // <three>
	x := sink + uint64(n)
	for i := uint32(0); i < n*800; i++ {
		x = x*6364136223846793005 + x>>33
	}
	sink = x
} // </three>

//go:noinline
func one(n uint32) { // <one>
	x := sink + uint64(n)
	for i := uint32(0); i < n*800; i++ {
		x = x*3935559000370003845 + x>>31
	}
	sink = x
} // </one>

func (isThree) work(n uint32) { three(3 * n) }
func (isOne) work(n uint32)   { one(n) }

//go:noinline
func by(p part, n uint32) { p.work(n) }

var (
	labelThree = pprof.WithLabels(context.Background(), pprof.Labels("part", "three"))
	labelOne   = pprof.WithLabels(context.Background(), pprof.Labels("part", "one"))
)

//go:noinline
func run(took *[2]float64, n uint32) {
	pprof.SetGoroutineLabels(labelThree)
	begin := cpu()
	by(isThree{}, n) // calls three
	took[0] += cpu() - begin
	pprof.SetGoroutineLabels(labelOne)
	begin = cpu()
	by(isOne{}, n) // calls one
	took[1] += cpu() - begin
	pprof.SetGoroutineLabels(context.Background())
}

//go:noinline
func trials(n int, seconds float64, first int) {
	state := uint32(first + 1)
	for i := first; i < first+n; i++ {
		took := [2]float64{}
		name := fmt.Sprintf("truth.%d", i)
		rename(name)
		begin := cpu()
		for cpu()-begin < seconds {
			state = state*1664525 + 1013904223
			run(&took, 20+(state>>16)%80)
		}
		all := cpu() - begin
		rename("rest")
		fmt.Printf("%s %.9f %.9f %.9f\n", name, took[0], took[1], all)
	}
}

func main() {
	n, _ := strconv.Atoi(os.Args[1])
	ms, _ := strconv.ParseFloat(os.Args[2], 64)
	first, _ := strconv.Atoi(os.Args[3])
	done := make(chan bool)
	go func() {
		runtime.LockOSThread()
		trials(n, ms/1e3, first)
		done <- true
	}()
	<-done
}

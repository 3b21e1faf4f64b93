// SPDX-License-Identifier: Apache-2.0
// Goroutines of one function, made at two places, that work 3 : 1; makers of makers; and a pool that
// makes and ends goroutines all the time. Each goroutine logs what the runtime itself says of who
// made it, and the CPU time of its thread: the truth.
package main

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"syscall"
	"time"
)

var sink uint64

//go:noinline
func work(rounds int) {
	x := uint64(rounds)
	for i := 0; i < rounds; i++ {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	sink += x
}

func threadTime() int64 {
	var r syscall.Rusage
	syscall.Getrusage(1 /* RUSAGE_THREAD */, &r)
	return r.Utime.Nano() + r.Stime.Nano()
}

var created = regexp.MustCompile(`created by (\S+)(?: in goroutine \d+)?\n\t(\S+):(\d+)`)
var lock sync.Mutex
var truth = map[string]int64{}

func charge(ns int64) {
	m := created.FindSubmatch(debug.Stack())
	who := fmt.Sprintf("%s %s", m[1], m[3])
	lock.Lock()
	truth[who] += ns
	lock.Unlock()
}

// Work for ms of CPU time.
//
//go:noinline
func worker(ms int64, done *sync.WaitGroup) {
	runtime.LockOSThread()
	begin := threadTime()
	for threadTime()-begin < ms*1e6 {
		work(20000)
	}
	charge(threadTime() - begin)
	done.Done()
}

//go:noinline
func makeMany(ms int64, done *sync.WaitGroup) {
	done.Add(1)
	go worker(3*ms, done)
}

//go:noinline
func makeFew(ms int64, done *sync.WaitGroup) {
	done.Add(1)
	go worker(ms, done)
}

//go:noinline
func inner(ms int64, done *sync.WaitGroup) { go worker(ms, done) }

//go:noinline
func middle(ms int64, done *sync.WaitGroup) {
	inner(ms, done)
}

//go:noinline
func nested(ms int64, done *sync.WaitGroup) {
	done.Add(1)
	go middle(ms, done)
}

//go:noinline
func task(rounds int, done *sync.WaitGroup) {
	work(rounds)
	done.Done()
}

//go:noinline
func poolMany(done *sync.WaitGroup) {
	done.Add(1)
	go task(300000, done)
}

//go:noinline
func poolFew(done *sync.WaitGroup) {
	done.Add(1)
	go task(100000, done)
}

// 1,000 goroutines a second.
func pool(ms int64) (n int) {
	begin := time.Now()
	for time.Since(begin) < time.Duration(ms)*time.Millisecond {
		var done sync.WaitGroup
		poolMany(&done)
		poolFew(&done)
		done.Wait()
		time.Sleep(time.Millisecond)
		n += 2
	}
	return
}

func main() {
	ms, _ := strconv.ParseInt(os.Args[1], 10, 64)
	var done sync.WaitGroup
	time.Sleep(200 * time.Millisecond)
	makeMany(ms, &done)
	makeFew(ms, &done)
	done.Wait()
	nested(ms, &done)
	done.Wait()
	own()
	n := pool(2 * ms)
	for who, ns := range truth {
		fmt.Println(who, ns/1000)
	}
	fmt.Println("pool", n)
	fmt.Println("version", runtime.Version())
}

// The main goroutine has no maker.
//
//go:noinline
func own() {
	for i := 0; i < 100; i++ {
		work(1000000)
	}
}

// SPDX-License-Identifier: Apache-2.0
// Where a Go program's frame pointer does not tell the caller. That is in functions without a
// frame, in prologues and epilogues, in duffzero, and where the runtime calls the vdso from another
// stack.
package main

import (
	"fmt"
	"syscall"
	"time"
)

var sink [4096]byte
var from [4096]byte

//go:noinline
func frameless(a, b int) int { return a*7 ^ b }

//go:noinline
func framed(a, b int) int {
	var local [64]int
	local[a&63] = b
	return frameless(local[b&63], a)
}

//go:noinline
func moves(n int) { copy(sink[:n], from[:n]) }

//go:noinline
func calls() (s int) {
	for i := 0; i < 1000; i++ {
		s += framed(i, s)
	}
	return
}

//go:noinline
func copies() {
	for i := 0; i < 1000; i++ {
		moves(300)
	}
}

//go:noinline
func stamps() (s int) {
	for i := 0; i < 30; i++ {
		s += time.Now().Second()
	}
	return
}

func cpu() int64 {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}

func main() {
	s := 0
	for cpu() < 2e9 {
		s += calls()
		copies()
		s += stamps()
	}
	fmt.Println(s)
}

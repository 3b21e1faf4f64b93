// SPDX-License-Identifier: Apache-2.0

// truth.h in Go that calls C: what uses the CPU is C without frame pointers.
package main

/*
#cgo CFLAGS: -O2 -g -fomit-frame-pointer
#include <time.h>
#include <sys/prctl.h>
#define PART __attribute__((noinline))
void three(unsigned n);
void one(unsigned n);
#include "parts.h"
static double cpu(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}
static double took[2];
static void timed_three(unsigned n)
{
	double begin = cpu();
	three(n);
	took[0] += cpu() - begin;
}
static void timed_one(unsigned n)
{
	double begin = cpu();
	one(n);
	took[1] += cpu() - begin;
}
static double took_by(int i)
{
	double t = took[i];
	took[i] = 0;
	return t;
}
static void name_it(int i)
{
	char text[16] = "truth.";
	char digits[16];
	int n = 0, at = 6;
	for (; i; i /= 10)
		digits[n++] = (char)('0' + i % 10);
	while (n)
		text[at++] = digits[--n];
	prctl(PR_SET_NAME, at > 6 ? text : "rest");
}
*/
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
)

//go:noinline
func callsThree(n uint32) { C.timed_three(C.uint(3 * n)) }

//go:noinline
func callsOne(n uint32) { C.timed_one(C.uint(n)) }

//go:noinline
func run(n uint32) {
	callsThree(n)
	callsOne(n)
}

//go:noinline
func trials(n int, seconds float64, first int) {
	state := uint32(first + 1)
	for i := first; i < first+n; i++ {
		C.name_it(C.int(i))
		begin := float64(C.cpu())
		for float64(C.cpu())-begin < seconds {
			state = state*1664525 + 1013904223
			run(20+(state>>16)%80)
		}
		all := float64(C.cpu()) - begin
		C.name_it(0)
		fmt.Printf("truth.%d %.9f %.9f %.9f\n", i, C.took_by(0), C.took_by(1), all)
	}
}

func main() {
	n, _ := strconv.Atoi(os.Args[1])
	ms, _ := strconv.ParseFloat(os.Args[2], 64)
	first, _ := strconv.Atoi(os.Args[3])
	runtime.LockOSThread()
	trials(n, ms/1e3, first)
}

// SPDX-License-Identifier: Apache-2.0

// goabsent FILE SECONDS: labels of which one has its text in a mapped file that nobody has touched, so that no page of it is
// resident. Each worker has labels of its own: near (resident) and far (the file's first line, in a mapping of its own).
package main

import (
	"context"
	"os"
	"runtime/pprof"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

var sink uint64

func spin(end time.Time) {
	for v := uint64(1); time.Now().Before(end); {
		for i := 0; i < 20000; i++ {
			v = v*6364136223846793005 + 1442695040888963407
		}
		sink += v
	}
}

// The first n bytes of the file as a string, unread.
func untouched(name string, n int) string {
	f, err := os.Open(name)
	if err != nil {
		panic(err)
	}
	b, err := syscall.Mmap(int(f.Fd()), 0, n, syscall.PROT_READ, syscall.MAP_PRIVATE)
	if err != nil {
		panic(err)
	}
	return *(*string)(unsafe.Pointer(&b)) // a slice begins as a string does
}

func main() {
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	end := time.Now().Add(time.Duration(seconds * 1e9))
	labels := pprof.Labels("near", "here", "far", untouched(os.Args[1], 5))
	pprof.Do(context.Background(), labels, func(context.Context) { spin(end) })
}

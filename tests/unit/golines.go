// SPDX-License-Identifier: Apache-2.0
// Read addresses, and print the lines that debug/gosym finds for them in a program of Go, as
// addr2line does: golines FILE.
package main

import (
	"debug/elf"
	"debug/gosym"
	"fmt"
	"os"
)

func main() {
	f, err := elf.Open(os.Args[1])
	if err != nil {
		panic(err)
	}
	data, err := f.Section(".gopclntab").Data()
	if err != nil {
		panic(err)
	}
	table, err := gosym.NewTable(nil, gosym.NewLineTable(data, f.Section(".text").Addr))
	if err != nil {
		panic(err)
	}
	for pc := uint64(0); ; {
		if n, _ := fmt.Scanf("%v\n", &pc); n == 0 {
			break
		}
		file, line, in := table.PCToLine(pc)
		if in == nil || line <= 0 {
			fmt.Printf("%#x\n??\n??:0\n", pc)
		} else {
			fmt.Printf("%#x\n%s\n%s:%d\n", pc, in.Name, file, line)
		}
	}
}

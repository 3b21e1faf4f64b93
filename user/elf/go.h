/* SPDX-License-Identifier: Apache-2.0 */
/* The Go version that a binary was built by, from its build info, and what follows from it. */
#ifndef ASCRIBE_ELF_GO_H
#define ASCRIBE_ELF_GO_H

#include "elf/image.h"

#include <stdbool.h>

/* 1.19 is 119; 0: not a Go binary, or not to be told. */
unsigned elf_go_version(const struct elf_image *img);

/* Where a goroutine's labels are, and who made it. Machines of 64 bits have the same offsets. */
struct elf_go_layout {
	uint16_t curg;	 /* in runtime.m */
	uint16_t labels; /* in runtime.g */
	uint16_t gopc;	 /* in runtime.g; 0: not known of this version */
	bool slice;	 /* the labels are a slice, not a map */
};

/* False: a version that is too old. */
bool elf_go_layout(unsigned version, struct elf_go_layout *ret);

/*
 * Does a thread have its g in thread-local memory, at *ret from the thread pointer? False on arm64
 * without cgo: there it is in register x28 alone. Also false when it cannot be told.
 */
bool elf_go_tls(const struct elf_image *img, int64_t *ret);

#endif

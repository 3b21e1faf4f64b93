/* SPDX-License-Identifier: Apache-2.0 */
/* A file that names code made at run time: read, and looked up wherever it has an edge. */
#ifndef TESTS_FUZZ_JIT_H
#define TESTS_FUZZ_JIT_H

#include "fuzz/input.h"
#include "symbols/jit.h"

static inline void read_jit(const uint8_t *data, size_t size, enum jit_format format)
{
	static struct jit_name name;
	struct symbols_job job = { 0 };
	struct jit_table t = { 0 };
	int fd = file_of(data, size);
	if (!jit_read(&t, NULL, &job, fd, format)) {
		for (size_t i = 0; i < t.n; i++) {
			struct jit_entry *e = &t.entries[i];
			require(jit_find(&t, e->addr) == e && e->size);
			require(jit_find(&t, e->addr + e->size - 1) == e);
			require(!i || e[-1].addr + e[-1].size <= e->addr);
			jit_split_name(&name, t.names + e->name);
		}
		jit_memory(&t);
		jit_fini(&t);
	}
	close(fd);
}

#endif

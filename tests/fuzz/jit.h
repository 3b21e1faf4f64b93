/* SPDX-License-Identifier: Apache-2.0 */
/* A file that names code made at run time: read, and looked up wherever it has an edge. */
#ifndef TESTS_FUZZ_JIT_H
#define TESTS_FUZZ_JIT_H

#include "fuzz/input.h"
#include "symbols/jit_int.h"

#include <fcntl.h>

/* What is no regular file, or larger than one may be, or none at all. */
static inline void refuse_jit(enum jit_format format)
{
	static const int null = -1;
	const struct sandbox_request none = { .fds = &null };
	struct symbols_job job = { 0 };
	struct jit_table t;
	struct buf out = BUF_INIT;
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), large = file_of("", 0);
	require(!ftruncate(large, (off_t)JIT_FILE_MAX + 1));
	require((format == JIT_DUMP ? jit_op_dump : jit_op_perf_map)(&none, &out) && !out.len);
	require(jit_read(&t, NULL, &job, fd, format));
	require(jit_read(&t, NULL, &job, large, format));
	buf_fini(&out);
	close(large);
	close(fd);
}

static inline void read_jit(const uint8_t *data, size_t size, enum jit_format format)
{
	static struct jit_name name;
	struct symbols_job job = { 0 };
	struct jit_table t = { 0 };
	int fd = file_of(data, size);
	if (!jit_read(&t, NULL, &job, fd, format)) {
		jit_find(&t, 0);
		for (size_t i = 0; i < t.n; i++) {
			struct jit_entry *e = &t.entries[i];
			require(jit_find(&t, e->addr) == e && e->size);
			require(jit_find(&t, e->addr + e->size - 1) == e);
			require(!i || e[-1].addr + e[-1].size <= e->addr);
			jit_find(&t, e->addr + e->size);
			jit_split_name(&name, t.names + e->name);
		}
		jit_memory(&t);
		jit_fini(&t);
	}
	close(fd);
	if (size < 2) /* now and then: this costs as much */
		refuse_jit(format);
}

#endif

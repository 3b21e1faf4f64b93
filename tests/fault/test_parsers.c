/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that are not what they say. Real ELF files of this machine are damaged at places that
 * parsers look at, and given to real workers, as a recorder does. Each answer comes within two
 * seconds of CPU time from a worker of 64 MiB, no worker dies, and decoders take what it said.
 */
#include "fault/run.h"

#include "sandbox/sandbox.h"
#include "symbols/lines.h"
#include "symbols/parser.h"
#include "unwind/request.h"
#include "unwind/unwind.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define MIB (1u << 20)
#define FILE_MAX (8 * MIB)
#define CPU_MAX_NS 2000000000u

enum op { OPEN, LOAD, PARTS, LINES, UNWIND, OPS };
static const char *const op_names[OPS] = { "open", "load", "parts", "lines", "unwind" };
static const sandbox_op ops[OPS] = { parser_op_open, parser_op_load, parser_op_parts, lines_op,
				     unwind_op };

/* Libraries, programs, and those that have DWARF. */
static const char *const globs[] = { "/usr/lib/*-linux-gnu/*.so*", "/usr/bin/*", FAULT_PROGRAMS };
#define GLOBS (sizeof(globs) / sizeof(globs[0]))
static glob_t files[GLOBS];
static size_t n_files; /* to damage, usually */

struct sum {
	size_t files, asked, answered, refused, starved, bad;
	uint64_t most_ns[OPS];
	char first[300];
};

static uint64_t next(uint64_t *random)
{
	*random ^= *random << 13;
	*random ^= *random >> 7;
	*random ^= *random << 17;
	return *random;
}

/* ---- damage ---- */

/* Numbers at which sizes overflow, and others. */
static uint64_t wrong_number(uint64_t *random, size_t len)
{
	const uint64_t numbers[] = {
		0,	    1,	       len,	   len - 1,	   len + 1,
		UINT32_MAX, INT64_MAX, UINT64_MAX, UINT64_MAX - 7, 1ull << 32
	};
	uint64_t i = next(random) % 14;
	return i < 10 ? numbers[i] : i < 12 ? next(random) % (2 * len) : next(random);
}

static void put_number(unsigned char *at, size_t room, uint64_t *random, size_t len)
{
	static const size_t widths[] = { 1, 2, 4, 8 };
	size_t width = widths[next(random) % 4];
	uint64_t number = wrong_number(random, len);
	memcpy(at, &number, width < room ? width : room);
}

/* A place in [from, from + n) of the file, as far as the file goes. */
static void damage_range(unsigned char *data, size_t len, uint64_t from, uint64_t n,
			 uint64_t *random)
{
	if (from >= len || !n)
		return;
	n = n < len - from ? n : len - from;
	/* What is at the beginning says how to read what is behind it. */
	size_t at = from + next(random) % (next(random) % 2 && n > 64 ? 64 : n);
	if (next(random) % 3)
		put_number(data + at, len - at, random, len);
	else
		data[at] ^= 1 << next(random) % 8;
}

static void damage_once(unsigned char *data, size_t len, uint64_t *random)
{
	const Elf64_Ehdr *e = (const void *)data;
	const uint64_t n = next(random) % 10,
		       at = e->e_shoff + next(random) % (e->e_shnum + 1u) * sizeof(Elf64_Shdr);
	Elf64_Shdr s = { 0 };
	if (at <= len - sizeof(s))
		memcpy(&s, data + at, sizeof(s));
	if (n == 0)
		damage_range(data, len, EI_NIDENT, sizeof(*e) - EI_NIDENT, random);
	else if (n == 1)
		damage_range(data, len, e->e_phoff, e->e_phnum * sizeof(Elf64_Phdr), random);
	else if (n < 5)
		damage_range(data, len, at, sizeof(s), random);
	else
		damage_range(data, len, s.sh_offset, s.sh_size, random);
}

/* A damaged copy of a file in memory; -1: this file is left out. */
static int damaged(const char *path, uint64_t *random)
{
	int from = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), to = -1;
	struct stat st;
	unsigned char *data = NULL;
	size_t len = 0;
	if (from >= 0 && !fstat(from, &st) && S_ISREG(st.st_mode) && st.st_size <= FILE_MAX &&
	    st.st_size > (off_t)sizeof(Elf64_Ehdr) && (data = malloc((size_t)st.st_size)) &&
	    pread(from, data, (size_t)st.st_size, 0) == st.st_size && !memcmp(data, ELFMAG, 4) &&
	    data[EI_CLASS] == ELFCLASS64)
		len = (size_t)st.st_size;
	if (from >= 0)
		close(from);
	for (size_t n = len ? 1 + next(random) % 8 : 0; n; n--)
		damage_once(data, len, random);
	if (len && next(random) % 8 == 0)
		len = 1 + next(random) % len;
	if (len && (to = memfd_create("damaged", MFD_CLOEXEC)) >= 0 &&
	    write(to, data, len) != (ssize_t)len) {
		close(to);
		to = -1;
	}
	free(data);
	return to;
}

/* ---- asking ---- */

/* What the recorder does with an answer. */
static int decode(enum op op, struct buf *reply)
{
	struct unwind_table *rules = NULL;
	struct facts facts;
	struct table table = { 0 };
	struct err err;
	int rc = 0, load_rc;
	if (op == OPEN && !(rc = facts_decode(&facts, reply)))
		facts_fini(&facts);
	if ((op == LOAD || op == PARTS) &&
	    !(rc = parser_decode_table(&table, reply, &load_rc, &err)))
		table_fini(&table);
	if (op == UNWIND && !(rc = unwind_decode(&rules, reply)))
		unwind_table_free(rules);
	struct cursor c = { reply->data, reply->data + reply->len, 0 };
	while (op == LINES && !rc && cursor_left(&c)) {
		struct line_frame frames[LINE_FRAMES_MAX];
		size_t n;
		rc = lines_decode(&c, frames, &n);
	}
	return rc;
}

/* 0, or why the answer is not as it should be. */
static int ask(struct sandbox *s, enum op op, int fd, uint64_t *random, struct sum *sum)
{
	static struct buf reply = BUF_INIT;
	uint64_t addresses[8], cpu_ns = 0;
	struct sandbox_job *job = NULL;
	struct sandbox_call c = { .op = op,
				  .bytes = "damaged",
				  .len = 7,
				  .fds = &fd,
				  .n_fds = 1,
				  .deadline_ms = 60000,
				  .max_reply = PARSER_TABLE_MAX };
	if (op == LINES || op == PARTS) {
		for (size_t i = 0; i < 8; i++)
			addresses[i] = next(random) % (2 * MIB);
		c.bytes = addresses;
		c.len = sizeof(addresses);
	}
	c.lane = op == LINES ? SANDBOX_KEEPING_LANE : 0;
	int rc = sandbox_submit(s, &c, &job);
	while (!rc && (rc = sandbox_take(&job, &reply, &cpu_ns)) == -EINPROGRESS) {
		sandbox_wait(s, INT64_MAX);
		rc = 0;
	}
	sum->asked++;
	sum->answered += rc == 0;
	sum->refused += rc && rc != -EAGAIN;
	sum->starved += rc == -EAGAIN;
	sum->most_ns[op] = cpu_ns > sum->most_ns[op] ? cpu_ns : sum->most_ns[op];
	if (rc == -ECHILD || rc == -ETIMEDOUT)
		return rc;
	if (cpu_ns > CPU_MAX_NS)
		return -ETIME;
	return rc ? 0 : decode(op, &reply);
}

static void damage_some(void *ctx, size_t k, size_t n)
{
	struct sum *sum = (struct sum *)ctx + k;
	struct sandbox_config cfg = {
		.ops = ops, .n_ops = OPS, .memory = SYMBOLS_MEMORY, .serves = 64
	};
	uint64_t random = 88172645463325252ull + k + 1000 * run_offset(1000000);
	const double begin = run_seconds();
	struct sandbox *s;
	struct err err;
	if (sandbox_new(&s, &cfg, &err))
		abort();
	while (!run_enough(sum->files, n_files / n, begin) && !sum->bad) {
		const glob_t *some = files + next(&random) % GLOBS;
		const char *path = some->gl_pathv[next(&random) % some->gl_pathc];
		int fd = damaged(path, &random);
		if (fd < 0)
			continue;
		sum->files++;
		for (enum op op = 0; op < OPS && !sum->bad; op++) {
			int rc = ask(s, op, fd, &random, sum);
			if (!rc)
				continue;
			sum->bad++;
			snprintf(sum->first, sizeof(sum->first), "%s of a damaged %s, file %zu: %s",
				 op_names[op], path, sum->files, strerror(-rc));
		}
		close(fd);
	}
	sandbox_free(s);
}

static void damaged_files(void **state)
{
	struct sum *s = run_shared(8 * sizeof(*s)), all = { 0 };
	const double begin = run_seconds();
	(void)state;
	n_files = 2000 / part_of("damaged files", 4);
	for (size_t i = 0; i < GLOBS; i++)
		assert_int_equal(glob(globs[i], 0, NULL, files + i), 0);
	assert_int_equal(run_parallel(damage_some, s), 0);
	for (size_t k = 0; k < 8; k++) {
		all.files += s[k].files;
		all.asked += s[k].asked;
		all.answered += s[k].answered;
		all.refused += s[k].refused;
		all.starved += s[k].starved;
		all.bad += s[k].bad;
		for (enum op op = 0; op < OPS; op++)
			if (s[k].most_ns[op] > all.most_ns[op])
				all.most_ns[op] = s[k].most_ns[op];
		if (s[k].bad)
			print_message("  %s\n", s[k].first);
	}
	print_message("%zu damaged files: %zu questions, %zu answered, %zu refused, %zu without "
		      "an answer for want of CPU time, %zu bad; %.1f ms each; CPU ms at most:",
		      all.files, all.asked, all.answered, all.refused, all.starved, all.bad,
		      1000 * (run_seconds() - begin) / (double)all.files);
	for (enum op op = 0; op < OPS; op++)
		print_message(" %s %.0f", op_names[op], (double)all.most_ns[op] / 1e6);
	print_message("\n");
	for (size_t i = 0; i < GLOBS; i++)
		globfree(files + i);
	munmap(s, 8 * sizeof(*s));
	assert_int_equal(all.bad, 0);
	assert_true(all.answered > all.files && all.refused);
	assert_true(all.starved < all.asked / 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(damaged_files) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jitdump: a header, then records {id u32, size u32, time u64, ...}. Code is passed over; of the
 * records only the loading and moving of code matter. Code lines (debug info) are not used.
 */
#include "elf/image.h"
#include "symbols/jit_int.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0x4a695444u
#define HEADER_SIZE 40u
#define HEAD_SIZE 16u /* of a record */
#define LOAD_SIZE 40u /* without name and code */
#define MOVE_SIZE 48u
#define WINDOW (256u * 1024)

enum { RECORD_LOAD = 0, RECORD_MOVE = 1, RECORD_CLOSE = 3 };

struct dump {
	int fd;
	uint64_t size;
	uint8_t *window;
	uint64_t at;
	size_t len;
	uint32_t *by_index; /* open addressing: code index -> entry, 1-based */
	uint64_t *index;    /* of each entry */
	size_t index_cap;
	struct jit_said *said;
};

#define INDEX_SLOTS (1u << 20) /* over twice JIT_ENTRIES_MAX */

/* len bytes at offset, or as many as the file has; *ret_len says. They stay until the next call. */
static int get(struct dump *d, uint64_t offset, size_t len, const uint8_t **ret, size_t *ret_len)
{
	if (offset > d->size)
		return -EBADMSG;
	if (len > d->size - offset)
		len = (size_t)(d->size - offset);
	if (offset < d->at || offset + len > d->at + d->len) {
		ssize_t n;
		do
			n = pread(d->fd, d->window, WINDOW, (off_t)offset);
		while (n < 0 && errno == EINTR);
		if (n < 0)
			return -errno;
		d->at = offset;
		d->len = (size_t)n;
		if (len > d->len)
			len = d->len;
	}
	*ret = d->window + (offset - d->at);
	*ret_len = len;
	return 0;
}

static uint32_t *index_slot(const struct dump *d, uint64_t index)
{
	size_t i = (size_t)(index * 0x9e3779b97f4a7c15ull >> 44) & (INDEX_SLOTS - 1);
	while (d->by_index[i] && d->index[d->by_index[i] - 1] != index)
		i = (i + 1) & (INDEX_SLOTS - 1);
	return &d->by_index[i];
}

/* The entry that was said last is that of this code index. */
static void note_index(struct dump *d, uint64_t index)
{
	size_t e = d->said->n - 1;
	d->index[e] = index;
	*index_slot(d, index) = (uint32_t)e + 1;
}

static int take_load(struct dump *d, const uint8_t *p, size_t len)
{
	struct cursor c = { p, p + len, 0 };
	size_t before = d->said->n;
	cursor_u64(&c); /* pid, tid: a shared dump does not occur */
	cursor_u64(&c); /* vma */
	uint64_t addr = cursor_u64(&c), size = cursor_u64(&c), index = cursor_u64(&c);
	size_t left = c.bad ? 0 : cursor_left(&c), name = strnlen((const char *)c.p, left);
	if (!name || name == left) {
		d->said->failures++;
		return 0;
	}
	int rc = jit_say(d->said, addr, size, (const char *)c.p, name);
	if (!rc && d->said->n > before)
		note_index(d, index);
	return rc;
}

static int take_move(struct dump *d, const uint8_t *p, size_t len)
{
	struct cursor c = { p, p + len, 0 };
	cursor_u64(&c); /* pid, tid */
	cursor_u64(&c); /* vma */
	cursor_u64(&c); /* where it was */
	uint64_t addr = cursor_u64(&c), size = cursor_u64(&c), index = cursor_u64(&c);
	uint32_t *slot = c.bad ? NULL : index_slot(d, index);
	size_t before = d->said->n;
	if (!slot || !*slot) {
		d->said->failures++;
		return 0;
	}
	int rc = jit_say_again(d->said, addr, size, d->said->v[*slot - 1].name);
	if (!rc && d->said->n > before)
		note_index(d, index);
	return rc;
}

static int take_record(struct dump *d, uint64_t at, uint32_t id, uint32_t size)
{
	const uint8_t *p;
	size_t len;
	size_t want = id == RECORD_LOAD ? LOAD_SIZE + JIT_NAME_MAX + 1 : MOVE_SIZE;
	if (want > size - HEAD_SIZE)
		want = size - HEAD_SIZE;
	int rc = get(d, at + HEAD_SIZE, want, &p, &len);
	if (rc)
		return rc;
	return id == RECORD_LOAD ? take_load(d, p, len) : take_move(d, p, len);
}

static int check_header(struct dump *d, uint64_t *ret_first)
{
	const uint8_t *p;
	size_t len;
	int rc = get(d, 0, HEADER_SIZE, &p, &len);
	if (rc)
		return rc;
	if (len < HEADER_SIZE)
		return -EBADMSG;
	struct cursor c = { p, p + len, 0 };
	uint32_t magic = cursor_u32(&c), version = cursor_u32(&c), size = cursor_u32(&c),
		 machine = cursor_u32(&c);
	if (magic == __builtin_bswap32(MAGIC) || (magic == MAGIC && version != 1))
		return -EPROTONOSUPPORT;
	if (magic != MAGIC || size < HEADER_SIZE || size > 4096)
		return -EBADMSG;
	if (machine != EM_X86_64 && machine != EM_AARCH64)
		return -EPROTONOSUPPORT;
	*ret_first = size;
	return 0;
}

static int walk(struct dump *d)
{
	const uint8_t *p;
	size_t len;
	uint64_t at = 0;
	int rc = check_header(d, &at);
	for (uint32_t n = 0; !rc && at < d->size; n++) {
		rc = get(d, at, HEAD_SIZE, &p, &len);
		if (rc || len < HEAD_SIZE)
			break; /* being written */
		struct cursor c = { p, p + len, 0 };
		uint32_t id = cursor_u32(&c), size = cursor_u32(&c);
		if (size < HEAD_SIZE)
			return d->said->n ? (int)(d->said->failures++, 0) : -EBADMSG;
		if (size > d->size - at || id == RECORD_CLOSE)
			break;
		if (n == JIT_RECORDS_MAX)
			return -E2BIG;
		if (id == RECORD_LOAD || id == RECORD_MOVE)
			rc = take_record(d, at, id, size);
		at += size;
	}
	return rc;
}

int jit_read_dump(struct jit_said *s, int fd)
{
	struct dump d = { .fd = fd,
			  .said = s,
			  .window = malloc(WINDOW),
			  .by_index = calloc(INDEX_SLOTS, sizeof(uint32_t)),
			  .index = malloc(JIT_ENTRIES_MAX * sizeof(uint64_t)) };
	struct stat st;
	int rc = !d.window || !d.by_index || !d.index ? -ENOMEM
		 : fstat(fd, &st)		      ? -errno
		 : S_ISREG(st.st_mode)		      ? 0
						      : -EINVAL;
	if (!rc) {
		d.size = (uint64_t)st.st_size;
		rc = walk(&d);
	}
	free(d.window);
	free(d.by_index);
	free(d.index);
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One ELF file as the recorder knows it: what its head says, and its symbols once the first address is asked for. The
 * bytes themselves are parsed by parser.c, elsewhere.
 */
#include "symbols/symbols.h"

#include "symbols/cells.h"
#include "symbols/known.h"
#include "symbols/lines.h"
#include "symbols/parser.h"
#include "symbols/symbolizer.h"
#include "symbols/table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

struct binary {
	struct symbolizer_table keep; /* first: evict() gets it */
	struct symbolizer *symbolizer;
	struct facts facts;
	struct elf_image mem; /* an image in memory; mem.mem NULL for a file */
	int fd, debug_fd;     /* -1: none */
	struct table table;
	struct cells cells;
	struct known known; /* what was asked for; for when the table is gone */
	uint64_t table_hash; /* of what was read first: a file that reads differently the second time has no more names */
	bool loaded;         /* was tried */
	bool lines_bad;      /* its DWARF is not asked again */
	bool debug_lines;    /* debug_fd has DWARF */
	bool evicted;        /* table is gone, but may be read again */
	bool closed;         /* its files were closed */
	bool debug_sent;     /* debug_fd came from a server: it cannot be opened again */
	bool expecting;      /* a debug file may come, even after the symbols were read */
	int load_rc;         /* kept: a file that lies is not read again */
	struct symbols_again load_again, lines_again;
	char path[];         /* for messages */
};

static void evict(struct symbolizer_table *t)
{
	struct binary *b = (struct binary *)t;
	table_fini(&b->table);
	b->evicted = true;
}

static struct binary *new_binary(const char *path)
{
	size_t len = strlen(path) + 1;
	struct binary *b = calloc(1, sizeof(*b) + len);
	if (!b)
		return NULL;
	memcpy(b->path, path, len);
	b->fd = b->debug_fd = b->mem.fd = b->facts.img.fd = -1;
	b->keep.evict = evict;
	return b;
}

static int ask(struct binary *b, enum symbols_op op, const int *fds, size_t n_fds, size_t max, struct buf *reply)
{
	size_t len = strlen(b->path);
	if (b->symbolizer)
		b->symbolizer->stats.heads += op == OP_OPEN;
	struct symbols_request q = { op, b->path, len < 255 ? len : 255, fds, n_fds, max };
	return symbolizer_ask(b->symbolizer, &q, reply);
}

/* The text of a failed request, if there is one. */
static int refused(struct binary *b, int rc, const struct buf *reply, struct err *err)
{
	if (b->symbolizer && rc != -ENOEXEC && rc != -EPROTONOSUPPORT && !symbols_is_late(rc)) /* these are honest files of another kind */
		b->symbolizer->stats.refused++;
	if (reply->len && reply->len < 500)
		return err_set(err, rc, "%.*s", (int)reply->len, (const char *)reply->data);
	return err_sys(err, rc, "cannot read %s", b->path);
}

int binary_open_in(struct binary **ret, struct symbolizer *s, int fd, const char *path, struct err *err)
{
	struct buf reply = BUF_INIT;
	struct binary *b = new_binary(path);
	if (!b)
		return err_sys(err, -ENOMEM, "%s", path);
	b->symbolizer = s;
	b->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	int rc = b->fd < 0 ? -errno : ask(b, OP_OPEN, &b->fd, 1, PARSER_FACTS_MAX, &reply);
	if (rc) {
		refused(b, rc, &reply, err);
	} else {
		rc = facts_decode(&b->facts, &reply);
		if (rc)
			err_sys(err, rc, "what was read of %s", path);
	}
	buf_fini(&reply);
	if (rc) {
		binary_free(b);
		return rc;
	}
	*ret = b;
	return 0;
}

int binary_open(struct binary **ret, int fd, const char *path, struct err *err)
{
	return binary_open_in(ret, NULL, fd, path, err);
}

int binary_open_memory(struct binary **ret, const void *image, size_t size, const char *name, struct err *err)
{
	struct buf facts = BUF_INIT;
	struct binary *b = new_binary(name);
	if (!b)
		return err_sys(err, -ENOMEM, "%s", name);
	int rc = elf_image_open_memory(&b->mem, image, size, name, err);
	if (!rc) {
		rc = facts_encode(&b->mem, &facts);
		rc = rc ? rc : facts_decode(&b->facts, &facts);
		if (rc)
			err_sys(err, rc, "what was read of %s", name);
	}
	buf_fini(&facts);
	if (rc) {
		binary_free(b);
		return rc;
	}
	*ret = b;
	return 0;
}

static void close_all(struct binary *b)
{
	if (b->fd >= 0)
		close(b->fd);
	if (b->debug_fd >= 0)
		close(b->debug_fd);
	b->fd = b->debug_fd = -1;
	elf_image_fini(&b->mem);
}

void binary_free(struct binary *b)
{
	if (!b)
		return;
	symbolizer_remove(b->symbolizer, &b->keep);
	close_all(b);
	known_fini(&b->known);
	cells_fini(&b->cells);
	table_fini(&b->table);
	facts_fini(&b->facts);
	free(b);
}

void binary_close_files(struct binary *b)
{
	if (b->fd < 0 || b->expecting)
		return;
	close(b->fd);
	if (b->debug_fd >= 0 && !b->debug_sent) {
		close(b->debug_fd);
		b->debug_fd = -1;
	}
	b->fd = -1;
	b->closed = true;
}

bool binary_is_closed(const struct binary *b)
{
	return b->closed;
}

void binary_reopen(struct binary *b, struct binary *from)
{
	b->fd = from->fd;
	from->fd = -1;
	if (b->debug_fd < 0) {
		b->debug_fd = from->debug_fd;
		b->debug_lines = from->debug_lines;
		from->debug_fd = -1;
	}
	b->closed = false;
}

int binary_fd(const struct binary *b)
{
	return b->fd;
}

size_t binary_build_id(const struct binary *b, const uint8_t **ret)
{
	if (b->facts.img.build_id_len)
		*ret = b->facts.img.build_id;
	return b->facts.img.build_id_len;
}

int binary_bias(const struct binary *b, uint64_t start, uint64_t pgoff, uint64_t *ret_bias)
{
	return elf_image_bias(&b->facts.img, start, pgoff, ret_bias);
}

int binary_offset(const struct binary *b, uint64_t vaddr, uint64_t *ret_offset)
{
	return elf_image_offset(&b->facts.img, vaddr, ret_offset);
}

int binary_label_descriptor(const struct binary *b, uint64_t *ret_vaddr)
{
	if (b->facts.img.label_rc)
		return b->facts.img.label_rc;
	*ret_vaddr = b->facts.img.label_vaddr;
	return 0;
}

int binary_trampolines(const struct binary *b, uint64_t *ret_vaddr)
{
	if (b->facts.img.trampolines_rc)
		return b->facts.img.trampolines_rc;
	*ret_vaddr = b->facts.img.trampolines_vaddr;
	return 0;
}

int binary_python(const struct binary *b, struct binary_python *ret)
{
	if (!b->facts.python.version)
		return -ENOENT;
	*ret = b->facts.python;
	return 0;
}

/* ---- separate debug files ---- */

bool binary_wants_debug(const struct binary *b)
{
	const uint32_t all = FACT_SYMTAB | FACT_DWARF;
	return b->fd >= 0 && b->debug_fd < 0 && !b->loaded && (b->facts.has & all) != all &&
	       (b->facts.img.build_id_len > 1 || b->facts.link[0]);
}

static int fits(int n, size_t cap)
{
	return n > 0 && (size_t)n < cap ? 0 : -EINVAL;
}

static int build_id_path(const struct binary *b, char *out, size_t cap)
{
	static const char dir[] = "/usr/lib/debug/.build-id/";
	const struct elf_image *img = &b->facts.img;
	if (img->build_id_len < 2)
		return -EINVAL;
	int n = snprintf(out, cap, "%s%02x/", dir, img->build_id[0]);
	for (size_t i = 1; n > 0 && (size_t)n < cap && i < img->build_id_len; i++)
		n += snprintf(out + n, cap - (size_t)n, "%02x", img->build_id[i]);
	if (n > 0 && (size_t)n < cap)
		n += snprintf(out + n, cap - (size_t)n, ".debug");
	return fits(n, cap);
}

int binary_debug_path(const struct binary *b, const char *path, unsigned i, char *out, size_t cap)
{
	const char *slash = strrchr(path, '/');
	int dir = slash ? (int)(slash - path) : 0, rc = -EINVAL;
	if (i == 0)
		rc = build_id_path(b, out, cap);
	else if (i > 3)
		return -ENOENT;
	else if (b->facts.link[0] && path[0] == '/')
		rc = fits(snprintf(out, cap, "%s%.*s%s/%s", i == 3 ? "/usr/lib/debug" : "", dir, path, i == 2 ? "/.debug" : "",
				   b->facts.link), cap);
	if (rc)
		out[0] = '\0'; /* not this one; there may be others */
	return 0;
}

static int lines_fd(const struct binary *b)
{
	return b->facts.has & FACT_DWARF ? b->fd : b->debug_lines ? b->debug_fd : -1;
}

/* Without a symbolizer the symbols are read once. */
static void close_if_done(struct binary *b)
{
	if (lines_fd(b) < 0 && !b->expecting && !b->symbolizer)
		close_all(b);
}

static bool same_build_id(const struct facts *a, const struct facts *b)
{
	return a->img.build_id_len && a->img.build_id_len == b->img.build_id_len &&
	       !memcmp(a->img.build_id, b->img.build_id, a->img.build_id_len);
}

static int make_crc(struct binary *b, int fd, uint32_t *ret)
{
	struct buf reply = BUF_INIT;
	int rc = ask(b, OP_CRC, &fd, 1, 4, &reply);
	if (!rc && reply.len != 4)
		rc = -EBADMSG;
	if (!rc) {
		struct cursor c = { reply.data, reply.data + 4, 0 };
		*ret = cursor_u32(&c);
	}
	buf_fini(&reply);
	return rc;
}

/* One file may be what many link to: it is read once. */
static int crc_of(struct binary *b, int fd, const struct symbols_file *which, uint32_t *ret)
{
	struct symbolizer *s = which && which->size ? b->symbolizer : NULL;
	uint32_t crc = 0;
	for (unsigned i = 0; s && i < CRCS_KEPT; i++) {
		if (memcmp(&s->crc[i].file, which, sizeof(*which)) != 0)
			continue;
		*ret = s->crc[i].crc;
		return s->crc[i].rc;
	}
	int rc = make_crc(b, fd, &crc);
	if (s && !symbols_is_late(rc))
		s->crc[s->next_crc++ % CRCS_KEPT] = (struct crc_kept){ *which, crc, rc };
	*ret = crc;
	return rc;
}

/* As though they had not been asked for yet. */
static void forget_symbols(struct binary *b)
{
	symbolizer_remove(b->symbolizer, &b->keep);
	table_fini(&b->table);
	known_fini(&b->known);
	cells_fini(&b->cells);
	b->loaded = b->evicted = false;
	b->load_rc = 0;
	b->load_again = (struct symbols_again){ 0 };
}

int binary_offer_debug(struct binary *b, int fd, const struct symbols_file *which)
{
	struct buf reply = BUF_INIT;
	struct facts f;
	uint32_t crc;
	int rc = b->debug_fd >= 0 || (b->loaded && !b->expecting) ? -ENOENT : ask(b, OP_OPEN, &fd, 1, PARSER_FACTS_MAX, &reply);
	rc = rc ? rc : facts_decode(&f, &reply);
	buf_fini(&reply);
	if (rc)
		return symbols_is_late(rc) ? rc : -ENOENT;
	bool useful = f.has & ~b->facts.has && f.img.machine == b->facts.img.machine;
	/* A build id that differs is an answer; the CRC is for files that have none. */
	bool both = f.img.build_id_len && b->facts.img.build_id_len;
	bool has_lines = f.has & FACT_DWARF;
	bool same = both && same_build_id(&f, &b->facts);
	facts_fini(&f);
	if (useful && !both && b->facts.link[0]) {
		rc = crc_of(b, fd, which, &crc);
		if (symbols_is_late(rc))
			return rc;
		same = !rc && crc == b->facts.link_crc;
	}
	if (!useful || !same)
		return -ENOENT;
	b->debug_fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (b->debug_fd < 0)
		return -ENOENT;
	b->debug_lines = has_lines;
	b->debug_sent = !which;
	b->expecting = false;
	if (b->loaded)
		forget_symbols(b);
	if (b->symbolizer)
		b->symbolizer->stats.debug++;
	return 0;
}

void binary_expect_debug(struct binary *b, bool coming)
{
	b->expecting = coming && b->fd >= 0 && b->debug_fd < 0;
	if (b->loaded && !b->evicted)
		close_if_done(b);
}

/* ---- lines ---- */

bool binary_has_lines(const struct binary *b)
{
	bool has = b->facts.has & FACT_DWARF || b->debug_lines;
	return has && !b->lines_bad && (b->closed || lines_fd(b) >= 0) && symbols_is_due(&b->lines_again);
}

static int ask_lines(struct binary *b, const uint64_t *vaddrs, size_t n, struct buf *reply)
{
	struct buf in = BUF_INIT;
	int rc = 0, fd = lines_fd(b);
	for (size_t i = 0; !rc && i < n; i++)
		rc = buf_add_u64(&in, vaddrs[i]);
	struct symbols_request q = { OP_LINES, in.data, in.len, &fd, 1, LINES_REPLY_MAX };
	rc = rc ? rc : symbolizer_ask(b->symbolizer, &q, reply);
	buf_fini(&in);
	return rc;
}

int binary_lines(struct binary *b, const uint64_t *vaddrs, size_t n,
		 void (*each)(void *ctx, size_t i, const struct line_frame *frames, size_t n_frames), void *ctx)
{
	struct line_frame frames[LINE_FRAMES_MAX];
	struct buf reply = BUF_INIT;
	size_t n_frames = 0;
	if (n > LINES_BATCH_MAX || !binary_has_lines(b))
		return -EINVAL;
	if (b->closed)
		return -EBADF;
	int rc = ask_lines(b, vaddrs, n, &reply);
	struct cursor c = { reply.data, reply.data + reply.len, 0 };
	for (size_t i = 0; !rc && i < n; i++) {
		rc = lines_decode(&c, frames, &n_frames);
		if (!rc)
			each(ctx, i, frames, n_frames);
	}
	buf_fini(&reply);
	if (symbols_is_late(rc) && symbols_put_off(&b->lines_again, rc))
		return rc;
	if (!rc)
		b->lines_again = (struct symbols_again){ 0 };
	if (rc)
		b->lines_bad = true;
	if (b->symbolizer) {
		b->symbolizer->stats.lines += n;
		b->symbolizer->stats.lines_refused += rc != 0;
	}
	return rc;
}

/* ---- symbols ---- */

/* The encoded table, from wherever it is made. */
static int fetch_table(struct binary *b, struct buf *reply, struct err *err)
{
	int fds[2] = { b->fd, b->debug_fd };
	if (b->mem.mem)
		return parser_encode_table(&b->mem, NULL, b->path, reply);
	if (b->fd < 0)
		return -EBADF;
	int rc = ask(b, OP_LOAD, fds, b->debug_fd >= 0 ? 2 : 1, PARSER_TABLE_MAX, reply);
	if (rc == -EIO && b->debug_fd >= 0) { /* without the debug file, then */
		close(b->debug_fd);
		b->debug_fd = -1;
		b->debug_lines = false;
		rc = ask(b, OP_LOAD, fds, 1, PARSER_TABLE_MAX, reply);
	}
	return rc ? refused(b, rc, reply, err) : 0;
}

static int read_table(struct binary *b, struct err *err)
{
	struct buf reply = BUF_INIT;
	int load_rc = 0;
	int rc = fetch_table(b, &reply, err);
	if (symbols_is_late(rc) && symbols_put_off(&b->load_again, rc)) {
		buf_fini(&reply);
		return rc; /* as though it had not been asked for */
	}
	uint64_t hash = rc ? 0 : XXH3_64bits(reply.data, reply.len);
	if (!rc && b->evicted && hash != b->table_hash)
		rc = err_set(err, -ESTALE, "%s has changed", b->path); /* cells go by the order of symbols */
	rc = rc ? rc : parser_decode_table(&b->table, &reply, &load_rc, err);
	buf_fini(&reply);
	b->table_hash = hash;
	if (b->symbolizer) {
		b->symbolizer->stats.tables++;
		b->symbolizer->stats.reread += b->evicted;
		b->symbolizer->stats.refused += !rc && load_rc && !b->evicted;
	}
	b->evicted = false;
	if (!rc)
		symbolizer_add(b->symbolizer, &b->keep, table_memory(&b->table));
	return rc ? rc : load_rc;
}

int binary_load(struct binary *b, struct err *err)
{
	if (b->loaded && !b->evicted) {
		symbolizer_used(b->symbolizer, &b->keep);
		return b->load_rc;
	}
	if (b->closed)
		return -EBADF;
	if (!symbols_is_due(&b->load_again))
		return -EAGAIN;
	b->load_rc = read_table(b, err);
	if (symbols_is_late(b->load_rc) && b->load_again.at_ns)
		return b->load_rc;
	b->loaded = true;
	close_if_done(b);
	return b->load_rc;
}

bool binary_is_unread(const struct binary *b)
{
	return !b->loaded;
}

bool binary_refused(const struct binary *b)
{
	return b->load_rc != 0; /* also if for now only */
}

bool binary_is_late(const struct binary *b)
{
	return symbols_is_late(b->load_rc) && b->load_again.at_ns;
}

static int give_symbol(const struct known_piece *p, struct symbol *ret)
{
	if (!p->cell)
		return -ENOENT;
	*ret = (struct symbol){ .name = p->cell->name, .start = p->symbol, .size = p->size, .tag = &p->cell->tag };
	return 0;
}

int binary_find(struct binary *b, uint64_t vaddr, struct symbol *ret)
{
	const struct known_piece *known = b->loaded ? known_find(&b->known, vaddr) : NULL;
	struct known_piece piece = { 0 };
	if (known)
		return give_symbol(known, ret);
	int rc = binary_load(b, NULL);
	if (symbols_is_late(rc) && b->load_again.at_ns)
		return -EAGAIN;
	if (rc == -EBADF && b->closed)
		return rc;
	int64_t i = table_find(&b->table, vaddr); /* what could be read counts */
	if (i >= 0) {
		const struct table_entry *e = &b->table.entries[i];
		piece.cell = cells_find(&b->cells, (uint32_t)i);
		if (!piece.cell)
			piece.cell = cells_add(&b->cells, (uint32_t)i, b->table.names + e->name);
		if (!piece.cell)
			return -ENOMEM;
		piece.symbol = b->table.base + e->addr;
		piece.size = e->size & TABLE_SIZE_GUESSED ? 0 : e->size;
	}
	if (table_piece(&b->table, vaddr, i, &piece.start, &piece.end))
		known_add(&b->known, &piece);
	return give_symbol(&piece, ret);
}

size_t binary_memory(const struct binary *b)
{
	return binary_kept_memory(b) + elf_image_memory(&b->mem) + table_memory(&b->table);
}

size_t binary_kept_memory(const struct binary *b)
{
	return sizeof(*b) + strlen(b->path) + 1 + elf_image_memory(&b->facts.img) + b->cells.bytes +
	       b->known.cap * sizeof(*b->known.v);
}

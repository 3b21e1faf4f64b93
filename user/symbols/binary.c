/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One ELF file as the recorder knows it: what its head says, and its symbols once the first address
 * is asked for. The bytes themselves are parsed by parser.c, elsewhere.
 */
#include "symbols/binary_int.h"

#include "symbols/lines.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

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
	b->fd = b->debug_fd = b->offer.fd = b->mem.fd = b->facts.img.fd = -1;
	b->keep.evict = evict;
	return b;
}

int binary_ask(struct binary *b, struct symbols_job *io_job, enum symbols_op op, const int *fds,
	       size_t n_fds, size_t max, struct buf *reply)
{
	size_t len = strlen(b->path);
	struct symbols_request q = { op, b->path, len < 255 ? len : 255, fds, n_fds, max };
	int rc = symbolizer_ask(b->symbolizer, io_job, &q, reply);
	if (b->symbolizer)
		b->symbolizer->stats.heads += op == OP_OPEN && !symbols_is_late(rc);
	return rc;
}

/* The text of a failed request, if there is one. */
static int refused(struct binary *b, int rc, const struct buf *reply, struct err *err)
{
	/* These are honest files of another kind */
	if (b->symbolizer && rc != -ENOEXEC && rc != -EPROTONOSUPPORT && !symbols_is_late(rc))
		b->symbolizer->stats.refused++;
	if (reply->len && reply->len < 500)
		return err_set(err, rc, "%.*s", (int)reply->len, (const char *)reply->data);
	return err_sys(err, rc, "cannot read %s", b->path);
}

int binary_read_head(struct binary *b, struct err *err)
{
	struct buf reply = BUF_INIT;
	int rc = binary_ask(b, &b->head_job, OP_OPEN, &b->fd, 1, PARSER_FACTS_MAX, &reply);
	if (rc && !symbols_is_late(rc)) {
		refused(b, rc, &reply, err);
	} else if (rc) {
		err_sys(err, rc, "reading %s", b->path);
	} else {
		rc = facts_decode(&b->facts, &reply);
		if (rc)
			err_sys(err, rc, "what was read of %s", b->path);
	}
	buf_fini(&reply);
	return rc;
}

int binary_open_in(struct binary **ret, struct symbolizer *s, int fd, const char *path,
		   struct err *err)
{
	struct binary *b = new_binary(path);
	if (!b)
		return err_sys(err, -ENOMEM, "%s", path);
	b->symbolizer = s;
	b->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	int rc = b->fd < 0 ? err_sys(err, -errno, "%s", path) : binary_read_head(b, err);
	if (rc && rc != -EINPROGRESS)
		binary_free(b);
	else
		*ret = b;
	return rc;
}

int binary_open(struct binary **ret, int fd, const char *path, struct err *err)
{
	return binary_open_in(ret, NULL, fd, path, err);
}

int binary_open_memory(struct binary **ret, const void *image, size_t size, const char *name,
		       struct err *err)
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
	symbolizer_cancel(&b->head_job);
	symbolizer_cancel(&b->load_job);
	symbolizer_cancel(&b->lines_job);
	binary_end_offer(b);
	close_all(b);
	binary_forget_parts(b);
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

bool binary_has_data(const struct binary *b, uint64_t vaddr)
{
	const struct elf_image *img = &b->facts.img;
	for (size_t i = 0; i < img->n_loads; i++)
		if (!(img->loads[i].flags & PF_X) &&
		    vaddr - img->loads[i].vaddr < img->loads[i].memsz)
			return true;
	return false;
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

const char *binary_script_eval(uint32_t language)
{
	static const char *const names[SCRIPT_LANGUAGES] = { "_PyEval_EvalFrameDefault",
							     "execute_ex", "vm_exec_core",
							     "Perl_runops_standard",
							     "lj_vm_asm_begin" };
	return names[language < SCRIPT_LANGUAGES ? language : 0];
}

int binary_script(const struct binary *b, struct binary_script *ret)
{
	if (!b->facts.script.version)
		return -ENOENT;
	*ret = b->facts.script;
	return 0;
}

int binary_hotspot(const struct binary *b, struct binary_hotspot *ret)
{
	if (!b->facts.hotspot.at[0])
		return -ENOENT;
	*ret = b->facts.hotspot;
	return 0;
}

int binary_v8(const struct binary *b, struct binary_v8 *ret)
{
	if (!b->facts.v8.found)
		return -ENOENT;
	*ret = b->facts.v8;
	return 0;
}

static bool has_dwarf(const struct binary *b)
{
	return b->facts.has & FACT_DWARF || b->debug_lines;
}

static int lines_fd(const struct binary *b)
{
	const uint32_t own = has_dwarf(b) ? FACT_DWARF : FACT_GO_LINES;
	return b->facts.has & own ? b->fd : b->debug_lines ? b->debug_fd : -1;
}

/* Without a symbolizer the symbols are read once. */
static void close_if_done(struct binary *b)
{
	if (lines_fd(b) < 0 && !b->expecting && !b->symbolizer)
		close_all(b);
}

void binary_forget_symbols(struct binary *b)
{
	symbolizer_remove(b->symbolizer, &b->keep);
	symbolizer_cancel(&b->load_job);
	table_fini(&b->table);
	binary_forget_parts(b);
	known_fini(&b->known);
	cells_fini(&b->cells);
	b->loaded = b->evicted = false;
	b->load_rc = 0;
	b->load_again = (struct symbols_again){ 0 };
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
	bool has = has_dwarf(b) || b->facts.has & FACT_GO_LINES;
	return has && !b->lines_bad && (b->closed || lines_fd(b) >= 0) &&
	       symbols_is_due(&b->lines_again);
}

static int ask_lines(struct binary *b, const uint64_t *vaddrs, size_t n, struct buf *reply)
{
	struct buf in = BUF_INIT;
	int rc = 0, fd = lines_fd(b);
	for (size_t i = 0; !rc && i < n; i++)
		rc = buf_add_u64(&in, vaddrs[i]);
	const enum symbols_op op = has_dwarf(b) ? OP_LINES : OP_GO_LINES;
	struct symbols_request q = { op, in.data, in.len, &fd, 1, LINES_REPLY_MAX };
	rc = rc ? rc : symbolizer_ask(b->symbolizer, &b->lines_job, &q, reply);
	buf_fini(&in);
	return rc;
}

int binary_lines(struct binary *b, const uint64_t *vaddrs, size_t n,
		 void (*each)(void *ctx, size_t i, const struct line_frame *frames,
			      size_t n_frames),
		 void *ctx)
{
	struct line_frame frames[LINE_FRAMES_MAX];
	struct buf reply = BUF_INIT;
	size_t n_frames = 0;
	if (n > LINES_BATCH_MAX || !binary_has_lines(b))
		return -EINVAL;
	if (b->closed && !b->lines_job.job)
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
	if (b->fd < 0 && !b->load_job.job)
		return -EBADF;
	int rc = binary_ask(b, &b->load_job, OP_LOAD, fds, b->debug_fd >= 0 ? 2 : 1,
			    PARSER_TABLE_MAX, reply);
	if (rc == -EIO && b->debug_fd >= 0) { /* without the debug file, then */
		close(b->debug_fd);
		b->debug_fd = -1;
		b->debug_lines = false;
		rc = binary_ask(b, &b->load_job, OP_LOAD, fds, 1, PARSER_TABLE_MAX, reply);
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
		/* cells go by the order of symbols */
		rc = err_set(err, -ESTALE, "%s has changed", b->path);
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
	if (b->closed && !b->load_job.job)
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
	*ret = (struct symbol){
		.name = p->cell->name, .start = p->symbol, .size = p->size, .tag = &p->cell->tag
	};
	return 0;
}

static int find_part(struct binary *b, uint64_t vaddr, struct symbol *ret)
{
	int rc = binary_find_part(b, vaddr);
	const struct known_piece *known = rc ? NULL : known_find(&b->known, vaddr);
	return rc ? rc : known ? give_symbol(known, ret) : -ENOENT;
}

int binary_find(struct binary *b, uint64_t vaddr, struct symbol *ret)
{
	const struct known_piece *known = b->loaded ? known_find(&b->known, vaddr) : NULL;
	struct known_piece piece = { 0 };
	if (known)
		return give_symbol(known, ret);
	if (binary_reads_parts(b))
		return find_part(b, vaddr, ret);
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
	       b->known.cap * sizeof(*b->known.v) + (b->parts ? sizeof(*b->parts) : 0);
}

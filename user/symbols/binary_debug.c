/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The separate debug file of an ELF file: where it may be, and whether one that is offered is it.
 */
#include "symbols/binary_int.h"

#include "symbols/debugdata.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void binary_end_offer(struct binary *b)
{
	if (b->offer.fd >= 0)
		close(b->offer.fd);
	symbolizer_cancel(&b->offer.head);
	symbolizer_cancel(&b->offer.crc.job);
	b->offer = (struct offer){ .fd = -1 };
}

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

int symbols_build_id_path(const uint8_t *id, size_t len, char *out, size_t cap)
{
	static const char dir[] = "/usr/lib/debug/.build-id/";
	if (len < 2)
		return -EINVAL;
	int n = snprintf(out, cap, "%s%02x/", dir, id[0]);
	for (size_t i = 1; n > 0 && (size_t)n < cap && i < len; i++)
		n += snprintf(out + n, cap - (size_t)n, "%02x", id[i]);
	if (n > 0 && (size_t)n < cap)
		n += snprintf(out + n, cap - (size_t)n, ".debug");
	return fits(n, cap);
}

int binary_debug_path(const struct binary *b, const char *path, unsigned i, char *out, size_t cap)
{
	const char *slash = strrchr(path, '/');
	int dir = slash ? (int)(slash - path) : 0, rc = -EINVAL;
	if (i == 0)
		rc = symbols_build_id_path(b->facts.img.build_id, b->facts.img.build_id_len, out,
					   cap);
	else if (i > 3)
		return -ENOENT;
	else if (b->facts.link[0] && path[0] == '/')
		rc = fits(snprintf(out, cap, "%s%.*s%s/%s", i == 3 ? "/usr/lib/debug" : "", dir,
				   path, i == 2 ? "/.debug" : "", b->facts.link),
			  cap);
	if (rc)
		out[0] = '\0'; /* not this one; there may be others */
	return 0;
}

static bool same_build_id(const struct facts *a, const struct facts *b)
{
	return a->img.build_id_len && a->img.build_id_len == b->img.build_id_len &&
	       !memcmp(a->img.build_id, b->img.build_id, a->img.build_id_len);
}

static int make_crc(struct binary *b, int fd, struct crc_kept *io)
{
	struct buf reply = BUF_INIT;
	int rc = binary_ask(b, &io->job, OP_CRC, &fd, 1, 4, &reply);
	if (!rc && reply.len != 4)
		rc = -EBADMSG;
	if (!rc) {
		struct cursor c = { reply.data, reply.data + 4, 0 };
		io->crc = cursor_u32(&c);
	}
	buf_fini(&reply);
	io->made = !symbols_is_late(rc);
	io->rc = rc;
	return rc;
}

/* One file may be what many link to: it is read once. */
static struct crc_kept *crc_of(struct symbolizer *s, const struct symbols_file *which)
{
	unsigned i = 0;
	while (i < CRCS_KEPT && memcmp(&s->crc[i].file, which, sizeof(*which)) != 0)
		i++;
	if (i < CRCS_KEPT)
		return &s->crc[i];
	struct crc_kept *c = &s->crc[s->next_crc++ % CRCS_KEPT];
	symbolizer_cancel(&c->job);
	*c = (struct crc_kept){ .file = *which };
	return c;
}

/* The head of the file that is offered: could it be the one, and is it? */
static int read_offered(struct binary *b)
{
	struct offer *o = &b->offer;
	struct buf reply = BUF_INIT;
	struct facts f;
	int rc = binary_ask(b, &o->head, OP_OPEN, &o->fd, 1, PARSER_FACTS_MAX, &reply);
	rc = rc ? rc : facts_decode(&f, &reply);
	buf_fini(&reply);
	if (rc)
		return symbols_is_late(rc) ? rc : -ENOENT;
	bool useful = f.has & ~b->facts.has && f.img.machine == b->facts.img.machine;
	/* A build id that differs is an answer; the CRC is for files that have none. */
	bool both = f.img.build_id_len && b->facts.img.build_id_len;
	o->has_head = true;
	o->has_lines = f.has & FACT_DWARF;
	o->same = useful && both && same_build_id(&f, &b->facts);
	o->by_crc = useful && !both && b->facts.link[0];
	facts_fini(&f);
	return 0;
}

static int check_crc(struct binary *b)
{
	struct offer *o = &b->offer;
	if (o->which.size > DEBUGLINK_FILE_MAX) {
		if (b->symbolizer && !b->debug_unchecked)
			b->symbolizer->stats.debug_unchecked++;
		b->debug_unchecked = true;
		return 0;
	}
	struct crc_kept *crc =
		o->which.size && b->symbolizer ? crc_of(b->symbolizer, &o->which) : &o->crc;
	int rc = crc->made ? crc->rc : make_crc(b, o->fd, crc);
	if (symbols_is_late(rc))
		return rc;
	o->same = !rc && crc->crc == b->facts.link_crc;
	return 0;
}

static int use_offered(struct binary *b)
{
	b->debug_fd = b->offer.fd;
	b->offer.fd = -1;
	b->debug_lines = b->offer.has_lines;
	b->debug_sent = !b->offer.which.size;
	b->expecting = false;
	if (b->loaded)
		binary_forget_symbols(b);
	if (b->symbolizer)
		b->symbolizer->stats.debug++;
	return 0;
}

int binary_offered(struct binary *b)
{
	struct offer *o = &b->offer;
	int rc = o->fd < 0 ? -ENOENT : o->has_head ? 0 : read_offered(b);
	if (!rc && o->by_crc)
		rc = check_crc(b);
	if (rc == -EINPROGRESS)
		return rc;
	rc = rc ? rc : o->same ? use_offered(b) : -ENOENT;
	binary_end_offer(b);
	return rc;
}

int binary_offer_debug(struct binary *b, int fd, const struct symbols_file *which)
{
	binary_end_offer(b);
	if (b->debug_fd >= 0 || (b->loaded && !b->expecting))
		return -ENOENT;
	b->offer.fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (which)
		b->offer.which = *which;
	return binary_offered(b);
}

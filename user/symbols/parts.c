/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of a Go program, function by function. The table of a large one, as the kubelet, takes 15
 * MB, most of it names; .gopclntab is sorted, so a parser finds the functions that were sampled in
 * it. Addresses are collected while a request is on its way.
 */
#include "symbols/binary_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool binary_reads_parts(const struct binary *b)
{
	return b->facts.has & FACT_GO && b->debug_fd < 0 && b->symbolizer &&
	       b->symbolizer->sandbox && !b->symbolizer->wait;
}

void binary_forget_parts(struct binary *b)
{
	free(b->parts);
	b->parts = NULL;
}

static void want(struct parts *p, uint64_t vaddr)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->vaddr[i] == vaddr)
			return;
	if (p->n < PARTS_MAX) /* the others ask again */
		p->vaddr[p->n++] = vaddr;
}

/* Keep what a table of some functions says of an address. */
static int keep(struct binary *b, const struct table *t, uint64_t vaddr)
{
	/* Other functions may be near: only that of the address is known. */
	struct known_piece piece = { .start = vaddr, .end = vaddr + 1 };
	int64_t i = table_find(t, vaddr);
	if (known_find(&b->known, vaddr))
		return 0;
	if (i >= 0) {
		const struct table_entry *e = &t->entries[i];
		piece.cell = cells_find(&b->cells, e->addr);
		if (!piece.cell)
			piece.cell = cells_add(&b->cells, e->addr, t->names + e->name);
		if (!piece.cell)
			return -ENOMEM;
		piece.symbol = t->base + e->addr;
		piece.size = e->size & TABLE_SIZE_GUESSED ? 0 : e->size;
		table_piece(t, vaddr, i, &piece.start, &piece.end);
	}
	known_add(&b->known, &piece);
	return 0;
}

/* Ask for all addresses that are wanted, or take the answer. */
static int ask(struct binary *b)
{
	struct parts *p = b->parts;
	struct buf in = BUF_INIT, reply = BUF_INIT;
	struct table t = { 0 };
	int load_rc = 0, rc = 0;
	if (!b->load_job.job)
		p->n_asked = p->n;
	for (size_t i = 0; !rc && i < p->n_asked; i++)
		rc = buf_add_u64(&in, p->vaddr[i]);
	const struct symbols_request q = { OP_PARTS, in.data, in.len, &b->fd, 1, PARSER_TABLE_MAX };
	rc = rc ? rc : symbolizer_ask(b->symbolizer, &b->load_job, &q, &reply);
	rc = rc ? rc : parser_decode_table(&t, &reply, &load_rc, NULL);
	for (size_t i = 0; !rc && i < p->n_asked; i++)
		rc = keep(b, &t, p->vaddr[i]);
	table_fini(&t);
	buf_fini(&reply);
	buf_fini(&in);
	return rc ? rc : load_rc;
}

int binary_find_part(struct binary *b, uint64_t vaddr)
{
	struct parts *p = b->parts = b->parts ? b->parts : calloc(1, sizeof(*p));
	bool late = symbols_is_late(b->load_rc) && b->load_again.at_ns;
	if (!p)
		return -ENOMEM;
	if ((b->load_rc && !late) || b->known.n >= KNOWN_MAX)
		return -ENOENT;
	if (b->closed && !b->load_job.job)
		return -EBADF;
	want(p, vaddr);
	if (!symbols_is_due(&b->load_again))
		return -EAGAIN;
	b->load_rc = ask(b);
	if (symbols_is_late(b->load_rc) && symbols_put_off(&b->load_again, b->load_rc))
		return -EAGAIN;
	b->symbolizer->stats.tables += !b->loaded;
	b->symbolizer->stats.refused += b->load_rc != 0;
	b->loaded = true;
	b->load_again = (struct symbols_again){ 0 };
	p->n -= p->n_asked;
	memmove(p->vaddr, p->vaddr + p->n_asked, p->n * sizeof(p->vaddr[0]));
	if (b->load_rc || known_find(&b->known, vaddr))
		return 0;
	b->load_rc = -EINPROGRESS; /* it was not in that request: it is in the next */
	b->load_again.at_ns = 1;
	return -EAGAIN;
}

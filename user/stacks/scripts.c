/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/scripts.h"

#include "luajit_wire.h"
#include "perl_wire.h"
#include "php_wire.h"
#include "python_wire.h"
#include "ruby_wire.h"
#include "stacks/script_name.h"
#include "store/writer.h"
#include "symbols/python.h"
#include "util/array.h"
#include "util/idhash.h"
#include "util/quota.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CODES_MAX (1u << 17) /* of all processes; 48 bytes each */

static const char *const modules[SCRIPT_LANGUAGES] = { "[python]", "[php]", "[ruby]", "[perl]",
						       "[luajit]" };

struct code {
	uint64_t start_ns, code;
	uint32_t tgid, exec_id;
	uint32_t frame, user;
	struct wait_frame says; /* what the frame says of waits, where that is asked for */
};

struct scripts {
	struct store_writer *store;
	struct frame_reasons *reasons; /* NULL: not asked for */
	struct code *codes;
	size_t n, cap;
	struct quota quota; /* of codes */
	struct idhash hash;
	uint32_t module[SCRIPT_LANGUAGES], unknown[SCRIPT_LANGUAGES]; /* strings, frames */
	struct script_name name;				      /* in hand */
};

static int set_up(struct scripts *p)
{
	struct store_frame f = { .kind = FRAME_USER };
	int rc = store_add_string(p->store, "[unknown]", 9, &f.function);
	for (unsigned i = 0; !rc && i < SCRIPT_LANGUAGES; i++) {
		rc = store_add_string(p->store, modules[i], strlen(modules[i]), &p->module[i]);
		f.module = p->module[i];
		rc = rc ? rc : store_add_frame(p->store, &f, &p->unknown[i]);
	}
	return rc;
}

int scripts_new(struct scripts **ret, struct store_writer *w)
{
	struct scripts *p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	p->store = w;
	p->quota.max = CODES_MAX;
	int rc = set_up(p);
	if (rc) {
		scripts_free(p);
		return rc;
	}
	*ret = p;
	return 0;
}

void scripts_note_reasons(struct scripts *p, struct frame_reasons *r)
{
	p->reasons = r;
}

int scripts_renewed(struct scripts *p)
{
	int rc = set_up(p);
	for (size_t i = 0; !rc && i < p->n; i++) {
		rc = store_carry_frame(p->store, p->codes[i].frame, &p->codes[i].frame);
		if (!rc && p->reasons)
			frame_reasons_put(p->reasons, p->codes[i].frame, &p->codes[i].says);
	}
	if (rc) { /* better no names than wrong ones */
		p->n = 0;
		p->quota = (struct quota){ .max = CODES_MAX };
		idhash_clear(&p->hash);
	}
	return rc;
}

void scripts_free(struct scripts *p)
{
	if (!p)
		return;
	free(p->codes);
	script_name_fini(&p->name);
	idhash_fini(&p->hash);
	free(p);
}

/* ---- processes ---- */

static int python_layout_of(uint32_t version)
{
	return PYTHON_THREADS_AT(version) ? python_layout(version) : -1;
}

static int php_layout_of(uint32_t version)
{
	for (int i = 0; i < PHP_LAYOUTS; i++)
		if (php_layouts[i].api == version)
			return i;
	return -1;
}

static int ruby_layout_of(uint32_t version)
{
	for (int i = 0; i < RUBY_LAYOUTS && version & SCRIPT_WAY_MASK; i++)
		if (ruby_layouts[i].version && ruby_layouts[i].version == version >> 8)
			return i;
	return -1;
}

static int perl_layout_of(uint32_t version)
{
	for (int i = 0; i < PERL_LAYOUTS && version & SCRIPT_WAY_MASK; i++)
		if (perl_layouts[i].version &&
		    perl_layouts[i].version == PERL_VERSION_MINOR(version) &&
		    perl_layouts[i].size == PERL_VERSION_SIZE(version))
			return i;
	return -1;
}

static int luajit_layout_of(uint32_t version)
{
	for (int i = 0; i < LUAJIT_LAYOUTS; i++)
		if (luajit_layouts[i].hook &&
		    version == LUAJIT_VERSION(luajit_layouts[i].hook, luajit_layouts[i].dispatch))
			return i;
	return -1;
}

static int layout_of(const struct binary_script *s)
{
	switch (s->language) {
	case SCRIPT_PHP:
		return php_layout_of(s->version);
	case SCRIPT_RUBY:
		return ruby_layout_of(s->version);
	case SCRIPT_PERL:
		return perl_layout_of(s->version);
	case SCRIPT_LUAJIT:
		return luajit_layout_of(s->version);
	default:
		return python_layout_of(s->version);
	}
}

/*
 * Find an interpreter in the mappings of a process. Return its mapping, with the bias of that;
 * NULL: there is none.
 */
static const struct proc_map *find_script(struct resolver *r, const struct proc_image *im,
					  struct binary_script *ret, uint64_t *ret_bias)
{
	for (uint32_t i = 0; i < im->n_maps; i++) {
		const struct proc_map *m = &im->maps[i];
		struct binary *b = resolver_binary(r, im, m);
		if (b && !binary_script(b, ret) && !binary_bias(b, m->start, m->pgoff, ret_bias))
			return m;
	}
	return NULL;
}

bool scripts_are_python(struct resolver *r, const struct proc_image *im)
{
	struct binary_script s;
	uint64_t bias;
	return find_script(r, im, &s, &bias) && s.language == SCRIPT_PYTHON;
}

bool script_is_known(const struct binary_script *s)
{
	return layout_of(s) >= 0;
}

/* Is it a build of a known version, with other options? */
static bool is_other_perl(uint32_t v)
{
	bool known = false;
	for (int i = 0; i < PERL_LAYOUTS; i++)
		known |=
			perl_layouts[i].version && perl_layouts[i].version == PERL_VERSION_MINOR(v);
	return known && perl_layout_of(v) < 0;
}

void script_version(const struct binary_script *s, char ret[SCRIPT_VERSION_MAX])
{
	uint32_t v = s->version;
	if (s->language == SCRIPT_PYTHON && !v)
		snprintf(ret, SCRIPT_VERSION_MAX, "Py_Version");
	else if (s->language == SCRIPT_PYTHON)
		snprintf(ret, SCRIPT_VERSION_MAX, "%u.%u%s%s", v >> 24, v >> 16 & 0xff,
			 PYTHON_IS_FREE(v) ? "t" : "",
			 python_layout(v) < 0 || PYTHON_THREADS_AT(v) ? ""
								      : " of an unusual build");
	else if (s->language == SCRIPT_RUBY)
		snprintf(ret, SCRIPT_VERSION_MAX, "%u.%u%s", v >> 16, v >> 8 & 0xff,
			 v & SCRIPT_WAY_MASK ? "" : " of an unusual build");
	else if (s->language == SCRIPT_PERL)
		snprintf(ret, SCRIPT_VERSION_MAX, "5.%u%s", PERL_VERSION_MINOR(v),
			 is_other_perl(v) ? " of an unusual build" : "");
	else if (s->language == SCRIPT_LUAJIT && v == LUAJIT_UNUSUAL)
		snprintf(ret, SCRIPT_VERSION_MAX, "of an unusual build");
	else if (s->language == SCRIPT_LUAJIT)
		snprintf(ret, SCRIPT_VERSION_MAX, "offsets %u,%u", v >> 16, v & 0xffff);
	else if (PHP_API(v) == PHP_NO_API)
		snprintf(ret, SCRIPT_VERSION_MAX, "without API");
	else
		snprintf(ret, SCRIPT_VERSION_MAX, "API %u%s%s", PHP_API(v),
			 v & PHP_ZTS ? ",TS" : "", v & PHP_DEBUG ? ",debug" : "");
}

/* Return how code of the file finds its thread-local variable. */
static enum script_way local_way(const struct binary_script *s)
{
	return s->language == SCRIPT_RUBY || s->language == SCRIPT_PERL
		       ? (enum script_way)(s->version & SCRIPT_WAY_MASK)
		       : SCRIPT_NO_WAY;
}

/* Does the process run a program of Perl? Else it is a server, say, with Perl in it. */
static bool is_perl_program(const struct binary_script *s, const struct proc_image *im)
{
	const char *base = im->exe ? strrchr(im->exe->path, '/') : NULL;
	return local_way(s) == SCRIPT_BY_TP || (base && !strncmp(base + 1, "perl", 4));
}

/* Return how the chain of a thread is found, for SCRIPT_LAYOUT. */
static uint64_t way_of(const struct binary_script *s, const struct proc_image *im)
{
	if (s->language == SCRIPT_LUAJIT)
		return s->eval_size;
	if (s->language == SCRIPT_PYTHON)
		return PYTHON_WAY(s->version);
	if (s->language == SCRIPT_PERL && is_perl_program(s, im))
		return local_way(s) | PERL_IS_PROGRAM;
	return local_way(s);
}

bool scripts_locate(struct resolver *r, const struct proc_image *im, struct proc_entry *e,
		    struct binary_script *ret_unknown)
{
	uint64_t bias;
	const struct proc_map *m = find_script(r, im, ret_unknown, &bias);
	int layout = m ? layout_of(ret_unknown) : -1;
	bool known = m && layout >= 0 && ret_unknown->at;
	if (m && local_way(ret_unknown) == SCRIPT_BY_TP)
		bias = 0;
	e->script_at = known ? bias + ret_unknown->at : 0;
	e->script_layout =
		known ? SCRIPT_LAYOUT(ret_unknown->language, layout, way_of(ret_unknown, im)) : 0;
	return m && !known;
}

/* ---- code objects ---- */

static bool same_code(const void *ctx, uint32_t id, const void *key)
{
	const struct code *a = &((const struct scripts *)ctx)->codes[id], *b = key;
	return a->code == b->code && a->start_ns == b->start_ns && a->tgid == b->tgid &&
	       a->exec_id == b->exec_id;
}

static uint32_t hash_of(struct scripts *p, const struct code *c)
{
	const uint64_t key[3] = { c->code, c->start_ns, (uint64_t)c->exec_id << 32 | c->tgid };
	return idhash_hash(&p->hash, key, sizeof(key));
}

static int add_frame(struct scripts *p, const struct wire_script *w, struct code *c)
{
	struct store_frame f = { .kind = FRAME_USER, .line = w->line < INT32_MAX ? w->line : 0 };
	const unsigned language = SCRIPT_LANGUAGE(w->id);
	const struct buf *function = &p->name.function, *file = &p->name.file;
	int rc = language < SCRIPT_LANGUAGES ? script_name_read(&p->name, w) : -EBADMSG;
	if (rc)
		return rc;
	f.module = p->module[language];
	rc = store_add_string(p->store, (const char *)function->data, function->len - 1,
			      &f.function);
	if (!rc && file->len > 1)
		rc = store_add_string(p->store, (const char *)file->data, file->len - 1, &f.file);
	rc = rc ? rc
		: frame_reasons_add(p->reasons, p->store, &f,
				    &(struct frame_names){ (const char *)function->data,
							   modules[language],
							   (const char *)file->data },
				    &c->frame);
	if (!rc && p->reasons)
		c->says = *frame_reasons_get(p->reasons, c->frame);
	return rc;
}

void scripts_record(struct scripts *p, const struct wire_record *r, const void *payload,
		    uint32_t user)
{
	struct wire_script w = { 0 };
	if (r->size < offsetof(struct wire_script, text) || r->size > sizeof(w))
		return;
	memcpy(&w, payload, r->size);
	struct code c = { .start_ns = r->start_ns,
			  .code = w.id,
			  .tgid = r->tgid,
			  .exec_id = r->exec_id,
			  .user = user };
	if (add_frame(p, &w, &c))
		return;
	uint32_t hash = hash_of(p, &c), id = idhash_find(&p->hash, hash, same_code, p, &c);
	if (id != IDHASH_NONE) {
		c.user = p->codes[id].user;
		p->codes[id] = c; /* described again, after its entry was evicted */
		return;
	}
	if (ARRAY_RESERVE(p->codes, p->cap, p->n + 1) || idhash_reserve(&p->hash) ||
	    !quota_take(&p->quota, user, 1))
		return;
	p->codes[p->n] = c;
	idhash_put(&p->hash, hash, (uint32_t)p->n++);
}

uint32_t scripts_frame(const struct scripts *p, const struct row *row, uint64_t word)
{
	struct code c = { .start_ns = row->start_ns,
			  .code = word & ~SCRIPT_ENTRY,
			  .tgid = row->tgid,
			  .exec_id = row->exec_id };
	uint32_t id = idhash_find(&p->hash, hash_of((struct scripts *)p, &c), same_code, p, &c);
	const unsigned language = SCRIPT_LANGUAGE(word);
	return id != IDHASH_NONE ? p->codes[id].frame
				 : p->unknown[language < SCRIPT_LANGUAGES ? language : 0];
}

void scripts_forget(struct scripts *p, struct procs *procs)
{
	size_t n = 0;
	uint32_t last = 0;
	bool alive = false;
	for (size_t i = 0; i < p->n; i++) {
		if (!i || p->codes[i].tgid != last)
			alive = procs_find(procs, last = p->codes[i].tgid, UINT64_MAX) != NULL;
		if (alive)
			p->codes[n++] = p->codes[i];
		else
			quota_give(&p->quota, p->codes[i].user, 1);
	}
	if (n == p->n)
		return;
	p->n = n;
	idhash_clear(&p->hash);
	for (size_t i = 0; i < n && !idhash_reserve(&p->hash); i++)
		idhash_put(&p->hash, hash_of(p, &p->codes[i]), (uint32_t)i);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "attribute/ruled.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLACES 4096 /* images in the cache; an evicted one is read again */
#define ENVIRONMENT_MAX (128u * 1024)

struct ruled_image {
	uint32_t tgid;
	uint64_t from_ns;
	uint64_t drain; /* of the last read of the title; 0: it was never read */
	bool has_environment;
	/* from the environment; from all of it, title and cgroup included */
	struct rule_labels fixed, all;
};

struct ruled {
	struct rules *rules;
	struct ruled_image *place[PLACES];
	uint64_t drain;
	char buf[ENVIRONMENT_MAX];
};

int ruled_new(struct ruled **ret, const struct recipes *recipes, struct err *err)
{
	struct rules *rules = NULL;
	int rc = rules_new(&rules, recipes, err);
	if (rc || !rules) {
		*ret = NULL;
		return rc;
	}
	struct ruled *r = calloc(1, sizeof(*r));
	if (!r) {
		rules_free(rules);
		return err_sys(err, -ENOMEM, "rules");
	}
	r->rules = rules;
	r->drain = 1;
	*ret = r;
	return 0;
}

void ruled_free(struct ruled *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < PLACES; i++)
		free(r->place[i]);
	rules_free(r->rules);
	free(r);
}

void ruled_begin(struct ruled *r)
{
	if (r)
		r->drain++;
}

static struct ruled_image **place_of(struct ruled *r, const struct proc_image *im)
{
	uint64_t h = (im->from_ns ^ ((uint64_t)im->tgid << 32)) * 0x9e3779b97f4a7c15ull;
	return &r->place[h >> 32 & (PLACES - 1)];
}

/*
 * Read a file of the process into buf. *ret_len 0: nothing. -EINPROGRESS: no answer yet, or the
 * reader ended.
 */
static int read_text(struct ruled *r, const struct proc_image *im, const char *name, size_t cap,
		     size_t *ret_len)
{
	int rc = proc_read_text(im->tgid, name, r->buf, cap, ret_len);
	return rc == -EINPROGRESS || rc == -EINTR ? -EINPROGRESS : 0;
}

/*
 * Read the title into buf, with blanks between its parts. *ret_len 0: none. -EINPROGRESS: no answer
 * yet.
 */
static int read_title(struct ruled *r, const struct proc_image *im, size_t *ret_len)
{
	size_t len = 0;
	if (read_text(r, im, "cmdline", RULE_TEXT_MAX, &len))
		return -EINPROGRESS;
	while (len && !r->buf[len - 1])
		len--;
	for (size_t i = 0; i < len; i++)
		if (!r->buf[i])
			r->buf[i] = ' ';
	*ret_len = len;
	return 0;
}

/* In the middle of an exec there is nothing to read, although its mappings have been reported. */
static int read_environment(struct ruled *r, const struct proc_image *im, struct ruled_image *p)
{
	size_t len = 0;
	if (read_text(r, im, "environ", sizeof(r->buf), &len))
		return -EINPROGRESS;
	rules_environment(r->rules, im->exe->path, r->buf, len, &p->fixed);
	p->has_environment = len > 0;
	return 0;
}

/* The texts are in the struct: let the labels point into the copy. */
static void copy_labels(struct rule_labels *to, const struct rule_labels *from)
{
	*to = *from;
	for (size_t i = 0; i < to->n; i++)
		to->v[i].str = to->text[i];
}

/*
 * Read what may have changed since the drain before. -EINPROGRESS: not all of it has an answer yet.
 */
static int update(struct ruled *r, const struct proc_image *im, const char *cgroup,
		  struct ruled_image *p)
{
	const char *exe = im->exe->path;
	bool alive = im->to_ns == UINT64_MAX, wants = rules_want_title(r->rules, exe);
	size_t len = 0;
	int rc = 0;
	if (!p->has_environment && alive && rules_want_environment(r->rules, exe))
		rc = read_environment(r, im, p);
	if (!rc && wants && alive)
		rc = read_title(r, im, &len);
	if (rc || (p->drain && wants && !len)) /* it has ended: keep the last title */
		return rc;
	p->drain = r->drain;
	copy_labels(&p->all, &p->fixed);
	if (wants)
		rules_title(r->rules, exe, r->buf, len, &p->all);
	if (cgroup)
		rules_cgroup(r->rules, exe, cgroup, strlen(cgroup), &p->all);
	return 0;
}

size_t ruled_labels(struct ruled *r, const struct proc_image *im, const char *cgroup,
		    const struct label **ret, bool *ret_late)
{
	*ret_late = false;
	if (!r || !im || !im->exe)
		return 0;
	struct ruled_image **at = place_of(r, im), *p = *at;
	if (!p)
		p = *at = calloc(1, sizeof(*p));
	if (!p)
		return 0;
	if (p->tgid != im->tgid || p->from_ns != im->from_ns) {
		p->tgid = im->tgid;
		p->from_ns = im->from_ns;
		p->drain = 0;
		p->fixed.n = p->all.n = 0;
		p->has_environment = false;
	}
	if (p->drain != r->drain)
		*ret_late = update(r, im, cgroup, p) && !p->drain;
	*ret = p->all.v;
	return p->all.n;
}

void ruled_look(struct ruled *r, const struct proc_image *im)
{
	const struct label *none;
	bool late;
	if (!r || !im || !im->exe)
		return;
	const struct ruled_image *p = *place_of(r, im);
	if (!p || p->tgid != im->tgid || p->from_ns != im->from_ns || !p->drain)
		ruled_labels(r, im, im->cgroup, &none, &late);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Documents of tests/unit/pods, and what pods_parse says of a document. */
#ifndef TESTS_PODS_DOCUMENTS_H
#define TESTS_PODS_DOCUMENTS_H

#include "pods/parse.h"
#include "util/buf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define RECORDS_MAX 128

#define UID "0b5e3a52-6f0e-4c1e-9a7b-2f4d8c1e0001"
#define ID "a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1"

static const struct pods_wanted wanted __attribute__((unused)) = {
	.n_labels = 2,
	.n_annotations = 1,
	.key = { "team", "absent", "example.com/contact" },
};

/* Two digits, 32 times. */
static inline void assert_container(const struct pod_record *r, unsigned i, const char *two,
				    const char *name)
{
	char id[POD_ID_MAX] = "";
	for (int k = 0; k < 32; k++)
		memcpy(id + 2 * k, two, 3);
	assert_true(i < r->n_containers);
	assert_string_equal(r->container[i].id, id);
	assert_string_equal(r->container[i].name, name);
}

static inline void assert_pod(const struct pod_record *r, const char *namespace, const char *name,
			      const char *kind, const char *workload)
{
	assert_int_equal(r->what, POD_SEEN);
	assert_string_equal(r->namespace, namespace);
	assert_string_equal(r->name, name);
	assert_string_equal(r->kind, kind);
	assert_string_equal(r->workload, workload);
}

struct parsed {
	int rc;
	struct pods_page page;
	struct pod_record r[RECORDS_MAX]; /* the first of them */
	size_t n;
};

static inline struct buf document(const char *name)
{
	char path[128];
	struct buf b = BUF_INIT;
	snprintf(path, sizeof(path), "tests/unit/pods/%s", name);
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	while (!feof(f)) {
		assert_int_equal(buf_reserve(&b, 4096), 0);
		b.len += fread(b.data + b.len, 1, 4096, f);
	}
	fclose(f);
	return b;
}

static inline void keep_record(void *ctx, const struct pod_record *r)
{
	struct parsed *p = ctx;
	struct pod_record copy = *r;
	assert_true(pod_record_check(&copy, sizeof(copy)));
	assert_memory_equal(&copy, r, sizeof(copy)); /* the check had nothing to repair */
	if (p->n < RECORDS_MAX)
		p->r[p->n] = *r;
	p->n++;
}

/* The bytes are copied to the end of an allocation: sanitizers see who reads beyond. */
static inline struct parsed *parse(enum pods_format f, const struct pods_wanted *want,
				   const char *node, const void *bytes, size_t len)
{
	static const struct pods_wanted nothing;
	static struct parsed p;
	uint8_t *copy = malloc(len ? len : 1);
	assert_non_null(copy);
	memcpy(copy, bytes, len);
	memset(&p, 0, sizeof(p));
	p.rc = pods_parse(f, want ? want : &nothing, node, copy, len, keep_record, &p, &p.page);
	free(copy);
	return &p;
}

static inline struct parsed *parse_text(enum pods_format f, const char *text)
{
	return parse(f, NULL, "", text, strlen(text));
}

/* A pod as JSON; the texts go in as they are. */
static inline char *pod_json(const char *uid, const char *namespace, const char *name,
			     const char *more_metadata, const char *status)
{
	char *out = NULL;
	assert_true(asprintf(&out,
			     "{\"metadata\":{\"name\":\"%s\",\"namespace\":\"%s\",\"uid\":\"%s\"%s}"
			     ",\"spec\":{\"nodeName\":\"node1\"},\"status\":{%s}}",
			     name, namespace, uid, more_metadata, status) > 0);
	return out;
}

/* A list of this one pod, which is freed. */
static inline struct parsed *parse_pod_json(const struct pods_wanted *want, char *pod)
{
	char *list = NULL;
	assert_true(asprintf(&list, "{\"kind\":\"PodList\",\"metadata\":{},\"items\":[%s]}", pod) >
		    0);
	struct parsed *p = parse(PODS_JSON_LIST, want, "", list, strlen(list));
	free(list);
	free(pod);
	return p;
}

#endif

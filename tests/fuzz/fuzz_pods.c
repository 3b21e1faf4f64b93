/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: what sources of pods answer. Every record passes its check as it is, names only what
 * was asked for, and goes into a small table that keeps its bound. The answer is a list of all
 * pods, then one of a node's pods alone, then an empty list, after which the pods are forgotten.
 *
 * The first byte chooses the format: 'A' + enum pods_format: lists of Kubernetes' API and of the
 * kubelet, a watch, CRI's containers and sandboxes, the engine of docker and podman. Behind them: a
 * record, as a parser that was taken over may send it, of which the bytes of the input come first.
 *
 * Covers: pods/parse.c pods/parse_*.c pods/record.c pods/table*.c
 */
#include "fuzz/protobuf.h"
#include "pods/parse.h"
#include "pods/table.h"

#define TABLE_BYTES 16384

static const struct pods_wanted wanted = {
	.n_labels = 2,
	.n_annotations = 2,
	.key = { "team", "app", "a", "example.com/contact" },
};

struct fuzzed {
	struct pods_table *table;
	uint64_t now_ns;
};

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
	if (size && (data[0] == 'A' + PODS_CRI_CONTAINERS || data[0] == 'A' + PODS_CRI_SANDBOXES))
		return protobuf_mutate_behind(1, data, size, max, seed);
	return LLVMFuzzerMutate(data, size, max);
}

static void take(void *ctx, const struct pod_record *r)
{
	static struct pod_record copy;
	struct fuzzed *f = ctx;
	struct pods_names names;
	struct pods_table_stats stats;
	copy = *r;
	require(pod_record_check(&copy, sizeof(copy)));
	require(!memcmp(&copy, r, sizeof(copy)));
	for (uint16_t i = 0; i < r->n_extra; i++)
		require(r->extra[i].wanted < wanted.n_labels + wanted.n_annotations);
	pods_table_apply(f->table, r, f->now_ns += 60000000000);
	pods_table_stats(f->table, &stats);
	require(stats.bytes <= TABLE_BYTES && stats.gone <= stats.pods);
	const char *id = r->n_containers ? r->container[0].id : "";
	if (pods_table_find(f->table, id, strlen(id), r->uid, strlen(r->uid), &names))
		require(names.uid || !r->uid[0] || names.container);
}

/* A message of the watcher that has no pod. */
static void tell(struct fuzzed *f, enum pod_what what)
{
	pods_table_apply(f->table, &(struct pod_record){ .what = (uint8_t)what }, f->now_ns);
}

static void take_list(struct fuzzed *f, enum pods_format format, const char *node,
		      const uint8_t *document, size_t len)
{
	struct pods_page page;
	tell(f, POD_LIST_BEGIN);
	if (!pods_parse(format, &wanted, node, document, len, take, f, &page))
		require(memchr(page.version, 0, sizeof(page.version)) &&
			memchr(page.next, 0, sizeof(page.next)) &&
			memchr(page.message, 0, sizeof(page.message)) && page.status >= 0);
	tell(f, POD_LIST_END);
}

static void take_record(struct pods_table *t, const uint8_t *data, size_t size)
{
	static struct pod_record r;
	struct pods_names names;
	require(!pod_record_check(&r, sizeof(r) - 1));
	memset(&r, 0, sizeof(r));
	memcpy(&r, data, size < sizeof(r) ? size : sizeof(r));
	if (!pod_record_check(&r, sizeof(r)))
		return;
	pods_table_apply(t, &r, 0);
	pods_table_find(t, r.container[0].id, strlen(r.container[0].id), r.cgroup_uid,
			strlen(r.cgroup_uid), &names);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzzed f = { 0 };
	struct pods_table_stats stats;
	if (!size || (uint8_t)(data[0] - 'A') > PODS_FORMATS)
		return 0;
	const enum pods_format format = (enum pods_format)(data[0] - 'A');
	uint8_t *copy = malloc(size); /* no byte behind the document */
	require(copy != NULL);
	memcpy(copy, data + 1, size - 1);
	copy = realloc(copy, size - 1 ? size - 1 : 1);
	if (!well(pods_table_new(&f.table, TABLE_BYTES))) {
		free(copy);
		return 0;
	}
	if (format == PODS_FORMATS)
		take_record(f.table, copy, size - 1);
	take_list(&f, format, "", copy, size - 1);
	take_list(&f, format, "node1", copy, size - 1);
	tell(&f, POD_LIST_BEGIN);
	tell(&f, POD_LIST_END);
	tell(&f, POD_LIST_END);
	f.now_ns += PODS_GONE_NS;
	tell(&f, POD_STATE);
	pods_table_stats(f.table, &stats);
	require(!stats.pods);
	pods_table_free(f.table);
	free(copy);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: what sources of pods answer. Every record passes its check as it is, names only what
 * was asked for, and goes into a small table that keeps its bound.
 *
 * The first byte chooses the format: 'A' + enum pods_format: lists of Kubernetes' API and of the
 * kubelet, a watch, CRI's containers and sandboxes, the engine of docker and podman.
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzzed f = { 0 };
	struct pods_page page;
	if (!size || (uint8_t)(data[0] - 'A') >= PODS_FORMATS)
		return 0;
	uint8_t *copy = malloc(size); /* no byte behind the document */
	require(copy != NULL);
	memcpy(copy, data + 1, size - 1);
	copy = realloc(copy, size - 1 ? size - 1 : 1);
	if (!well(pods_table_new(&f.table, TABLE_BYTES))) {
		free(copy);
		return 0;
	}
	int rc = pods_parse((enum pods_format)(data[0] - 'A'), &wanted, size % 2 ? "node1" : "",
			    copy, size - 1, take, &f, &page);
	if (!rc)
		require(memchr(page.version, 0, sizeof(page.version)) &&
			memchr(page.next, 0, sizeof(page.next)) &&
			memchr(page.message, 0, sizeof(page.message)) && page.status >= 0);
	pods_table_free(f.table);
	free(copy);
	return 0;
}

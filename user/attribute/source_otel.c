/* SPDX-License-Identifier: Apache-2.0 */
/* OpenTelemetry's process context: the names of attributes, which the process publishes. */
#include "attribute/sources_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define OTEL_SOON_NS 2000000ull
#define OTEL_AGAIN_NS 200000000ull

/* Find the address of the mapping that holds it; 0: none. False: no answer yet. */
static bool otel_mapping(uint32_t tgid, uint64_t *ret)
{
	*ret = 0;
	return proc_find_mapping(tgid, "[anon_shmem:OTEL_CTX]\n[anon:OTEL_CTX]\n/memfd:OTEL_CTX",
				 ret) != -EINPROGRESS;
}

/* Programs publish it when they begin: look for it often at first. */
static bool otel_locate(struct source_list *list, uint32_t tgid)
{
	uint64_t now = proc_now_ns();
	if (list->otel_at)
		return true;
	if (list->otel_looked_ns &&
	    now - list->otel_looked_ns < (list->otel_looks < 100 ? OTEL_SOON_NS : OTEL_AGAIN_NS))
		return false;
	if (!otel_mapping(tgid, &list->otel_at))
		return false;
	list->otel_looked_ns = now;
	list->otel_looks++;
	return list->otel_at;
}

void source_list_forget_otel(struct source_list *list)
{
	free(list->otel_message);
	list->otel_message = NULL;
	list->otel_head.size = 0;
}

/* Read the head, unless it was read. 0; -EALREADY: its names are in use. */
static int otel_read_head(struct source_list *list, uint32_t tgid)
{
	struct otel_context_head h;
	if (list->otel_head.size)
		return 0;
	int rc = proc_read_memory(tgid, list->otel_at, &h, sizeof(h));
	if (rc)
		return rc;
	if (memcmp(h.signature, "OTEL_CTX", 8) || h.version != 2 || !h.published_ns || !h.size ||
	    h.size > OTEL_CONTEXT_MAX)
		return -EBADMSG;
	if (h.published_ns == list->otel_published_ns)
		return -EALREADY;
	list->otel_head = h;
	return 0;
}

static int otel_read_message(struct source_list *list, uint32_t tgid)
{
	if (list->otel_message)
		return 0;
	void *message = malloc(list->otel_head.size);
	int rc = message ? proc_read_memory(tgid, list->otel_head.message, message,
					    list->otel_head.size)
			 : -ENOMEM;
	if (rc)
		free(message);
	else
		list->otel_message = message;
	return rc;
}

/*
 * In steps, each of which may have no answer yet: head, message, and the head again, which must not
 * have changed.
 */
void sources_read_otel(struct source_list *list, uint32_t tgid)
{
	struct otel_context_head again;
	int rc = otel_locate(list, tgid) ? otel_read_head(list, tgid) : -EINPROGRESS;
	rc = rc ? rc : otel_read_message(list, tgid);
	rc = rc ? rc : proc_read_memory(tgid, list->otel_at, &again, sizeof(again));
	if (rc == -EINPROGRESS)
		return;
	if (!rc && !memcmp(&list->otel_head, &again, sizeof(again)) &&
	    !otel_context_parse(&list->otel, list->otel_message, list->otel_head.size)) {
		list->otel_published_ns = again.published_ns;
		for (uint32_t i = 0; i < list->n; i++) {
			list->decoder[i].keys = list->otel.keys;
			list->decoder[i].n_keys = list->otel.n_keys;
		}
	}
	source_list_forget_otel(list);
}

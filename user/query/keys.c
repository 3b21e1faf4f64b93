/* SPDX-License-Identifier: Apache-2.0 */
/* Label keys that the recorder or the query itself gives a meaning. */
#include "query/query.h"

#include "query/query_int.h"
#include "query/selector.h"

#include <errno.h>
#include <string.h>

static bool is_thread_key(const char *key)
{
	return !strcmp(key, "tgid") || !strcmp(key, "tid") || !strcmp(key, "thread");
}

bool query_of_threads(const char *where, const char *const *keys, size_t n_keys)
{
	const char *used[SELECTOR_KEYS_MAX];
	struct selector *s = NULL;
	bool found = false;
	for (size_t i = 0; i < n_keys; i++)
		found |= is_thread_key(keys[i]);
	if (selector_parse(&s, where, NULL, NULL))
		return found;
	size_t n = selector_keys(s, used, SELECTOR_KEYS_MAX);
	for (size_t i = 0; i < n; i++)
		found |= is_thread_key(used[i]);
	selector_free(s);
	return found;
}

bool query_is_wait_key(const char *key)
{
	return !strcmp(key, "wait") || !strcmp(key, "wait_in") ||
	       !strcmp(key, QUERY_WAKER_FUNCTION);
}

bool query_by_stack(const struct query *q, const char *key)
{
	return (q->woken && !strcmp(key, QUERY_WAKER_FUNCTION)) ||
	       (q->blocked && !strcmp(key, "wait")) || (q->waits && !strcmp(key, "wait_in"));
}

int query_check_key(const struct query *q, const char *key, struct err *err)
{
	struct err ignored;
	bool has = true; /* a program may have a label of this name */
	if (!q->info.event || !query_is_wait_key(key) || query_by_stack(q, key) ||
	    store_has_key(q->store, key, &has, &ignored) || has)
		return 0;
	return err_set(err, -EINVAL, "%s has no `%s`: %s", q->info.event->name, key,
		       !strcmp(key, "wait")	 ? "ask by it with metric off"
		       : !strcmp(key, "wait_in") ? "ask by it with metric off or runq"
						 : "ask by it with metric waker");
}

/* What the recorder says of any sample, also of that of an idle CPU. */
bool query_is_system_key(const char *key)
{
	static const char *const keys[] = { "comm",	     "tgid",	"tid",	     "thread",
					    "exe",	     "parent",	"service",   "cmdline",
					    "cgroup",	     "unit",	"container", "container_id",
					    "pod",	     "pod_uid", "namespace", "workload",
					    "workload_kind", "node" };
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (!strcmp(key, keys[i]))
			return true;
	return false;
}

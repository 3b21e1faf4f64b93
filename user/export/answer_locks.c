/* SPDX-License-Identifier: Apache-2.0 */
#include "export/answer_int.h"

#include <errno.h>
#include <string.h>

#define FRAMES_MAX 32 /* of a stack that is answered */

static json_t *name_json(const struct blame_party *p)
{
	return p->kind == BLAME_VALUE ? json_string_of(p->name) : json_null();
}

static bool is_nobody(const struct blame_party *p)
{
	return p->kind == BLAME_IDLE || p->kind == BLAME_INTERRUPT || p->kind == BLAME_OTHER;
}

static int add_frame(void *ctx, const char *function)
{
	json_t *list = ctx;
	if (json_array_size(list) == FRAMES_MAX)
		return 1;
	return json_array_append_new(list, json_string_of(function)) ? -ENOMEM : 0;
}

static int put_stack(json_t *o, const struct answer *a, const struct query_locks *l,
		     const struct query_lock *k)
{
	const struct store_frame *f = store_frame(a->store, k->frame);
	json_t *list = json_array();
	char name[1024];
	int rc = list ? query_locks_frames(l, k->stack, add_frame, list) : -ENOMEM;
	rc = rc < 0 ? rc : json_put(o, "stack", json_incref(list));
	json_decref(list);
	rc = rc ? rc : json_put(o, "stack_seconds", json_real((double)k->stack_ns / 1e9));
	query_frame_name(a->store, k->frame, name, sizeof(name));
	rc = rc ? rc : json_put(o, "function", k->stack ? json_string_of(name) : json_null());
	return rc ? rc
		  : json_put(o, "module",
			     k->stack && f ? json_string_of(store_string(a->store, f->module, NULL))
					   : json_null());
}

static json_t *lock_json(const struct answer *a, const struct query_locks *l,
			 const struct query_lock *k)
{
	json_t *o = json_object();
	bool holds = !strcmp(k->is, "holder");
	int rc = json_put(o, "victim", name_json(&k->victim));
	rc = rc ? rc : json_put(o, "by", name_json(&k->by));
	if (is_nobody(&k->by))
		rc = rc ? rc : json_put(o, "nobody", json_string_of(k->by.name));
	rc = rc ? rc : json_put(o, "is", *k->is ? json_string_of(k->is) : json_null());
	rc = rc ? rc : json_put(o, "holder", holds ? name_json(&k->by) : json_null());
	rc = rc ? rc : json_put(o, "kind", *k->kind ? json_string_of(k->kind) : json_null());
	rc = rc ? rc : json_put(o, "lock", k->name ? json_string_of(k->name) : json_null());
	rc = rc ? rc : json_put(o, "seconds", json_real((double)k->ns / 1e9));
	rc = rc ? rc : json_put(o, "share", json_real(l->ns ? (double)k->ns / (double)l->ns : 0));
	rc = rc ? rc : put_stack(o, a, l, k);
	return json_done(o, rc);
}

json_t *answer_locks(const struct answer *a, const char *key, const struct query_locks *l)
{
	const struct query_info *info = query_info(l->query);
	json_t *o = json_object(), *rows = json_array();
	int rc = o && rows ? 0 : -ENOMEM;
	for (size_t i = 0; !rc && i < l->n; i++)
		rc = json_array_append_new(rows, lock_json(a, l, &l->v[i])) ? -ENOMEM : 0;
	rc = rc ? rc : json_put(o, "key", json_string_of(key));
	rc = rc ? rc : json_put(o, "locks", json_incref(rows));
	rc = rc ? rc : json_put(o, "n_locks", json_count(l->n_all));
	rc = rc ? rc : json_put(o, "seconds", json_real((double)l->ns / 1e9));
	rc = rc ? rc : json_put(o, "where", json_string_of(a->where));
	rc = rc ? rc : json_put(o, "from", json_time(info->from_ns));
	rc = rc ? rc : json_put(o, "to", json_time(info->to_ns));
	rc = rc ? rc : answer_add_read(o, info);
	rc = rc ? rc : answer_accounting(o, a->store, info);
	json_decref(rows);
	return json_done(o, rc);
}

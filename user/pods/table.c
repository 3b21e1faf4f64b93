/* SPDX-License-Identifier: Apache-2.0 */
#include "pods/table.h"
#include "pods/table_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

_Static_assert(POD_UID_MAX <= 64, "a uid is never taken for 32 bytes of an id");

#define ENTRY_OF(n) LIST_ENTRY(n, struct table_entry, node)

static void add_container(struct pods_table *t, struct table_entry *e, struct table_container *c)
{
	c->key.of = e;
	c->list = t->list;
	c->next = e->containers;
	e->containers = c;
	table_key_add(t, &t->by_id, &c->key);
	t->stats.containers++;
}

/* Forget a container; at: the pointer to it. */
static void drop_container(struct pods_table *t, struct table_container **at)
{
	struct table_container *c = *at;
	size_t size = table_container_size(c);
	*at = c->next;
	table_key_remove(&t->by_id, &c->key);
	table_release(t, c, size);
	t->stats.containers--;
}

static void forget(struct pods_table *t, struct table_entry *e)
{
	while (e->containers)
		drop_container(t, &e->containers);
	table_key_remove(&t->by_uid, &e->uid);
	table_key_remove(&t->by_cgroup_uid, &e->cgroup_uid);
	list_remove(e->gone ? &t->gone : &t->there, &e->node);
	table_texts_free(t, e->texts);
	table_release(t, e, sizeof(*e));
}

/* Those whose time is over. */
static void forget_old(struct pods_table *t, uint64_t now_ns)
{
	struct table_entry *e;
	while ((e = ENTRY_OF(t->gone.first)) && now_ns >= e->gone_ns &&
	       now_ns - e->gone_ns >= PODS_GONE_NS)
		forget(t, e);
}

/* Room for `more` bytes after `less` others are freed. */
static bool make_room(struct pods_table *t, size_t more, size_t less)
{
	while (t->stats.bytes - less + more > t->max_bytes) {
		struct table_entry *e = ENTRY_OF(t->gone.first);
		if (!e)
			return false;
		forget(t, e);
		t->stats.forgotten++;
	}
	return true;
}

/* The container of this entry, or of an entry without a pod where e is NULL. */
static struct table_container *find_container(const struct pods_table *t,
					      const struct table_entry *e, const char *id)
{
	uint8_t room[32];
	struct table_key k = table_key_of(&t->by_id, id, strlen(id), room), *i = NULL;
	while ((i = table_key_next(&t->by_id, &k, i)))
		if (e ? i->of == e : !i->of->uid.len)
			return LIST_ENTRY(i, struct table_container, key);
	return NULL;
}

static struct table_entry *find_entry(const struct pods_table *t, const struct pod_record *r)
{
	if (!r->uid[0]) {
		struct table_container *c = find_container(t, NULL, r->container[0].id);
		return c ? c->key.of : NULL;
	}
	uint8_t room[32];
	struct table_key k = table_key_of(&t->by_uid, r->uid, strlen(r->uid), room);
	struct table_key *found = table_key_next(&t->by_uid, &k, NULL);
	return found ? found->of : NULL;
}

static void come_back(struct pods_table *t, struct table_entry *e)
{
	if (!e->gone)
		return;
	list_remove(&t->gone, &e->node);
	list_append(&t->there, &e->node);
	e->gone = false;
}

static void go(struct pods_table *t, struct table_entry *e, uint64_t now_ns)
{
	if (e->gone)
		return;
	list_remove(&t->there, &e->node);
	list_append(&t->gone, &e->node);
	e->gone = true;
	e->gone_ns = now_ns;
}

/* What the record takes, and what its entry (may be NULL) frees for it. */
static size_t cost_of(const struct pods_table *t, const struct pod_record *r,
		      const struct table_entry *e, size_t *ret_freed)
{
	size_t more = table_texts_cost(r, e ? e->texts : NULL), freed = 0;
	for (uint16_t i = 0; i < r->n_containers; i++) {
		const struct table_container *c = NULL;
		more += table_container_cost(&r->container[i]);
		if (e && r->merge)
			c = find_container(t, e, r->container[i].id);
		freed += c ? table_cost(table_container_size(c)) : 0;
	}
	if (!e)
		more += table_cost(sizeof(*e));
	else
		freed += table_cost(e->texts->size);
	for (const struct table_container *c = e && !r->merge ? e->containers : NULL; c;
	     c = c->next)
		freed += table_cost(table_container_size(c));
	*ret_freed = freed;
	return more;
}

/* The record's parts, before anything of the table changes. */
struct parts {
	struct table_texts *texts;
	struct table_container *containers[POD_CONTAINERS_MAX];
};

static void free_parts(struct pods_table *t, struct parts *parts)
{
	table_texts_free(t, parts->texts);
	for (size_t i = 0; i < POD_CONTAINERS_MAX && parts->containers[i]; i++)
		table_container_free(t, parts->containers[i]);
}

static bool make_parts(struct pods_table *t, const struct pod_record *r,
		       const struct table_entry *e, struct parts *ret)
{
	*ret = (struct parts){ .texts = table_texts_new(t, r, e ? e->texts : NULL) };
	bool ok = ret->texts;
	for (uint16_t i = 0; ok && i < r->n_containers; i++) {
		ret->containers[i] = table_container_new(t, &r->container[i]);
		ok = ret->containers[i];
	}
	if (!ok)
		free_parts(t, ret);
	return ok;
}

static void set_uid(struct pods_table *t, struct table_hash *h, struct table_entry *e,
		    struct table_key *k, char *to, const char *uid)
{
	uint8_t room[32];
	size_t n = strlen(uid);
	table_key_remove(h, k);
	memmove(to, uid, n + 1);
	*k = table_key_of(h, to, n, room);
	k->of = e;
	if (n)
		table_key_add(t, h, k);
}

static struct table_entry *add_entry(struct pods_table *t, const char *uid)
{
	struct table_entry *e = table_alloc(t, sizeof(*e));
	if (!e)
		return NULL;
	set_uid(t, &t->by_uid, e, &e->uid, e->uid_text, uid);
	list_append(&t->there, &e->node);
	return e;
}

static void take_parts(struct pods_table *t, const struct pod_record *r, struct table_entry *e,
		       const struct parts *parts)
{
	table_texts_free(t, e->texts);
	e->texts = parts->texts;
	if (r->cgroup_uid[0] || !r->merge)
		set_uid(t, &t->by_cgroup_uid, e, &e->cgroup_uid, e->cgroup_uid_text, r->cgroup_uid);
	while (!r->merge && e->containers)
		drop_container(t, &e->containers);
	for (uint16_t i = 0; i < r->n_containers; i++) {
		struct table_container **at = &e->containers;
		struct table_container *same = find_container(t, e, r->container[i].id);
		while (same && *at != same)
			at = &(*at)->next;
		if (same)
			drop_container(t, at);
		add_container(t, e, parts->containers[i]);
	}
}

/* A record without room leaves the entry as it was, as if the list had named all of it. */
static void refuse(struct pods_table *t, struct table_entry *e)
{
	t->stats.refused++;
	for (struct table_container *c = e ? e->containers : NULL; c; c = c->next)
		c->list = t->list;
}

static void see(struct pods_table *t, const struct pod_record *r)
{
	struct table_entry *e = find_entry(t, r);
	struct parts parts;
	size_t freed, more;
	if (e) {
		come_back(t, e);
		e->list = t->list;
	}
	more = cost_of(t, r, e, &freed);
	if (!make_room(t, more, freed) || !make_parts(t, r, e, &parts)) {
		refuse(t, e);
		return;
	}
	if (!e && !(e = add_entry(t, r->uid))) {
		free_parts(t, &parts);
		refuse(t, NULL);
		return;
	}
	e->list = t->list;
	take_parts(t, r, e, &parts);
}

static void end_list(struct pods_table *t, uint64_t now_ns)
{
	if (!t->listing)
		return;
	t->listing = false;
	for (struct list_node *n = t->there.first, *next; n; n = next) {
		struct table_entry *e = ENTRY_OF(n);
		next = n->after;
		if (e->list != t->list) {
			go(t, e, now_ns);
			continue;
		}
		for (struct table_container **at = &e->containers; *at;) {
			if ((*at)->list != t->list)
				drop_container(t, at);
			else
				at = &(*at)->next;
		}
	}
}

void pods_table_apply(struct pods_table *t, const struct pod_record *r, uint64_t now_ns)
{
	struct table_entry *e;
	forget_old(t, now_ns);
	switch ((enum pod_what)r->what) {
	case POD_SEEN:
		see(t, r);
		break;
	case POD_GONE:
		e = find_entry(t, r);
		if (e)
			go(t, e, now_ns);
		break;
	case POD_LIST_BEGIN:
		t->list++;
		t->listing = true;
		break;
	case POD_LIST_END:
		end_list(t, now_ns);
		break;
	case POD_STATE:
		break;
	}
}

/* Who has a key: see rule 5 of table.h. */
static struct table_key *owner_of(const struct table_hash *h, const char *text, size_t len)
{
	uint8_t room[32];
	struct table_key k = table_key_of(h, text, len, room), *there = NULL, *any = NULL;
	size_t n_there = 0, n = 0;
	for (struct table_key *i = NULL; (i = table_key_next(h, &k, i)); n++, any = i) {
		if (!i->of->gone) {
			there = i;
			n_there++;
		}
	}
	return n_there == 1 ? there : !n_there && n == 1 ? any : NULL;
}

static bool text_is(const char *text, const char *s, size_t len)
{
	return strlen(text) == len && !memcmp(text, s, len);
}

/* A cgroup path names the pod, too: a container of another pod is not meant. */
static bool fits(const struct table_entry *e, const char *uid, size_t len)
{
	return !len || !e->uid.len || text_is(e->uid_text, uid, len) ||
	       text_is(e->cgroup_uid_text, uid, len);
}

static struct table_entry *find_pod(const struct pods_table *t, const char *uid, size_t len)
{
	struct table_key *k = owner_of(&t->by_uid, uid, len);
	if (!k)
		k = owner_of(&t->by_cgroup_uid, uid, len);
	return k ? k->of : NULL;
}

bool pods_table_find(const struct pods_table *t, const char *id, size_t id_len, const char *uid,
		     size_t uid_len, struct pods_names *ret)
{
	const struct table_key *k = owner_of(&t->by_id, id, id_len);
	const struct table_entry *e = k && fits(k->of, uid, uid_len) ? k->of : NULL;
	const struct table_container *c = e ? LIST_ENTRY(k, struct table_container, key) : NULL;
	if (!e)
		e = find_pod(t, uid, uid_len);
	if (!e)
		return false;
	*ret = (struct pods_names){ .uid = e->uid.len ? e->uid_text : NULL,
				    .namespace = e->texts->namespace,
				    .pod = e->texts->pod,
				    .kind = e->texts->kind,
				    .workload = e->texts->workload,
				    .container = c && *c->name ? c->name : NULL };
	memcpy(ret->extra, e->texts->extra, sizeof(ret->extra));
	return true;
}

void pods_table_stats(const struct pods_table *t, struct pods_table_stats *ret)
{
	*ret = t->stats;
	ret->pods = t->there.n + t->gone.n;
	ret->gone = t->gone.n;
}

static void free_all(struct pods_table *t, struct list *l)
{
	struct table_entry *e;
	while ((e = ENTRY_OF(l->first)))
		forget(t, e);
}

int pods_table_new(struct pods_table **ret, size_t bytes)
{
	struct pods_table *t = calloc(1, sizeof(*t));
	uint64_t seed;
	if (!t)
		return -ENOMEM;
	t->stats.bytes = table_cost(sizeof(*t));
	t->max_bytes = bytes;
	/* Ids are the choice of others. Without randomness they may choose long chains. */
	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
		seed = 1;
	struct table_hash *all[] = { &t->by_id, &t->by_uid, &t->by_cgroup_uid };
	for (size_t i = 0; i < 3; i++) {
		all[i]->seed = seed + 2 * i;
		table_hash_grow(t, all[i]);
		if (!all[i]->cap) {
			pods_table_free(t);
			return -ENOMEM;
		}
	}
	*ret = t;
	return 0;
}

void pods_table_free(struct pods_table *t)
{
	if (!t)
		return;
	free_all(t, &t->there);
	free_all(t, &t->gone);
	free(t->by_id.bucket);
	free(t->by_uid.bucket);
	free(t->by_cgroup_uid.bucket);
	free(t);
}

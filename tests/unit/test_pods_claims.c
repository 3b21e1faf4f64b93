/* SPDX-License-Identifier: Apache-2.0 */
/* Who has an id or a uid: random records in the table of pods against a plain array. */
#include "pods_table.h"

#define MODEL_PODS 14
#define MODEL_IDS 12
#define MODEL_UIDS 8 /* the first are pods' */

struct model_entry {
	bool known, gone;
	uint64_t gone_ns, list;
	int cgroup_uid;		   /* -1: none */
	unsigned texts;		   /* number of the record that they came from */
	uint64_t has[MODEL_IDS];   /* number of the record that named it; 0: not there */
	uint64_t named[MODEL_IDS]; /* list */
};

static struct model {
	struct model_entry
		e[MODEL_PODS]; /* those from MODEL_UIDS on have no pod, and id N - UIDS */
	uint64_t list;
	bool listing;
} m;

static uint64_t seed = 7;

static unsigned pick(unsigned n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (unsigned)(seed >> 33) % n;
}

static void model_see(unsigned i, const struct pod_record *r, unsigned number, int cgroup_uid,
		      const bool *ids)
{
	struct model_entry *e = &m.e[i];
	if (!e->known || !r->merge) {
		memset(e->has, 0, sizeof(e->has));
		e->cgroup_uid = -1;
	}
	e->known = true;
	e->gone = false;
	e->list = m.list;
	e->texts = number;
	if (cgroup_uid >= 0)
		e->cgroup_uid = cgroup_uid;
	for (unsigned k = 0; k < MODEL_IDS; k++) {
		if (ids[k]) {
			e->has[k] = number;
			e->named[k] = m.list;
		}
	}
}

static void model_end_list(void)
{
	for (unsigned i = 0; m.listing && i < MODEL_PODS; i++) {
		struct model_entry *e = &m.e[i];
		if (!e->known || e->gone)
			continue;
		if (e->list != m.list) {
			e->gone = true;
			e->gone_ns = now;
		}
		for (unsigned k = 0; k < MODEL_IDS; k++)
			if (!e->gone && e->named[k] != m.list)
				e->has[k] = 0;
	}
	m.listing = false;
}

static void model_time(void)
{
	for (unsigned i = 0; i < MODEL_PODS; i++)
		if (m.e[i].gone && now - m.e[i].gone_ns >= PODS_GONE_NS)
			m.e[i] = (struct model_entry){ 0 };
}

/* Who alone has what: -1 for nobody. */
static int model_owner(bool (*has)(const struct model_entry *e, unsigned i, int what), int what)
{
	int n[2] = { 0 }, who[2] = { -1, -1 };
	for (unsigned i = 0; i < MODEL_PODS; i++) {
		const struct model_entry *e = &m.e[i];
		if (e->known && has(e, i, what)) {
			n[e->gone]++;
			who[e->gone] = (int)i;
		}
	}
	return n[0] == 1 ? who[0] : !n[0] && n[1] == 1 ? who[1] : -1;
}

static bool has_id(const struct model_entry *e, unsigned i, int id)
{
	(void)i;
	return e->has[id];
}

static bool has_uid(const struct model_entry *e, unsigned i, int uid)
{
	(void)e;
	return i < MODEL_UIDS && (int)i == uid;
}

static bool has_cgroup_uid(const struct model_entry *e, unsigned i, int uid)
{
	(void)i;
	return e->cgroup_uid == uid;
}

static void uid_of(char *out, size_t cap, int uid)
{
	snprintf(out, cap, "%08x-aaaa", uid);
}

static void compare(int id, int uid)
{
	int who = id >= 0 ? model_owner(has_id, id) : -1;
	bool container = false;
	char uid_text[32] = "", name[32];
	struct pods_names n;
	if (who >= 0 && uid >= 0 && who < MODEL_UIDS && who != uid && m.e[who].cgroup_uid != uid)
		who = -1;
	if (who >= 0)
		container = true;
	if (who < 0 && uid >= 0)
		who = model_owner(has_uid, uid);
	if (who < 0 && uid >= 0)
		who = model_owner(has_cgroup_uid, uid);
	if (uid >= 0)
		uid_of(uid_text, sizeof(uid_text), uid);
	bool found = find(id, uid_text, &n);
	assert_int_equal(found, who >= 0);
	if (!found)
		return;
	snprintf(name, sizeof(name), "text-%u", m.e[who].texts);
	assert_string_equal(n.workload, name);
	if (who < MODEL_UIDS) {
		uid_of(uid_text, sizeof(uid_text), who);
		assert_string_equal(n.uid, uid_text);
	} else {
		assert_null(n.uid);
	}
	if (container) {
		snprintf(name, sizeof(name), "name-%u", (unsigned)m.e[who].has[id]);
		assert_string_equal(n.container, name);
	} else {
		assert_null(n.container);
	}
}

static void compare_all(void)
{
	uint64_t pods = 0, gone_pods = 0, containers = 0;
	for (int id = -1; id < MODEL_IDS; id++)
		for (int uid = -1; uid < MODEL_UIDS + 2; uid++)
			compare(id, uid);
	for (unsigned i = 0; i < MODEL_PODS; i++) {
		pods += m.e[i].known;
		gone_pods += m.e[i].gone;
		for (unsigned k = 0; k < MODEL_IDS; k++)
			containers += m.e[i].has[k] != 0;
	}
	struct pods_table_stats s = stats();
	assert_int_equal(s.pods, pods);
	assert_int_equal(s.gone, gone_pods);
	assert_int_equal(s.containers, containers);
}

static void add_id(struct pod_record *r, unsigned id, unsigned number)
{
	struct pod_container *c = &r->container[r->n_containers++];
	id_of(c->id, id);
	snprintf(c->name, sizeof(c->name), "name-%u", number);
}

static void random_record(unsigned number)
{
	unsigned i = pick(MODEL_PODS), kind = pick(16);
	struct pod_record *r = record(kind < 11 ? POD_SEEN : POD_GONE, NULL);
	bool ids[MODEL_IDS] = { false };
	int cgroup_uid = -1;
	r->merge = pick(2);
	snprintf(r->workload, sizeof(r->workload), "text-%u", number);
	if (i >= MODEL_UIDS) {
		ids[i - MODEL_UIDS] = true;
		add_id(r, i - MODEL_UIDS, number);
	} else {
		uid_of(r->uid, sizeof(r->uid), (int)i);
		for (unsigned k = pick(4); k; k--) {
			unsigned id = pick(MODEL_IDS); /* twice, sometimes */
			ids[id] = true;
			add_id(r, id, number);
		}
		if (!pick(4)) {
			cgroup_uid = (int)pick(MODEL_UIDS + 2);
			uid_of(r->cgroup_uid, sizeof(r->cgroup_uid), cgroup_uid);
		}
	}
	if (kind < 11) {
		model_see(i, r, number, cgroup_uid, ids);
	} else if (kind < 14) {
		if (m.e[i].known && !m.e[i].gone) {
			m.e[i].gone = true;
			m.e[i].gone_ns = now;
		}
	} else {
		r = record(kind == 14 ? POD_LIST_BEGIN : POD_LIST_END, NULL);
		if (kind == 15) {
			model_end_list();
		} else {
			m.list++;
			m.listing = true;
		}
	}
	apply(r);
}

static void random_records(void **state)
{
	(void)state;
	for (unsigned number = 1; number < 20000; number++) {
		now += pick(PODS_GONE_NS / SECOND / 12) * SECOND;
		model_time();
		random_record(number);
		compare_all();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(random_records, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

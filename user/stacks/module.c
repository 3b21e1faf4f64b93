/* SPDX-License-Identifier: Apache-2.0 */
/* The table of modules, their references, and the idle ones that are kept. */
#include "stacks/module_int.h"
#include "store/writer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <xxhash.h>

/* ---- life ---- */

/* Add its strings to the store. */
static int add_names(struct modules *ms, struct module *m)
{
	const uint8_t *id;
	char text[2 * 64 + 1] = "";
	size_t n = m->binary ? binary_build_id(m->binary, &id) : 0;
	for (size_t i = 0; i < n && i < 64; i++)
		snprintf(text + 2 * i, 3, "%02x", id[i]);
	int rc = store_add_string(ms->store, m->path, strlen(m->path), &m->name);
	return rc ? rc : store_add_string(ms->store, text, strlen(text), &m->build_id);
}

/* Copy our own vdso, which is that of all 64-bit processes. /proc/self/maps has its length. */
static void open_vdso(struct modules *ms)
{
	static char path[] = "[vdso]";
	const uint8_t *at = (const uint8_t *)getauxval(AT_SYSINFO_EHDR);
	FILE *f = at ? fopen("/proc/self/maps", "re") : NULL;
	char line[512];
	unsigned long start, end;
	while (f && fgets(line, sizeof(line), f)) {
		if (!strstr(line, "[vdso]") || sscanf(line, "%lx-%lx", &start, &end) != 2)
			continue;
		ms->vdso_bytes = at;
		ms->vdso_size = end - start;
		if (binary_open_memory(&ms->vdso.binary, at, end - start, "[vdso]", NULL))
			ms->vdso.binary = NULL;
	}
	if (f)
		fclose(f);
	ms->vdso.path = path;
	ms->vdso.refs = 1; /* never idle */
	ms->vdso.owner = ms;
	ms->vdso.id[0] = CONTENT_VDSO;
}

int modules_new(struct modules **ret, struct store_writer *w, struct symbolizer *s,
		struct procs *procs)
{
	struct modules *ms = calloc(1, sizeof(*ms));
	if (!ms)
		return -ENOMEM;
	ms->store = w;
	ms->symbolizer = s;
	ms->procs = procs;
	open_vdso(ms);
	int rc = modules_renewed(ms);
	if (rc) {
		modules_free(ms);
		return rc;
	}
	*ret = ms;
	return 0;
}

static void module_free(struct module *m)
{
	opening_free(m->opening);
	binary_free(m->binary);
	free(m->path);
	free(m);
}

void modules_free(struct modules *ms)
{
	if (!ms)
		return;
	for (size_t b = 0; b < MODULE_BUCKETS; b++) {
		for (struct module *m = ms->by_id[b], *next; m; m = next) {
			next = m->next_id;
			module_free(m);
		}
	}
	binary_free(ms->vdso.binary);
	free(ms);
}

int modules_renewed(struct modules *ms)
{
	int rc = store_add_string(ms->store, ms->vdso.path, strlen(ms->vdso.path), &ms->vdso.name);
	for (size_t b = 0; b < MODULE_BUCKETS; b++)
		for (struct module *m = ms->by_id[b]; !rc && m; m = m->next_id)
			rc = add_names(ms, m);
	return rc;
}

/* ---- the table ---- */

static uint64_t hash_file(const struct symbols_file *file)
{
	return XXH3_64bits(file, sizeof(*file));
}

bool module_build_id(const uint8_t *build_id, size_t n, uint32_t user, uint8_t out[MODULE_ID_BYTES])
{
	memset(out, 0, MODULE_ID_BYTES);
	if (n < 8)
		return false;
	out[0] = CONTENT_BUILD_ID;
	memcpy(out + 1, build_id, n < MODULE_CONTENT_BYTES - 1 ? n : MODULE_CONTENT_BYTES - 1);
	memcpy(out + MODULE_CONTENT_BYTES, &user, sizeof(user));
	return true;
}

/* One content has one bucket, whoever it belongs to. */
static struct module **bucket_of(struct modules *ms, const uint8_t id[MODULE_ID_BYTES])
{
	return &ms->by_id[XXH3_64bits(id, MODULE_CONTENT_BYTES) % MODULE_BUCKETS];
}

struct module *module_find(struct modules *ms, const uint8_t id[MODULE_ID_BYTES])
{
	struct module *m = *bucket_of(ms, id);
	while (m && memcmp(m->id, id, MODULE_ID_BYTES))
		m = m->next_id;
	return m;
}

struct module *module_find_content(struct modules *ms, const uint8_t id[MODULE_ID_BYTES],
				   const struct module *after)
{
	struct module *m = after ? after->next_id : *bucket_of(ms, id);
	while (m && memcmp(m->id, id, MODULE_CONTENT_BYTES))
		m = m->next_id;
	return m;
}

/* Does it have a build id, in a file of root's? */
static bool is_of_root(const struct module *m)
{
	uint32_t user;
	memcpy(&user, m->id + MODULE_CONTENT_BYTES, sizeof(user));
	return m->id[0] == CONTENT_BUILD_ID && !user;
}

struct module *module_find_file(struct modules *ms, const struct symbols_file *file)
{
	struct module *m = ms->by_file[hash_file(file) % MODULE_BUCKETS];
	while (m && memcmp(&m->file, file, sizeof(*file)))
		m = m->next_file;
	return m;
}

static void forget_file(struct module *m)
{
	struct module **at = &m->owner->by_file[hash_file(&m->file) % MODULE_BUCKETS];
	if (!m->file.size)
		return;
	while (*at != m)
		at = &(*at)->next_file;
	*at = m->next_file;
	m->file = (struct symbols_file){ 0 };
}

void module_set_file(struct module *m, const struct symbols_file *file)
{
	if (!file->size || !memcmp(&m->file, file, sizeof(*file)))
		return;
	forget_file(m);
	m->file = *file;
	struct module **at = &m->owner->by_file[hash_file(file) % MODULE_BUCKETS];
	m->next_file = *at;
	*at = m;
}

struct module *module_get(struct modules *ms, struct binary *b, const uint8_t id[MODULE_ID_BYTES],
			  const char *path)
{
	struct module *m = module_find(ms, id);
	if (m) {
		binary_free(b);
		module_hold(m);
		return m;
	}
	m = calloc(1, sizeof(*m));
	if (!m) {
		binary_free(b);
		return NULL;
	}
	m->binary = b;
	m->owner = ms;
	m->refs = 1;
	m->identity = XXH3_64bits(id, MODULE_ID_BYTES);
	memcpy(m->id, id, MODULE_ID_BYTES);
	m->path = strdup(path);
	if (!m->path || add_names(ms, m)) {
		module_free(m);
		return NULL;
	}
	struct module **at = bucket_of(ms, id);
	m->next_id = *at;
	*at = m;
	ms->stats.known++;
	return m;
}

static void forget_offer(const struct module *m)
{
	struct module **at = &m->owner->offered;
	while (*at && *at != m)
		at = &(*at)->next_offered;
	if (*at)
		*at = m->next_offered;
}

static void module_drop(struct module *m)
{
	struct modules *ms = m->owner;
	struct module **at = bucket_of(ms, m->id);
	while (*at != m)
		at = &(*at)->next_id;
	*at = m->next_id;
	forget_file(m);
	forget_offer(m);
	struct module *opened = m->opened;
	module_free(m);
	ms->stats.known--;
	if (opened)
		module_put(opened);
}

/* ---- idle modules ---- */

static void idle_remove(struct module *m)
{
	struct modules *ms = m->owner;
	*(m->newer ? &m->newer->older : &ms->newest) = m->older;
	*(m->older ? &m->older->newer : &ms->oldest) = m->newer;
	m->newer = m->older = NULL;
	ms->idle_bytes -= m->idle_bytes;
	ms->stats.idle--;
}

static void idle_add(struct module *m)
{
	struct modules *ms = m->owner;
	if (m->binary)
		binary_close_files(m->binary);
	m->idle_bytes =
		sizeof(*m) + strlen(m->path) + (m->binary ? binary_kept_memory(m->binary) : 0);
	m->older = ms->newest;
	*(m->older ? &m->older->newer : &ms->oldest) = m;
	ms->newest = m;
	ms->idle_bytes += m->idle_bytes;
	ms->stats.idle++;
	while (ms->stats.idle > MODULES_IDLE_MAX || ms->idle_bytes > MODULES_IDLE_BYTES) {
		struct module *oldest = ms->oldest;
		idle_remove(oldest);
		module_drop(oldest);
		ms->stats.dropped++;
	}
}

void module_hold(struct module *m)
{
	if (m->refs++)
		return;
	idle_remove(m);
	m->owner->stats.revived++;
}

/* The next process that maps a file tries again what could not be read. */
void module_put(void *module)
{
	struct module *m = module;
	if (--m->refs)
		return;
	if (m->id[0] == CONTENT_UNREAD)
		module_drop(m);
	else
		idle_add(m);
}

bool module_is_late(const struct module *m)
{
	return m->again.at_ns != 0;
}

const uint8_t *modules_vdso(const struct modules *ms, size_t *ret_size)
{
	if (ms->vdso_bytes)
		*ret_size = ms->vdso_size;
	return ms->vdso_bytes;
}

/* The reference of a file that has another module now. */
static void put_replaced(struct modules *ms, struct module *m)
{
	if (m->replaced) {
		module_put(m);
		return;
	}
	m->replaced = true;
	m->next_replaced = ms->replaced;
	ms->replaced = m;
}

void modules_settle(struct modules *ms)
{
	for (struct module *m; (m = ms->replaced);) {
		ms->replaced = m->next_replaced;
		m->replaced = false;
		module_put(m);
	}
}

struct module *modules_of(struct modules *ms, const struct proc_image *im,
			  const struct proc_map *map)
{
	struct proc_file *f = map->file;
	struct module *m = f->binary;
	if (!m && !strcmp(f->path, "[vdso]")) {
		module_hold(&ms->vdso);
		m = f->binary = &ms->vdso;
	} else if (!m) {
		m = f->binary = module_open(ms, im, map);
	} else if (!m->binary && !m->opened && module_is_late(m) && symbols_is_due(&m->again)) {
		module_go_on(ms, m, im, map);
	}
	if (m && m->opened) {
		f->binary = m->opened;
		module_hold(m->opened);
		put_replaced(ms, m);
	}
	m = f->binary;
	f->of_root = m && is_of_root(m);
	return m;
}

void modules_stats(const struct modules *ms, struct modules_stats *ret)
{
	*ret = ms->stats;
}

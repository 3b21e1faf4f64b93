/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exports of the synthetic host store (tests/tools/mkstore.c), decoded again and compared with sums
 * made straight from the store's rows.
 */
int mkstore_main(int argc, char **argv);
#define main mkstore_main
#include "tools/mkstore.c"
#undef main

#include "export/export.h"
#include "export/flame_page.h"
#include "export/intern.h"
#include "export/json.h"
#include "store/writer.h"
#include "util/utf8.h"
#include "export/profile.pb-c.h"
#include "util/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>
#include <zlib.h>
#include <cmocka.h>

static char dir[] = "/tmp/test_export.XXXXXX";
static struct store *store;

struct text {
	char *data;
	size_t len;
};

static struct query *ask(const char *where, const char *event)
{
	struct query_spec spec = {
		.where = where, .from_ns = INT64_MIN, .to_ns = INT64_MAX, .event = event
	};
	struct query *q = NULL;
	struct err e = { 0 };
	int rc = query_open(&q, store, &spec, &e);
	if (rc)
		fail_msg("query: %s", e.text);
	return q;
}

static enum export_unit unit;

static int pprof(const struct export_source *src, FILE *f, struct err *e)
{
	return export_pprof(src, unit, f, e);
}

static int folded(const struct export_source *src, FILE *f, struct err *e)
{
	return export_folded(src, unit, f, e);
}

typedef int (*export_fn)(const struct export_source *src, FILE *f, struct err *err);

static struct text run(export_fn fn, const char *where, const char *event)
{
	struct text t = { NULL, 0 };
	struct query *q = ask(where, event);
	struct export_source src = { .store = store, .query = q, .where = where };
	struct err e = { 0 };
	FILE *f = open_memstream(&t.data, &t.len);
	assert_int_equal(fn(&src, f, &e), 0);
	fclose(f);
	query_close(q);
	return t;
}

/* ---- pprof ---- */

static Pprof__Profile *decode(struct text gz)
{
	static uint8_t out[8 << 20];
	z_stream z = { .next_in = (uint8_t *)gz.data,
		       .avail_in = (uInt)gz.len,
		       .next_out = out,
		       .avail_out = sizeof(out) };
	assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
	assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
	Pprof__Profile *p = pprof__profile__unpack(NULL, z.total_out, out);
	inflateEnd(&z);
	assert_non_null(p);
	return p;
}

static bool is(const Pprof__Profile *p, int64_t i, const char *text, size_t len)
{
	assert_true(i >= 0 && (size_t)i < p->n_string_table);
	return p->string_table[i].len == len &&
	       (!len || !memcmp(p->string_table[i].data, text, len));
}

static bool is_text(const Pprof__Profile *p, int64_t i, const char *text)
{
	return is(p, i, text, strlen(text));
}

static void same_label(const Pprof__Profile *p, const Pprof__Label *m, const struct label *l)
{
	assert_true(is(p, m->key, l->key, l->key_len));
	if (l->type == LABEL_INT) {
		assert_int_equal(m->num, l->num);
		assert_true(m->num_unit != 0);
	} else {
		assert_true(m->str != 0);
		assert_true(is(p, m->str, l->str, l->str_len));
	}
}

static const char *valid_name(const char *name, char *out)
{
	size_t o = 0, n;
	for (size_t i = 0, len = strlen(name); i < len; i += n ? n : 1) {
		n = utf8_char(name + i, len - i);
		memcpy(out + o, n ? name + i : "\xef\xbf\xbd", n ? n : 3);
		o += n ? n : 3;
	}
	out[o] = 0;
	return out;
}

/*
 * The lines of the sample's locations, innermost first, must be the frames of the stack, leaf
 * first.
 */
static void same_stack(const Pprof__Profile *p, const Pprof__Sample *s, uint32_t stack)
{
	size_t loc = 0, line = 0;
	for (uint32_t parent, f; stack; stack = parent) {
		char name[4096], valid[12288];
		store_stack(store, stack, &parent, &f);
		query_frame_name(store, f, name, sizeof(name));
		assert_true(loc < s->n_location_id);
		/* Ids are numbers from 1 in the order of the file. */
		const Pprof__Location *l = p->location[s->location_id[loc] - 1];
		assert_int_equal(l->id, s->location_id[loc]);
		const Pprof__Function *fn = p->function[l->line[line]->function_id - 1];
		assert_int_equal(fn->id, l->line[line]->function_id);
		assert_true(is_text(p, fn->name, valid_name(name, valid)));
		const struct store_frame *frame = store_frame(store, f);
		const Pprof__Mapping *m = p->mapping[l->mapping_id - 1];
		assert_true(is_text(p, m->filename, store_string(store, frame->module, NULL)));
		assert_true(is_text(p, m->build_id, store_string(store, frame->build_id, NULL)));
		assert_true(m->has_functions);
		assert_int_equal(l->line[line]->line, frame->line);
		bool inlined = frame->flags & FRAME_INLINED;
		line = inlined ? line + 1 : 0;
		if (!inlined) {
			loc++;
		}
	}
	assert_int_equal(loc, s->n_location_id);
}

static void pprof_round_trip(void **state)
{
	(void)state;
	struct text gz = run(pprof, NULL, NULL);
	Pprof__Profile *p = decode(gz);
	struct query *q = ask(NULL, NULL);
	size_t n;
	const struct store_row *rows = query_rows(q, &n);
	uint64_t sum = 0;

	assert_int_equal(p->string_table[0].len, 0);
	assert_int_equal(p->n_sample_type, 2);
	assert_true(is_text(p, p->sample_type[0]->type, "samples"));
	assert_true(is_text(p, p->sample_type[1]->type, "cpu"));
	assert_true(is_text(p, p->sample_type[1]->unit, "nanoseconds"));
	assert_true(is_text(p, p->default_sample_type, "cpu"));
	assert_int_equal(p->period, 10101010);
	assert_int_equal(p->time_nanos, T0);
	assert_int_equal(p->duration_nanos, N_WINDOWS * WINDOW);
	assert_int_equal(p->n_sample, n);
	for (size_t i = 0; i < n; i++) {
		const Pprof__Sample *s = p->sample[i];
		const struct label *labels;
		size_t n_labels = query_set(q, rows[i].set, &labels);
		assert_int_equal(s->value[0], rows[i].samples);
		assert_int_equal(s->value[1], rows[i].samples * 10101010);
		assert_int_equal(s->n_label, n_labels + 1);
		for (size_t j = 0; j < n_labels; j++)
			same_label(p, s->label[j], &labels[j]);
		assert_true(is_text(p, s->label[n_labels]->key, "event"));
		assert_true(is_text(p, s->label[n_labels]->str, "cpu-clock"));
		same_stack(p, s, rows[i].stack);
		sum += (uint64_t)s->value[0];
	}
	assert_int_equal(sum, sums.samples);
	query_close(q);
	pprof__profile__free_unpacked(p, NULL);
	free(gz.data);
}

static uint64_t pprof_sum(const char *where, const char *event)
{
	struct text gz = run(pprof, where, event);
	Pprof__Profile *p = decode(gz);
	uint64_t sum = 0;
	for (size_t i = 0; i < p->n_sample; i++)
		sum += (uint64_t)p->sample[i]->value[0];
	pprof__profile__free_unpacked(p, NULL);
	free(gz.data);
	return sum;
}

static void pprof_filters(void **state)
{
	(void)state;
	assert_int_equal(pprof_sum("{tenant=\"a\"}", NULL), sums.tenant[0]);
	assert_int_equal(pprof_sum("{tenant=\"b\"}", NULL), sums.tenant[1]);
	assert_int_equal(pprof_sum("{tenant=\"nobody\"}", NULL), 0);
	assert_int_equal(pprof_sum(NULL, "page-faults"), sums.faults);
	struct text gz = run(pprof, NULL, "page-faults");
	Pprof__Profile *p = decode(gz);
	assert_true(is_text(p, p->sample_type[1]->type, "page-faults"));
	assert_true(is_text(p, p->sample_type[1]->unit, "count"));
	pprof__profile__free_unpacked(p, NULL);
	free(gz.data);
}

/* ---- folded ---- */

static void folded_sums(void **state)
{
	(void)state;
	struct text t = run(folded, NULL, NULL);
	uint64_t sum = 0, evil = 0;
	bool kernel = false, unresolved = false;
	assert_true(t.len && t.data[t.len - 1] == '\n');
	for (char *line = strtok(t.data, "\n"); line; line = strtok(NULL, "\n")) {
		char *space = strrchr(line, ' '), *end;
		assert_non_null(space);
		uint64_t n = strtoull(space + 1, &end, 10);
		assert_true(n && !*end);
		sum += n;
		assert_non_null(strchr(line, ';'));
		if (!strncmp(line, "evil:comm_;", 11))
			evil += n;
		kernel |= strstr(line, ";do_syscall_64_[k];") != NULL;
		unresolved |= strstr(line, ";libsecret.so+0x12") != NULL;
		for (char *c = line; *c; c++)
			assert_true((unsigned char)*c >= 0x20 && *c != 0x7f);
	}
	assert_int_equal(sum, sums.samples);
	assert_true(evil && kernel && unresolved);
	free(t.data);
}

/* ---- units ---- */

static uint64_t folded_sum(enum export_unit u)
{
	unit = u;
	struct text t = run(folded, NULL, NULL);
	uint64_t sum = 0;
	for (char *line = strtok(t.data, "\n"); line; line = strtok(NULL, "\n"))
		sum += strtoull(strrchr(line, ' ') + 1, NULL, 10);
	free(t.data);
	unit = EXPORT_BY_EVENT;
	return sum;
}

/* What pprof shows first, and the sum of it. */
static uint64_t pprof_default(enum export_unit u, const char *type)
{
	unit = u;
	struct text gz = run(pprof, NULL, NULL);
	Pprof__Profile *p = decode(gz);
	uint64_t sum = 0;
	assert_true(is_text(p, p->default_sample_type, type));
	size_t which = p->sample_type[0]->type != p->default_sample_type;
	assert_true(is_text(p, p->sample_type[which]->type, type));
	for (size_t i = 0; i < p->n_sample; i++)
		sum += (uint64_t)p->sample[i]->value[which];
	pprof__profile__free_unpacked(p, NULL);
	free(gz.data);
	unit = EXPORT_BY_EVENT;
	return sum;
}

/*
 * Three waits of two stacks, 5,000,007 ns in all: times by default, in both formats; how many where
 * that is asked for.
 */
/* A store of one window, for one test, in place of `store`. */
struct other_store {
	char dir[40];
	struct store *host; /* `store` until then */
	struct store_writer *w;
};

static void other_begin(struct other_store *o)
{
	const struct store_meta meta = { .host = "h", .os = "o", .what = "w" };
	*o = (struct other_store){ "/tmp/test_export_other.XXXXXX", store, NULL };
	assert_non_null(mkdtemp(o->dir));
	assert_int_equal(store_writer_open(&o->w, o->dir, &meta, &err), 0);
}

static void other_open(struct other_store *o, uint64_t samples)
{
	struct store_cpu_totals cpu = { 0, samples, samples, NULL, NULL };
	struct store_totals t = { &cpu, 1, 0, 0, 0 };
	assert_int_equal(
		store_commit_window(o->w, 1700000000000000000, 1700000010000000000, 1, &t, &err),
		0);
	store_writer_close(o->w);
	assert_int_equal(store_open(&store, o->dir, &err), 0);
}

static void other_end(struct other_store *o)
{
	char cmd[100];
	store_close(store);
	store = o->host;
	snprintf(cmd, sizeof(cmd), "rm -r %s", o->dir);
	assert_int_equal(system(cmd), 0);
}

static void waits_are_times(void **state)
{
	(void)state;
	static const struct store_event blocked = { "off-cpu", "nanoseconds", 0, 0 };
	static const uint64_t waits[3] = { 3, 1000004, 4000000 };
	struct other_store other;
	uint32_t e, f, stack;
	other_begin(&other);
	assert_int_equal(store_add_event(other.w, &blocked, &e), 0);
	for (uint32_t i = 0; i < 3; i++) {
		const struct store_frame frame = { .line = i % 2, .offset = i % 2 };
		assert_int_equal(store_add_frame(other.w, &frame, &f), 0);
		assert_int_equal(store_add_stack(other.w, 0, f, &stack), 0);
		assert_int_equal(store_add_row(other.w, 0, stack, e, 1, waits[i]), 0);
	}
	other_open(&other, 3);
	assert_int_equal(folded_sum(EXPORT_BY_EVENT), 5000007);
	assert_int_equal(folded_sum(EXPORT_VALUE), 5000007);
	assert_int_equal(folded_sum(EXPORT_SAMPLES), 3);
	assert_int_equal(pprof_default(EXPORT_BY_EVENT, "off-cpu"), 5000007);
	assert_int_equal(pprof_default(EXPORT_SAMPLES, "samples"), 3);
	other_end(&other);
	/* Samples of CPU time. */
	assert_int_equal(folded_sum(EXPORT_BY_EVENT), sums.samples);
	assert_int_equal(folded_sum(EXPORT_VALUE), sums.samples * 10101010);
	assert_int_equal(pprof_default(EXPORT_VALUE, "cpu"), sums.samples * 10101010);
	assert_int_equal(pprof_default(EXPORT_SAMPLES, "samples"), sums.samples);
}

/* ---- the flame page ---- */

static uint64_t max_nodes;

static int flame_json(const struct export_source *src, FILE *f, struct err *e)
{
	const struct export_flame_spec how = { .max_nodes = max_nodes };
	return export_flame_json(src, &how, f, e);
}

static int flame_html(const struct export_source *src, FILE *f, struct err *e)
{
	const struct export_flame_spec how = { .max_nodes = max_nodes };
	return export_flame(src, &how, f, e);
}

/* Every node's children have at most what it has; returns the number of nodes. */
static size_t check_tree(const json_t *data)
{
	const json_t *nodes = json_object_get(data, "nodes");
	size_t n = json_array_size(nodes) / 3;
	json_int_t left[512] = { 0 }, last = 0;
	for (size_t i = 0; i < n; i++) {
		json_int_t depth = json_integer_value(json_array_get(nodes, 3 * i));
		json_int_t total = json_integer_value(json_array_get(nodes, 3 * i + 1));
		json_int_t frame_id = json_integer_value(json_array_get(nodes, 3 * i + 2));
		assert_true(i ? depth > 0 && depth <= last + 1 && depth < 512 : depth == 0);
		assert_true((size_t)frame_id <
			    json_array_size(json_object_get(data, "frames")) / 3);
		assert_true(total > 0);
		if (depth) {
			left[depth - 1] -= total;
			assert_true(left[depth - 1] >= 0);
		} else {
			assert_int_equal(total, sums.samples);
		}
		left[depth] = total;
		last = depth;
	}
	return n;
}

/* What is on one level together; pruning must not change the first. */
static json_int_t level(const json_t *data, json_int_t want)
{
	const json_t *nodes = json_object_get(data, "nodes");
	json_int_t sum = 0;
	for (size_t i = 0; i < json_array_size(nodes); i += 3) {
		if (json_integer_value(json_array_get(nodes, i)) == want)
			sum += json_integer_value(json_array_get(nodes, i + 1));
	}
	return sum;
}

static json_t *flame_data(uint64_t max)
{
	max_nodes = max;
	struct text t = run(flame_json, NULL, NULL);
	json_t *data = json_loadb(t.data, t.len, 0, NULL);
	assert_non_null(data);
	free(t.data);
	return data;
}

static void flame_tree(void **state)
{
	(void)state;
	json_t *all = flame_data(0), *few = flame_data(40);
	size_t n_all = check_tree(all), n_few = check_tree(few);
	assert_int_equal(json_integer_value(json_object_get(all, "pruned")), 0);
	/* At most one "(other)" for each node that was kept. */
	assert_true(n_few <= 80 && n_few < n_all);
	assert_true(json_integer_value(json_object_get(few, "pruned")) + 40 >= (json_int_t)n_all);
	for (json_int_t d = 0; d < 3; d++)
		assert_int_equal(level(all, d), level(few, d));
	json_decref(all);
	json_decref(few);
}

/* Frames that differ only in their line are one frame of the graph, below whichever caller. */
static void flame_frames_once(void **state)
{
	(void)state;
	static const char *const name[] = { "main", "again", "work" };
	static const struct store_event faults = { "page-faults", "count", 0, 0 };
	struct other_store other;
	uint32_t e, text, f, stack;
	other_begin(&other);
	assert_int_equal(store_add_event(other.w, &faults, &e), 0);
	for (uint32_t root = 0; root < 2; root++) {
		stack = 0;
		for (uint32_t i = root; i < 3; i += 2 - root) {
			struct store_frame frame = { .line = root * 7 };
			assert_int_equal(store_add_string(other.w, name[i], strlen(name[i]), &text),
					 0);
			frame.function = text;
			assert_int_equal(store_add_frame(other.w, &frame, &f), 0);
			assert_int_equal(store_add_stack(other.w, stack, f, &stack), 0);
		}
		assert_int_equal(store_add_row(other.w, 0, stack, e, 1 + root, 1 + root), 0);
	}
	other_open(&other, 3);
	json_t *data = flame_data(0);
	/* The root, "(other)", and the three names. */
	assert_int_equal(json_array_size(json_object_get(data, "frames")) / 3, 5);
	assert_int_equal(json_array_size(json_object_get(data, "nodes")) / 3, 5);
	json_decref(data);
	other_end(&other);
}

static size_t count(const char *text, const char *what)
{
	size_t n = 0;
	for (const char *p = text; (p = strstr(p, what)); p++)
		n++;
	return n;
}

static void flame_is_safe(void **state)
{
	(void)state;
	max_nodes = 0;
	struct text t = run(flame_html, NULL, NULL);
	/* The data holds no '<' at all: the page has as many as its source. */
	assert_int_equal(count(t.data, "<"), count(flame_page, "<"));
	assert_null(strstr(t.data, FLAME_PAGE_DATA));
	assert_non_null(strstr(t.data, "\\u003c/script>"));
	assert_null(strstr(t.data, "http://"));
	assert_null(strstr(t.data, "https://"));
	free(t.data);
}

/* ---- the rest ---- */

static void full_disk(void **state)
{
	static const export_fn all[] = { pprof, folded, flame_json, flame_html };
	(void)state;
	for (size_t i = 0; i < 4; i++) {
		struct query *q = ask(NULL, NULL);
		struct export_source src = { .store = store, .query = q };
		struct err e = { 0 };
		FILE *f = fopen("/dev/full", "w");
		assert_true(all[i](&src, f, &e) < 0);
		assert_non_null(strstr(e.text, "No space left"));
		fclose(f);
		query_close(q);
	}
}

static void utf8(void **state)
{
	static const struct {
		const char *text;
		size_t len;
	} t[] = {
		{ "a", 1 },
		{ "\xc3\xa9", 2 },
		{ "\xe5\x90\x8d", 3 },
		{ "\xf0\x9f\x94\xa5", 4 },
		{ "\xc0\x80", 0 },
		{ "\xff", 0 },
		{ "\xed\xa0\x80", 0 },
		{ "\xf4\x90\x80\x80", 0 },
		{ "\xe0\x80\x80", 0 },
		{ "\xc3", 0 },
		{ "\x80", 0 },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++)
		assert_int_equal(utf8_char(t[i].text, strlen(t[i].text)), t[i].len);
	json_t *v = json_text("a\xff\0b", 4);
	assert_int_equal(json_string_length(v), 6);
	assert_memory_equal(json_string_value(v), "a\xef\xbf\xbd\0b", 6);
	json_decref(v);
}

static void intern_numbers(void **state)
{
	struct intern t = { 0 };
	(void)state;
	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < 5000; i++) {
			char key[16];
			uint32_t id;
			bool new;
			size_t len = i ? (size_t)snprintf(key, sizeof(key), "%u", i) : 0;
			assert_int_equal(intern_add(&t, key, len, &id, &new), 0);
			assert_int_equal(id, i);
			assert_int_equal(new, !round);
			assert_memory_equal(intern_get(&t, id, &len), key, len);
		}
	}
	intern_fini(&t);
}

static int make_store(void **state)
{
	char *argv[] = { dir, dir, NULL };
	(void)state;
	if (!mkdtemp(dir) || mkstore_main(2, argv))
		return -1;
	return store_open(&store, dir, &err);
}

static int drop_store(void **state)
{
	char cmd[100];
	(void)state;
	store_close(store);
	snprintf(cmd, sizeof(cmd), "rm -r %s", dir);
	return system(cmd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pprof_round_trip),
		cmocka_unit_test(pprof_filters),
		cmocka_unit_test(folded_sums),
		cmocka_unit_test(waits_are_times),
		cmocka_unit_test(flame_frames_once),
		cmocka_unit_test(flame_tree),
		cmocka_unit_test(flame_is_safe),
		cmocka_unit_test(full_disk),
		cmocka_unit_test(utf8),
		cmocka_unit_test(intern_numbers),
	};
	return cmocka_run_group_tests(tests, make_store, drop_store);
}

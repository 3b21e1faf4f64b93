/* SPDX-License-Identifier: Apache-2.0 */
#include "attribute/sources_int.h"

#include "ascribe/label_abi.h"
#include "elf/go.h"
#include "go_wire.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MODULE_MAX 65536 /* thread-local modules of a process; more is no module number */

/* ---- paths that are built in: ABIs that are one read behind a variable ---- */

uint32_t sources_add_steps(struct sources *s, const struct label_step *v, uint32_t n,
			   uint32_t *ret_n)
{
	if (n > LABEL_STEPS - s->n_steps)
		return 0;
	uint32_t at = s->n_steps;
	memcpy(s->steps + at, v, n * sizeof(*v));
	s->n_steps += n;
	*ret_n = n;
	return at;
}

/* A Perforator variable begins with 7 magic bytes and its kind. */
#define PERFORATOR_MAGIC 0xa60406a7066f7eull
#define PERFORATOR_INT 1
#define PERFORATOR_TEXT 2

static void add_built_in(struct sources *s)
{
	const struct label_step elastic[] = {
		{ .op = STEP_FIELD },
		{ .op = STEP_START },
		{ .op = STEP_DEREF },
		{ .op = STEP_BYTES, .len = 37 },
	};
	const struct label_step datadog[] = {
		{ .op = STEP_FIELD },
		{ .op = STEP_START },
		{ .op = STEP_BYTES, .len = 64 },
	};
	const struct label_step number[] = {
		{ .op = STEP_FIELD },
		{ .op = STEP_START },
		{ .op = STEP_NUMBER, .len = 8 },
		{ .op = STEP_EXPECT,
		  .imm = (int64_t)(PERFORATOR_MAGIC | (uint64_t)PERFORATOR_INT << 56),
		  .flags = 1 },
		{ .op = STEP_NUMBER, .len = 8, .imm = 8 },
		{ .op = STEP_INT },
	};
	const struct label_step text[] = {
		{ .op = STEP_FIELD },
		{ .op = STEP_START },
		{ .op = STEP_NUMBER, .len = 8 },
		{ .op = STEP_EXPECT,
		  .imm = (int64_t)(PERFORATOR_MAGIC | (uint64_t)PERFORATOR_TEXT << 56),
		  .flags = 1 },
		{ .op = STEP_NUMBER, .len = 8, .imm = 16 },
		{ .op = STEP_DEREF, .imm = 8 },
		{ .op = STEP_TEXT, .len = LABEL_TEXT_BYTES },
	};
	s->elastic =
		sources_add_steps(s, elastic, sizeof(elastic) / sizeof(elastic[0]), &s->elastic_n);
	s->datadog =
		sources_add_steps(s, datadog, sizeof(datadog) / sizeof(datadog[0]), &s->datadog_n);
	s->perforator_int = sources_add_steps(s, number, sizeof(number) / sizeof(number[0]),
					      &s->perforator_int_n);
	s->perforator_text =
		sources_add_steps(s, text, sizeof(text) / sizeof(text[0]), &s->perforator_text_n);
}

int sources_new(struct sources **ret, struct sampler *sampler, struct resolver *r,
		const struct recipes *recipes, const char *key)
{
	struct sources *s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->sampler = sampler;
	s->resolver = r;
	s->recipes = recipes;
	snprintf(s->key, sizeof(s->key), "%s", key);
	s->steps = sampler_label_steps(sampler);
	add_built_in(s);
	*ret = s;
	return 0;
}

void sources_free(struct sources *s)
{
	if (!s)
		return;
	source_facts_forget(s);
	free(s);
}

bool sources_has(struct sources *s, const struct proc_image *im, const struct proc_map *m)
{
	bool late;
	const struct facts *f = source_facts_of(s, im, m, &late);
	return late || (f && (f->file.n || f->file.go || f->paths));
}

/* ---- where a variable is in a process ---- */

struct place {
	uint8_t start; /* enum label_start */
	uint32_t module;
	int64_t at;
};

struct looking {
	struct sources *s;
	const struct proc_image *im;
	struct source_list *list;
	const struct facts *facts;
	const struct binary *binary;
	uint64_t base;		    /* where the file is loaded */
	uint64_t own_at;	    /* of its descriptor, in the file */
	bool is_program, musl, own; /* own: the file has our note */
	uint8_t rank;		    /* of the sources that are being added */
	int waiting;		    /* SOURCES_ */
};

static bool in_dtv(const struct looking *l, uint64_t module, uint64_t offset, struct place *ret)
{
	if (!module || module > MODULE_MAX || offset > INT64_MAX)
		return false;
	*ret = (struct place){ l->musl ? LABEL_AT_DTV_MUSL : LABEL_AT_DTV, (uint32_t)module,
			       (int64_t)offset };
	return true;
}

static bool at_tp(const struct looking *l, int64_t offset, struct place *ret)
{
	*ret = (struct place){ l->musl ? LABEL_AT_TP_MUSL : LABEL_AT_TP, 0, offset };
	return true;
}

static int read_memory(struct looking *l, uint64_t at, void *out, size_t len)
{
	int rc = proc_read_memory(l->im->tgid, at, out, len);
	l->waiting |= rc == -EINPROGRESS ? SOURCES_LATE | SOURCES_UNANSWERED : 0;
	return rc;
}

static bool by_descriptor(struct looking *l, const uint64_t desc[2], struct place *ret)
{
	uint64_t pair[2];
	bool is_static =
		l->facts->file.machine == EM_X86_64 ? (int64_t)desc[1] < 0 : desc[1] < 0x10000;
	if (!desc[0])
		return false;
	if (is_static)
		return at_tp(l, (int64_t)desc[1], ret);
	return !read_memory(l, desc[1], pair, sizeof(pair)) && in_dtv(l, pair[0], pair[1], ret);
}

/*
 * Bytes of the file's memory image. A library's code is mapped, and known to us, before its data:
 * until the dynamic linker has mapped that, there is nothing, or another part of the file.
 */
static int read_loaded(struct looking *l, uint64_t vaddr, void *out, size_t len)
{
	uint64_t at = l->base + vaddr, offset;
	struct proc_line line;
	int rc = binary_offset(l->binary, vaddr, &offset);
	rc = rc ? rc : proc_line_at(l->im->tgid, at, &line);
	l->waiting |= rc == -EINPROGRESS ? SOURCES_LATE | SOURCES_UNANSWERED : 0;
	if (!rc && line.ino && at - line.start + line.pgoff != offset)
		rc = -EAGAIN;
	return rc ? rc : read_memory(l, at, out, len);
}

/* False: not to be told now. */
static bool place_of(struct looking *l, const struct elf_variable *v, struct place *ret)
{
	uint64_t word[2] = { 0, 0 };
	if (!v->tls) {
		*ret = (struct place){ LABEL_AT_ADDRESS, 0, (int64_t)(l->base + v->value) };
		return true;
	}
	if (l->is_program) {
		struct elf_image img = { .machine = l->facts->file.machine,
					 .tls_align = l->facts->file.tls_align,
					 .tls = { .memsz = l->facts->file.tls_size } };
		return at_tp(l, elf_static_tls(&img, v->value), ret);
	}
	if (v->access < ELF_ACCESS_TPOFF || read_loaded(l, v->at, word, sizeof(word)))
		return false;
	switch (v->access) {
	case ELF_ACCESS_TPOFF:
		return at_tp(l, (int64_t)word[0], ret) && word[0];
	case ELF_ACCESS_DESC:
		return by_descriptor(l, word, ret);
	case ELF_ACCESS_PAIR:
		return in_dtv(l, word[0], word[1], ret);
	default:
		return in_dtv(l, word[0], v->value, ret);
	}
}

/* Why to look again for a variable whose place was not told: no time makes an access known. */
static int wait_for(const struct elf_variable *v)
{
	return v->access == ELF_ACCESS_UNKNOWN ? 0 : SOURCES_NOT_YET;
}

/* Append what is not there yet. The fields are copied: a list outlives the facts. */
static void add_source(struct looking *l, const struct label_source *src,
		       const struct foreign_source *decoder, const struct foreign_field *fields,
		       size_t n_fields)
{
	struct source_list *list = l->list;
	for (uint32_t i = 0; i < list->n; i++)
		if (!memcmp(&list->source[i], src, sizeof(*src)))
			return;
	if (list->n == LABEL_SOURCES)
		return;
	struct foreign_field *copy = NULL;
	if (n_fields) {
		copy = malloc(n_fields * sizeof(*copy));
		if (!copy)
			return;
		memcpy(copy, fields, n_fields * sizeof(*copy));
	}
	list->source[list->n] = *src;
	list->decoder[list->n] = *decoder;
	list->fields[list->n] = copy;
	list->decoder[list->n].fields = copy;
	list->decoder[list->n].n_fields = n_fields;
	list->decoder[list->n].rank = l->rank;
	list->n++;
}

static const struct elf_variable *variable(const struct facts *f, const char *name)
{
	for (uint32_t i = 0; i < f->file.n; i++)
		if (!strcmp(f->file.v[i].name, name))
			return &f->file.v[i];
	return NULL;
}

/* A source of this kind that begins at the variable of this name, if the file has it. */
static void add_variable(struct looking *l, const char *name, enum label_kind kind, uint8_t fault,
			 uint32_t arg)
{
	const struct elf_variable *v = variable(l->facts, name);
	struct place p;
	if (!v || !v->tls)
		return;
	if (!place_of(l, v, &p)) {
		l->waiting |= wait_for(v);
		return;
	}
	struct label_source src = { .kind = (uint8_t)kind,
				    .start = p.start,
				    .fault = fault,
				    .module = p.module,
				    .at = p.at,
				    .arg = arg };
	struct foreign_source decoder = { .kind = (uint8_t)kind };
	add_source(l, &src, &decoder, NULL, 0);
}

/* A built-in path of one field behind a variable. */
static void add_path(struct looking *l, const struct elf_variable *v, uint8_t fault, uint32_t step,
		     uint32_t n, const char *key, enum foreign_form form)
{
	struct place p;
	struct foreign_field field = { .form = form };
	if (!v || !v->tls || !n)
		return;
	if (!place_of(l, v, &p)) {
		l->waiting |= wait_for(v);
		return;
	}
	snprintf(field.key, sizeof(field.key), "%s", key);
	struct label_source src = { .kind = LABEL_PATH,
				    .start = p.start,
				    .fault = fault,
				    .module = p.module,
				    .at = p.at,
				    .arg = step,
				    .arg2 = n };
	struct foreign_source decoder = { .kind = LABEL_PATH };
	add_source(l, &src, &decoder, &field, 1);
}

/* ---- the ABIs ---- */

static void add_custom(struct looking *l)
{
	const struct elf_variable *v = variable(l->facts, "custom_labels_abi_version");
	uint32_t version;
	if (!v || v->tls)
		return;
	if (read_loaded(l, v->value, &version, sizeof(version)))
		l->waiting |= SOURCES_NOT_YET;
	else if (version == 1)
		add_variable(l, "custom_labels_current_set", LABEL_CUSTOM, COUNTER_custom_fault, 0);
	else if (version == 0)
		add_variable(l, "custom_labels_thread_local_data", LABEL_CUSTOM,
			     COUNTER_custom_fault, 1);
}

/* A thread has its g in thread-local memory, or on arm64 without cgo in a register. */
static bool has_go_threads(const struct file_facts *f)
{
	return f->go_tls || f->machine == EM_AARCH64;
}

/* By thread-local memory; on arm64 that is not used without cgo, and the register tells. */
static void add_go(struct looking *l)
{
	struct elf_go_layout o;
	if (!l->is_program || !elf_go_layout(l->facts->file.go, &o) ||
	    !has_go_threads(&l->facts->file))
		return;
	struct label_source src = { .kind = o.slice ? LABEL_GO_SLICE : LABEL_GO_MAP,
				    .fault = COUNTER_go_fault,
				    .start = l->facts->file.go_tls ? LABEL_AT_TP
								   : LABEL_AT_GO_REGISTER,
				    .at = l->facts->file.go_g,
				    .arg = (uint32_t)o.curg << 16 | o.labels };
	struct foreign_source decoder = { .kind = src.kind };
	add_source(l, &src, &decoder, NULL, 0);
}

/* perforator_tls_TYPE_NAME: the label's key is NAME. */
static void add_perforator(struct looking *l)
{
	static const char prefix[] = "perforator_tls_";
	for (uint32_t i = 0; l->is_program && i < l->facts->file.n; i++) {
		const struct elf_variable *v = &l->facts->file.v[i];
		const char *type = v->name + sizeof(prefix) - 1, *key;
		if (strncmp(v->name, prefix, sizeof(prefix) - 1) || !(key = strchr(type, '_')) ||
		    !key[1])
			continue;
		/* TString_, TStringBuf_; else ui64_ */
		bool text = !strncmp(type, "string_", 7) || !strncmp(type, "TString", 7);
		add_path(l, v, COUNTER_perforator_fault,
			 text ? l->s->perforator_text : l->s->perforator_int,
			 text ? l->s->perforator_text_n : l->s->perforator_int_n, key + 1,
			 text ? FOREIGN_TEXT : FOREIGN_UINT);
	}
}

/*
 * Add the sources of one rank, of each mapped file. The list is in the order in which files and
 * processes answered; ranks say whose labels win.
 */
static void each_file(struct looking *l, const struct proc_image *im, uint8_t rank,
		      void (*add)(struct looking *))
{
	const struct proc_file *before = NULL;
	bool late;
	l->rank = rank;
	for (uint32_t i = 0; i < im->n_maps; i++) {
		const struct proc_map *m = &im->maps[i];
		if (m->file == before)
			continue;
		before = m->file;
		l->facts = source_facts_of(l->s, im, m, &late);
		if (late)
			l->waiting |= SOURCES_LATE;
		if (!l->facts || (!l->facts->file.n && !l->facts->file.go && !l->facts->paths))
			continue;
		struct binary *b = resolver_binary(l->s->resolver, im, m);
		if (!b || binary_bias(b, m->start, m->pgoff, &l->base))
			continue;
		l->binary = b;
		l->own = !binary_label_descriptor(b, &l->own_at);
		l->is_program = m->file == im->exe || l->facts->file.executable;
		add(l);
	}
}

/*
 * Where a program of ours shows its record to others, too: right behind its slot (ascribe/otel.h).
 */
static bool is_own_otel(struct looking *l)
{
	const struct elf_variable *v = variable(l->facts, "otel_thread_ctx_v1");
	struct ascribe_descriptor d;
	struct place p;
	return v && v->tls && place_of(l, v, &p) &&
	       (p.start == LABEL_AT_TP || p.start == LABEL_AT_TP_MUSL) &&
	       !read_memory(l, l->base + l->own_at, &d, sizeof(d)) &&
	       d.magic == ASCRIBE_DESCRIPTOR_MAGIC && p.at == d.tp_offset + 8;
}

static void add_otel(struct looking *l)
{
	bool own = l->own && is_own_otel(l);
	if (!own && !(l->own && l->waiting & SOURCES_UNANSWERED)) /* else that is not known yet */
		add_variable(l, "otel_thread_ctx_v1", LABEL_OTEL, COUNTER_otel_fault, 0);
}

static void add_others(struct looking *l)
{
	const struct facts *f = l->facts;
	if (f->file.go)
		add_go(l);
	add_variable(l, "otel_thread_ctx_nodejs_v1", LABEL_NODE, COUNTER_node_fault, 0);
	add_path(l, variable(f, "elastic_apm_profiling_correlation_tls_v1"), COUNTER_elastic_fault,
		 l->s->elastic, l->s->elastic_n, "elastic", FOREIGN_ELASTIC);
	add_perforator(l);
	add_path(l, variable(f, "context_tls_v1"), COUNTER_datadog_fault, l->s->datadog,
		 l->s->datadog_n, "datadog", FOREIGN_DATADOG);
}

static void add_recipes(struct looking *l)
{
	for (const struct file_path *p = l->facts->paths; p; p = p->next) {
		struct label_source src = { .kind = LABEL_PATH,
					    .start = LABEL_AT_ADDRESS,
					    .fault = COUNTER_path_fault,
					    .at = (int64_t)l->base,
					    .base = l->base,
					    .arg = p->step,
					    .arg2 = p->n_steps };
		struct foreign_source decoder = { .kind = LABEL_PATH,
						  .fields = p->field,
						  .n_fields = p->n_fields };
		struct place at;
		if (p->start.access != ELF_ACCESS_NONE) {
			if (!place_of(l, &p->start, &at)) {
				l->waiting |= wait_for(&p->start);
				continue;
			}
			src.start = at.start;
			src.module = at.module;
			src.at = at.at;
		}
		if (p->n_steps)
			add_source(l, &src, &decoder, p->field, p->n_fields);
	}
}

/* What the program of a process has; NULL: not known. */
static const struct file_facts *program_facts(struct sources *s, const struct proc_image *im,
					      bool *ret_late)
{
	for (uint32_t i = 0; i < im->n_maps; i++) {
		if (im->maps[i].file != im->exe)
			continue;
		const struct facts *f = source_facts_of(s, im, &im->maps[i], ret_late);
		return f ? &f->file : NULL;
	}
	return NULL;
}

int sources_creators(struct sources *s, const struct proc_image *im, uint64_t *ret,
		     unsigned *ret_unknown)
{
	bool late = false;
	const struct file_facts *f = program_facts(s, im, &late);
	struct elf_go_layout o;
	*ret = 0;
	*ret_unknown = 0;
	if (!f || !f->go)
		return late ? SOURCES_LATE : 0;
	if (!elf_go_layout(f->go, &o) || !o.gopc)
		*ret_unknown = f->go;
	else if (has_go_threads(f) && f->go_g == (int64_t)(int32_t)f->go_g)
		*ret = GO_LAYOUT(f->go_g, !f->go_tls, o.curg, o.gopc);
	return 0;
}

int sources_find(struct sources *s, const struct proc_image *im, struct source_list *list)
{
	bool late = false;
	const struct file_facts *program = program_facts(s, im, &late);
	struct looking l = { .s = s, .im = im, .list = list, .musl = program && program->musl };
	if (!s->steps)
		return 0;
	if (late) /* where thread-local variables are depends on it */
		return SOURCES_LATE;
	each_file(&l, im, 0, add_otel);
	each_file(&l, im, 1, add_custom);
	each_file(&l, im, 2, add_others);
	each_file(&l, im, 3, add_recipes);
	for (uint32_t i = 0; i < list->n; i++) {
		if ((list->source[i].kind == LABEL_OTEL || list->source[i].kind == LABEL_NODE) &&
		    !list->otel.n_keys) {
			sources_read_otel(list, im->tgid);
			l.waiting |= list->otel.n_keys ? 0 : SOURCES_NAMELESS;
			break;
		}
	}
	return l.waiting;
}

void sources_publish(const struct sources *s, const struct source_list *list,
		     struct label_source ret[LABEL_SOURCES])
{
	uint8_t index = 0;
	for (size_t i = 0; i < list->otel.n_keys && i < UINT8_MAX && *s->key; i++)
		if (list->otel.keys[i] && !strcmp(list->otel.keys[i], s->key))
			index = (uint8_t)(i + 1);
	memcpy(ret, list->source, sizeof(list->source));
	for (uint32_t i = 0; i < list->n; i++)
		if (ret[i].kind == LABEL_OTEL || ret[i].kind == LABEL_NODE)
			ret[i].key_index = index;
}

const char *sources_warning(const struct sources *s)
{
	return s->warning.text;
}

void source_list_fini(struct source_list *list)
{
	for (uint32_t i = 0; i < list->n; i++)
		free(list->fields[i]);
	source_list_forget_otel(list);
	otel_context_fini(&list->otel);
}

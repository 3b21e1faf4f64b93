/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interned data of a Perfetto trace: functions, modules, frames and callstacks. Ids there: of a
 * frame and its name the number of the function + 1, of a mapping that of the module + 1, of a
 * callstack that of the store's stack.
 */
#include "export/perfetto_int.h"
#include "export/text.h"

#include <errno.h>
#include <string.h>

struct module {
	uint32_t path, build_id; /* strings of the store */
};

/* What is new with a stack. It lives until the packet is written. */
struct fresh {
	Perfetto__InternedString names[EXPORT_DEPTH_MAX], paths[EXPORT_DEPTH_MAX],
		builds[EXPORT_DEPTH_MAX];
	Perfetto__Frame frames[EXPORT_DEPTH_MAX];
	Perfetto__Mapping mappings[EXPORT_DEPTH_MAX];
	Perfetto__InternedString *name_of[EXPORT_DEPTH_MAX], *path_of[EXPORT_DEPTH_MAX],
		*build_of[EXPORT_DEPTH_MAX];
	Perfetto__Frame *frame_of[EXPORT_DEPTH_MAX];
	Perfetto__Mapping *mapping_of[EXPORT_DEPTH_MAX];
	uint64_t mapping_id[EXPORT_DEPTH_MAX];
	uint8_t build_id[EXPORT_DEPTH_MAX][20];
	size_t n_frames, n_modules;
};

int perfetto_stacks_init(struct perfetto_stacks *s, const struct export_source *src)
{
	*s = (struct perfetto_stacks){ .src = src };
	return functions_init(&s->functions, src);
}

void perfetto_stacks_fini(struct perfetto_stacks *s)
{
	functions_fini(&s->functions);
	intern_fini(&s->modules);
	idset_fini(&s->stacks);
}

static ProtobufCBinaryData string_of(const struct perfetto_stacks *s, uint32_t id)
{
	size_t len;
	const char *text = store_string(s->src->store, id, &len);
	return len ? perfetto_text(text, len) : perfetto_text("[unknown]", 9);
}

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The bytes of a build id, which the store has in hexadecimal. */
static size_t build_id_of(const struct perfetto_stacks *s, uint32_t id, uint8_t out[20])
{
	size_t len, n = 0;
	const char *text = store_string(s->src->store, id, &len);
	for (; 2 * n + 1 < len && n < 20; n++) {
		int high = digit(text[2 * n]), low = digit(text[2 * n + 1]);
		if (high < 0 || low < 0)
			break;
		out[n] = (uint8_t)(high << 4 | low);
	}
	return n;
}

static void add_module(struct perfetto_stacks *s, const struct module *m, uint64_t iid,
		       struct fresh *to)
{
	const size_t i = to->n_modules++;
	Perfetto__Mapping *mapping = &to->mappings[i];
	perfetto__mapping__init(mapping);
	perfetto__interned_string__init(&to->paths[i]);
	perfetto__interned_string__init(&to->builds[i]);
	mapping->has_iid = to->paths[i].has_iid = to->builds[i].has_iid = true;
	mapping->iid = to->paths[i].iid = to->builds[i].iid = to->mapping_id[i] = iid;
	mapping->has_build_id = true;
	mapping->build_id = iid;
	mapping->n_path_string_ids = 1;
	mapping->path_string_ids = &to->mapping_id[i];
	to->paths[i].has_str = to->builds[i].has_str = true;
	to->paths[i].str = string_of(s, m->path);
	to->builds[i].str = (ProtobufCBinaryData){ build_id_of(s, m->build_id, to->build_id[i]),
						   to->build_id[i] };
	to->mapping_of[i] = mapping;
	to->path_of[i] = &to->paths[i];
	to->build_of[i] = &to->builds[i];
}

/* Names are set when all functions of the stack are known: they move while others are added. */
static int add_frame(struct perfetto_stacks *s, uint32_t frame, uint64_t iid, struct fresh *to)
{
	const struct store_frame *f = export_frame(s->src->store, frame);
	const struct module m = { f->module, f->build_id };
	const uint64_t rel_pc = f->function ? 0 : f->offset;
	uint32_t module;
	bool new;
	int rc = intern_add(&s->modules, &m, sizeof(m), &module, &new);
	if (rc)
		return rc;
	if (new)
		add_module(s, &m, module + 1, to);
	Perfetto__Frame *out = &to->frames[to->n_frames];
	perfetto__frame__init(out);
	perfetto__interned_string__init(&to->names[to->n_frames]);
	out->has_iid = out->has_function_name_id = out->has_mapping_id = out->has_rel_pc = true;
	out->iid = out->function_name_id = iid;
	out->mapping_id = module + 1;
	out->rel_pc = rel_pc;
	to->frame_of[to->n_frames] = out;
	to->name_of[to->n_frames] = &to->names[to->n_frames];
	to->n_frames++;
	return 0;
}

static void set_names(struct perfetto_stacks *s, struct fresh *to)
{
	for (size_t i = 0; i < to->n_frames; i++) {
		Perfetto__InternedString *name = &to->names[i];
		size_t len;
		const uint64_t iid = to->frames[i].iid;
		const char *text = functions_name(&s->functions, (uint32_t)iid - 1, &len);
		name->has_iid = name->has_str = true;
		name->iid = iid;
		name->str = perfetto_text(text, len);
	}
}

/* The frames of a stack, root first. */
static int add_stack(struct perfetto_stacks *s, uint32_t stack, uint64_t *ids, size_t *ret_n,
		     struct fresh *to)
{
	uint32_t frames[EXPORT_DEPTH_MAX], function;
	const size_t n = export_stack(s->src->store, stack, frames);
	int rc = 0;
	for (size_t i = 0; !rc && i < n; i++) {
		const uint32_t frame = frames[n - 1 - i];
		rc = functions_find(&s->functions, frame, &function);
		ids[i] = (uint64_t)function + 1;
		if (rc || function < s->n_frames)
			continue;
		s->n_frames = function + 1;
		rc = add_frame(s, frame, ids[i], to);
	}
	if (!rc)
		set_names(s, to);
	*ret_n = n;
	return rc;
}

static int put(struct perfetto_stacks *s, uint32_t stack, struct fresh *to, struct perfetto_out *o)
{
	Perfetto__TracePacket p = PERFETTO__TRACE_PACKET__INIT;
	Perfetto__InternedData data = PERFETTO__INTERNED_DATA__INIT;
	Perfetto__Callstack callstack = PERFETTO__CALLSTACK__INIT, *callstacks = &callstack;
	uint64_t ids[EXPORT_DEPTH_MAX];
	int rc = add_stack(s, stack, ids, &callstack.n_frame_ids, to);
	callstack.has_iid = true;
	callstack.iid = stack;
	callstack.frame_ids = ids;
	data.n_callstacks = 1;
	data.callstacks = &callstacks;
	data.n_function_names = data.n_frames = to->n_frames;
	data.function_names = to->name_of;
	data.frames = to->frame_of;
	data.n_mappings = data.n_mapping_paths = data.n_build_ids = to->n_modules;
	data.mappings = to->mapping_of;
	data.mapping_paths = to->path_of;
	data.build_ids = to->build_of;
	p.interned_data = &data;
	return rc ? rc : perfetto_put(o, &p);
}

int perfetto_stacks_put(struct perfetto_stacks *s, uint32_t stack, struct perfetto_out *o)
{
	if (!stack)
		return 0;
	int rc = idset_reserve(&s->stacks, (size_t)stack + 1);
	if (rc || idset_has(&s->stacks, stack))
		return rc;
	struct fresh *to = malloc(sizeof(*to));
	if (!to)
		return -ENOMEM;
	to->n_frames = to->n_modules = 0;
	rc = put(s, stack, to, o);
	free(to);
	idset_add(&s->stacks, stack);
	return rc;
}

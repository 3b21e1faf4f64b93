/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers that V8 exports for debuggers (v8/tools/gen-postmortem-metadata.py): variables of 32
 * bits in the file's data. Types in their names differ between versions.
 */
#include "symbols/v8.h"

#include "symbols/dynsym.h"

#include <endian.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define PREFIX "v8dbg_"
#define SHARED_MAX 56	/* the last field of a SharedFunctionInfo: the walk reads 64 bytes */
#define OFFSET_MAX 1024 /* of a field */
#define TYPE_MAX 0xffff

struct values {
	struct v8_layout l;
	int32_t fp_context, map, function_register, smi_tag, smi_mask, smi_shift, heap_tag,
		heap_mask, tagged_size, string_tag;
};

/* Names that end in "__" are followed by a type. */
static const struct wanted {
	const char *name;
	uint16_t to, bytes;
	int32_t min, max;
} wanted[] = {
#define L(m) offsetof(struct values, l.m), 2
#define V(m) offsetof(struct values, m), 4
	{ "off_fp_function", L(fp_function), -64, -8 },
	{ "off_fp_context", V(fp_context), -56, -8 },
	{ "class_HeapObject__map__", V(map), 0, 0 },
	{ "class_Map__instance_type__", L(instance_type), 8, OFFSET_MAX },
	{ "class_JSFunction__shared__", L(shared), 8, OFFSET_MAX },
	{ "class_SharedFunctionInfo__name_or_scope_info__", L(name_or_scope), 8, SHARED_MAX },
	{ "class_SharedFunctionInfo__script__", L(script), 8, SHARED_MAX },
	/* As it was called up to Node 20 */
	{ "class_SharedFunctionInfo__script_or_debug_info__", L(script), 8, SHARED_MAX },
	{ "class_SharedFunctionInfo__internal_formal_parameter_count__", L(parameters), 8,
	  SHARED_MAX },
	{ "class_SharedFunctionInfo__raw_function_token_offset__", L(token), 8, SHARED_MAX },
	{ "class_Script__name__", L(script_name), 8, OFFSET_MAX },
	{ "class_Script__source__", L(script_source), 8, OFFSET_MAX },
	{ "class_Script__line_ends__", L(line_ends), 8, OFFSET_MAX },
	{ "scopeinfo_idx_ncontextlocals", L(n_locals), 0, 64 },
	{ "scopeinfo_idx_first_vars", L(first_variable), 0, 64 },
	{ "class_String__length__", L(string_length), 8, OFFSET_MAX },
	{ "class_SeqOneByteString__chars__", L(one_byte), 8, OFFSET_MAX },
	{ "class_SeqTwoByteString__chars__", L(two_byte), 8, OFFSET_MAX },
	{ "class_ConsString__first__", L(cons_first), 8, OFFSET_MAX },
	{ "class_ConsString__second__", L(cons_second), 8, OFFSET_MAX },
	{ "class_ThinString__actual__", L(thin_actual), 8, OFFSET_MAX },
	{ "class_SlicedString__parent__", L(sliced_parent), 8, OFFSET_MAX },
	{ "class_SlicedString__offset__", L(sliced_offset), 8, OFFSET_MAX },
	{ "class_FixedArrayBase__length__", L(array_length), 8, OFFSET_MAX },
	{ "class_FixedArray__data__", L(array_data), 8, OFFSET_MAX },
	{ "type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE", L(type_shared), 0, TYPE_MAX },
	{ "type_ScopeInfo__SCOPE_INFO_TYPE", L(type_scope), 0, TYPE_MAX },
	{ "type_Script__SCRIPT_TYPE", L(type_script), 0, TYPE_MAX },
	{ "type_FixedArray__FIXED_ARRAY_TYPE", L(type_array), 0, TYPE_MAX },
	{ "FirstNonstringType", L(first_nonstring), 1, TYPE_MAX },
	{ "StringEncodingMask", L(encoding_mask), 1, TYPE_MAX },
	{ "OneByteStringTag", L(one_byte_tag), 0, TYPE_MAX },
	{ "StringRepresentationMask", L(representation_mask), 1, TYPE_MAX },
	{ "SeqStringTag", L(seq_tag), 0, TYPE_MAX },
	{ "ConsStringTag", L(cons_tag), 0, TYPE_MAX },
	{ "SlicedStringTag", L(sliced_tag), 0, TYPE_MAX },
	{ "ThinStringTag", L(thin_tag), 0, TYPE_MAX },
	{ "JSFunctionRegister", V(function_register), 0, 15 },
	{ "SmiTag", V(smi_tag), 0, 0 },
	{ "SmiTagMask", V(smi_mask), 1, 1 },
	/* Pointers that are compressed are 4 bytes, and need another walk */
	{ "TaggedSize", V(tagged_size), 8, 8 },
	{ "SmiShiftSize", V(smi_shift), 31, 31 },
	{ "HeapObjectTag", V(heap_tag), V8_TAG, V8_TAG },
	{ "HeapObjectTagMask", V(heap_mask), V8_TAG_MASK, V8_TAG_MASK },
};
#define N_WANTED (sizeof(wanted) / sizeof(wanted[0]))

struct search {
	const struct elf_image *img;
	struct values v;
	bool any, wrong[N_WANTED], found[N_WANTED];
};

/* A variable of the file; what it has no bytes for is 0. */
static bool read_value(const struct elf_image *img, uint64_t at, int32_t *ret)
{
	uint32_t v = 0;
	for (size_t i = 0; i < img->n_loads; i++) {
		const struct elf_segment *s = &img->loads[i];
		if (at < s->vaddr || at - s->vaddr > s->memsz || s->memsz - (at - s->vaddr) < 4)
			continue;
		if (at - s->vaddr < s->filesz &&
		    elf_image_read(img, s->offset + (at - s->vaddr), &v, sizeof(v)))
			return false;
		*ret = (int32_t)le32toh(v);
		return true;
	}
	return false;
}

static bool is_named(const struct wanted *w, const char *name)
{
	size_t n = strlen(w->name);
	return n > 2 && !strcmp(w->name + n - 2, "__") ? !strncmp(name, w->name, n)
						       : !strcmp(name, w->name);
}

static void on_symbol(void *ctx, const char *name, const Elf64_Sym *sym)
{
	struct search *s = ctx;
	int32_t v;
	if (strncmp(name, PREFIX, strlen(PREFIX)) != 0)
		return;
	name += strlen(PREFIX);
	s->any = true;
	for (size_t i = 0; i < N_WANTED; i++) {
		if (!is_named(&wanted[i], name))
			continue;
		s->found[i] = true;
		s->wrong[i] = !read_value(s->img, sym->st_value, &v) || v < wanted[i].min ||
			      v > wanted[i].max;
		if (s->wrong[i])
			continue;
		if (wanted[i].bytes == 2)
			memcpy((char *)&s->v + wanted[i].to, &(uint16_t){ (uint16_t)v }, 2);
		else
			memcpy((char *)&s->v + wanted[i].to, &v, 4);
	}
}

/* Another name of the same field was found. */
static bool has_other(const struct search *s, size_t i)
{
	for (size_t k = 0; k < N_WANTED; k++)
		if (wanted[k].to == wanted[i].to && s->found[k])
			return true;
	return false;
}

/* What is missing or wrong, NULL: nothing. */
static const char *defect_of(const struct search *s)
{
	const struct v8_layout *l = &s->v.l;
	for (size_t i = 0; i < N_WANTED; i++)
		if (s->wrong[i] || !has_other(s, i))
			return wanted[i].name;
	if (s->v.fp_context != l->fp_function + 8)
		return "off_fp_context";
	/* The name of a function stands behind its variables. What stands before them differs. */
	if (l->first_variable != l->n_locals + 1 && l->first_variable != l->n_locals + 3)
		return "scopeinfo_idx_first_vars";
	return NULL;
}

int v8_find(const struct elf_image *img, struct binary_v8 *ret)
{
	/* From x86-64's numbers of registers to those of DWARF */
	static const uint8_t dwarf[16] = { 0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15 };
	struct search s = { .img = img };
	if (img->machine != EM_X86_64 || dynsym_each(img, on_symbol, &s) || !s.any)
		return -ENOENT;
	const char *defect = defect_of(&s);
	*ret = (struct binary_v8){ .found = 1, .layout = s.v.l };
	ret->layout.function_register = dwarf[s.v.function_register & 15];
	if (defect)
		snprintf(ret->missing, sizeof(ret->missing), "%s", defect);
	return 0;
}

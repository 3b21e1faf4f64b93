/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/member.h"

#include "symbols/lines.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define DEPTH_MAX 64

struct search {
	const char *type, *member;
	uint64_t found;
};

static bool is_record(int tag)
{
	return tag == DW_TAG_structure_type || tag == DW_TAG_class_type || tag == DW_TAG_union_type;
}

static bool is_called(Dwarf_Die *die, const char *name)
{
	const char *own = dwarf_diename(die);
	return own && !strcmp(own, name);
}

/* No location at all: at the beginning, as in a union. */
static int offset_of(Dwarf_Die *member, uint64_t *ret)
{
	Dwarf_Attribute attr;
	Dwarf_Word offset = 0;
	Dwarf_Op *op;
	size_t n;
	if (!dwarf_attr(member, DW_AT_data_member_location, &attr) ||
	    !dwarf_formudata(&attr, &offset)) {
		*ret = offset;
		return 0;
	}
	if (dwarf_getlocation(&attr, &op, &n) || n != 1 || op->atom != DW_OP_plus_uconst)
		return -EOPNOTSUPP;
	*ret = op->number;
	return 0;
}

/* In this structure. -ENOENT: it has no such member. */
static int search_record(struct search *s, Dwarf_Die *record)
{
	Dwarf_Die child;
	if (dwarf_hasattr(record, DW_AT_declaration) || dwarf_child(record, &child))
		return -ENOENT;
	do {
		if (dwarf_tag(&child) == DW_TAG_member && is_called(&child, s->member))
			return offset_of(&child, &s->found);
	} while (!dwarf_siblingof(&child, &child));
	return -ENOENT;
}

static int search_type(struct search *s, Dwarf_Die *die)
{
	int tag = dwarf_tag(die);
	Dwarf_Attribute attr;
	Dwarf_Die type;
	if ((!is_record(tag) && tag != DW_TAG_typedef) || !is_called(die, s->type))
		return -ENOENT;
	if (is_record(tag))
		return search_record(s, die);
	if (!dwarf_formref_die(dwarf_attr(die, DW_AT_type, &attr), &type) ||
	    !is_record(dwarf_tag(&type)))
		return -ENOENT;
	return search_record(s, &type);
}

/* Depth first. Types may be inside of functions, namespaces and other types. */
static int search_unit(struct search *s, Dwarf_Die *unit)
{
	Dwarf_Die stack[DEPTH_MAX], child;
	size_t n = 1;
	stack[0] = *unit;
	for (;;) {
		int rc = search_type(s, &stack[n - 1]);
		if (rc != -ENOENT)
			return rc;
		int none = dwarf_child(&stack[n - 1], &child);
		if (none < 0)
			return -EBADMSG;
		if (!none) {
			if (n == DEPTH_MAX)
				return -E2BIG;
			stack[n++] = child;
			continue;
		}
		int last;
		while ((last = dwarf_siblingof(&stack[n - 1], &stack[n - 1])) > 0 && --n > 1)
			;
		if (last < 0)
			return -EBADMSG;
		if (last > 0)
			return -ENOENT; /* the unit itself */
	}
}

int member_offset(int fd, const char *type, const char *member, uint64_t *ret)
{
	struct search s = { .type = type, .member = member };
	Dwarf_CU *cu = NULL;
	Dwarf_Die die;
	Dwarf *dwarf;
	int rc = lines_dwarf(fd, &dwarf), more = 0;
	if (rc)
		return rc == -E2BIG ? rc : -ENOENT;
	rc = -ENOENT;
	while (rc == -ENOENT && !(more = dwarf_get_units(dwarf, cu, &cu, NULL, NULL, &die, NULL)))
		rc = search_unit(&s, &die);
	if (!rc)
		*ret = s.found;
	return more < 0 ? -EBADMSG : rc;
}

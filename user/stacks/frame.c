/* SPDX-License-Identifier: Apache-2.0 */
#include "stacks/frame.h"

#include "stacks/ids.h"
#include "store/writer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define FRAME_CREATOR_MAX 4200u /* the longest name of a function, and more */

struct user_frame frame_locate(struct frames *f, const struct proc_image *im, uint64_t addr,
			       bool leaf)
{
	struct user_frame u = { .im = im, .at = leaf ? addr : addr - 1 };
	uint64_t bias;
	u.map = im ? proc_image_map(im, u.at) : NULL;
	u.module = u.map ? modules_of(f->modules, im, u.map) : NULL;
	if (!u.module)
		return u;
	u.offset = u.at - u.map->start + u.map->pgoff;
	u.has_vaddr = u.module->binary &&
		      !binary_bias(u.module->binary, u.map->start, u.map->pgoff, &bias);
	if (u.has_vaddr)
		u.vaddr = u.at - bias;
	return u;
}

int frame_of_symbol(struct frames *f, const struct symbol *sym, const struct store_frame *in,
		    const char *module, uint32_t *ret)
{
	if (kept_get(*sym->tag, f->life, ret))
		return 0;
	struct store_frame frame = *in;
	const char *name = *sym->name ? sym->name : NULL;
	int rc = name ? store_add_string(f->store, name, strlen(name), &frame.function) : 0;
	rc = rc ? rc
		: frame_reasons_add(f->reasons, f->store, &frame,
				    &(struct frame_names){ name, module, NULL }, ret);
	if (!rc)
		*sym->tag = kept_put(*ret, f->life);
	return rc;
}

int frame_find_symbol(const struct user_frame *u, struct symbol *ret)
{
	return u->has_vaddr ? binary_find(u->module->binary, u->vaddr, ret) : -ENOENT;
}

int frame_symbol(struct frames *f, const struct user_frame *u, struct symbol *ret)
{
	int rc = frame_find_symbol(u, ret);
	if (rc != -EBADF)
		return rc;
	rc = modules_reopen(f->modules, u->module, u->im, u->map);
	return rc ? rc : frame_find_symbol(u, ret);
}

int frame_creator(struct frames *f, uint32_t frame, uint32_t *ret)
{
	struct store_frame made;
	char name[FRAME_CREATOR_MAX];
	const char *function = store_frame_function(f->store, frame, &made);
	if (!function)
		return -EINVAL;
	/* Of assembler, or called by it through a wrapper: no go statement */
	if (!strncmp(function, "runtime.rt0_go", 14) || !strncmp(function, "runtime.newproc", 15))
		return -ENOENT;
	snprintf(name, sizeof(name), "created by %s", *function ? function : "[unknown]");
	made.flags = 0;
	int rc = store_add_string(f->store, name, strlen(name), &made.function);
	return rc ? rc
		  : frame_reasons_add(f->reasons, f->store, &made,
				      &(struct frame_names){ name, NULL, NULL }, ret);
}

int frame_plain(struct frames *f, const struct user_frame *u, const struct symbol *sym,
		uint32_t *ret)
{
	const struct module *m = u->module;
	struct store_frame frame = { .kind = FRAME_USER,
				     .module = m->name,
				     .build_id = m->build_id };
	bool file = m->path[0] == '/';
	if (sym && !*sym->name) /* of the function, not of the address */
		frame.offset = u->offset - (u->vaddr - sym->start);
	if (sym && (*sym->name || file))
		return frame_of_symbol(f, sym, &frame, m->path, ret);
	if (file)
		frame.offset = u->offset;
	else
		/* Offsets in memory without a file have no meaning later: one frame for all. */
		frame.function = m->name;
	return frame_reasons_add(f->reasons, f->store, &frame,
				 &(struct frame_names){ file ? NULL : m->path, m->path, NULL },
				 ret);
}

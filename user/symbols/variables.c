/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/variables.h"

#include "elf/variable_at.h"
#include "symbols/symbols.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(VARIABLES_MAX <= ELF_VARIABLE_AT_MAX, "addresses of one request");

static int add_name(const struct elf_variable_at *v, struct buf *out)
{
	struct variable_name name = { 0 };
	if (*v->name) {
		name.offset = v->vaddr - v->start;
		name.size = v->size;
		symbol_demangle(v->name, name.name, sizeof(name.name));
	}
	return buf_add(out, &name, sizeof(name));
}

int variables_op(const struct sandbox_request *q, struct buf *out)
{
	size_t n = q->len / sizeof(uint64_t);
	struct elf_image img;
	if (!q->n_fds || !n || n > VARIABLES_MAX)
		return -EINVAL;
	int rc = elf_image_open(&img, q->fds[0], "file", NULL);
	if (rc)
		return rc;
	struct elf_variable_at *v = calloc(n, sizeof(*v));
	for (size_t i = 0; v && i < n; i++)
		memcpy(&v[i].vaddr, q->bytes + i * sizeof(uint64_t), sizeof(uint64_t));
	rc = v ? elf_variables_at(&img, v, n) : -ENOMEM;
	for (size_t i = 0; !rc && i < n; i++)
		rc = add_name(&v[i], out);
	free(v);
	elf_image_fini(&img);
	return rc;
}

int variables_decode(struct variable_name *ret, size_t n, const struct buf *in)
{
	if (in->len != n * sizeof(*ret))
		return -EBADMSG;
	memcpy(ret, in->data, in->len);
	for (size_t i = 0; i < n; i++)
		if (!memchr(ret[i].name, 0, sizeof(ret[i].name)))
			return -EBADMSG;
	return 0;
}

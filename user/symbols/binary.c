/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One ELF file: opened cheaply (headers and notes), its symbols read when the first address is asked for.
 *
 * More sources of symbols come in at binary_load(): .gnu_debugdata, the .gnu_debuglink and build-id files, and names
 * for inlined frames from DWARF; each fills the same table.
 */
#include "symbols/symbols.h"

#include "elf/image.h"
#include "symbols/cells.h"
#include "symbols/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct binary {
	struct elf_image img;
	struct table table;
	struct cells cells;
	int loaded;
	int load_rc; /* kept: a file that lies is not read again */
	char path[]; /* for messages */
};

static struct binary *new_binary(const char *path)
{
	size_t len = strlen(path) + 1;
	struct binary *b = calloc(1, sizeof(*b) + len);
	if (b)
		memcpy(b->path, path, len);
	return b;
}

int binary_open(struct binary **ret, int fd, const char *path, struct err *err)
{
	struct binary *b = new_binary(path);
	if (!b)
		return err_sys(err, -ENOMEM, "%s", path);
	int rc = elf_image_open(&b->img, fd, path, err);
	if (rc) {
		free(b);
		return rc;
	}
	*ret = b;
	return 0;
}

int binary_open_memory(struct binary **ret, const void *image, size_t size, const char *name, struct err *err)
{
	struct binary *b = new_binary(name);
	if (!b)
		return err_sys(err, -ENOMEM, "%s", name);
	int rc = elf_image_open_memory(&b->img, image, size, name, err);
	if (rc) {
		free(b);
		return rc;
	}
	*ret = b;
	return 0;
}

void binary_free(struct binary *b)
{
	if (!b)
		return;
	cells_fini(&b->cells);
	table_fini(&b->table);
	elf_image_fini(&b->img);
	free(b);
}

size_t binary_build_id(const struct binary *b, const uint8_t **ret)
{
	if (b->img.build_id_len)
		*ret = b->img.build_id;
	return b->img.build_id_len;
}

int binary_vaddr(const struct binary *b, uint64_t file_offset, uint64_t *ret_vaddr)
{
	return elf_image_vaddr(&b->img, file_offset, ret_vaddr);
}

int binary_label_descriptor(const struct binary *b, uint64_t *ret_vaddr)
{
	if (b->img.label_rc)
		return b->img.label_rc;
	*ret_vaddr = b->img.label_vaddr;
	return 0;
}

int binary_load(struct binary *b, struct err *err)
{
	if (b->loaded)
		return b->load_rc;
	b->loaded = 1;
	b->load_rc = table_read(&b->table, &b->img, b->path, err);
	elf_image_drop(&b->img);
	return b->load_rc;
}

int binary_find(struct binary *b, uint64_t vaddr, struct symbol *ret)
{
	binary_load(b, NULL); /* what could be read counts */
	int64_t i = table_find(&b->table, vaddr);
	if (i < 0)
		return (int)i;
	const struct table_entry *e = &b->table.entries[i];
	struct cell *cell = cells_find(&b->cells, (uint32_t)i);
	if (!cell)
		cell = cells_add(&b->cells, (uint32_t)i, b->table.names + e->name);
	if (!cell)
		return -ENOMEM;
	*ret = (struct symbol){
		.name = cell->name,
		.start = b->table.base + e->addr,
		.size = e->size & TABLE_SIZE_GUESSED ? 0 : e->size,
		.tag = &cell->tag,
	};
	return 0;
}

size_t binary_memory(const struct binary *b)
{
	return sizeof(*b) + strlen(b->path) + 1 + elf_image_memory(&b->img) + table_memory(&b->table) + b->cells.bytes;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: the symbols of an ELF file whose headers are right: its .symtab, its .dynsym,
 * .gnu_debugdata, .gnu_debuglink and .eh_frame_hdr, each a piece of the input behind a byte that
 * says which are there, and whether .gnu_debugdata is yet to be packed. It has two sections of code
 * more: a longer one at the same place, and one 5 GiB from there. The table goes to the recorder's
 * side as a worker sends it. The input itself is asked, too, as a file.
 *
 * Covers: symbols/table.c symbols/table_find.c symbols/debugdata.c symbols/parser.c
 */
#include "fuzz/elf_file.h"
#include "symbols/parser.h"

#include <errno.h>
#include <lzma.h>

enum {
	SYMTAB = 1,
	DYNSYM = 2,
	DEBUGDATA = 4,
	DEBUGLINK = 8,
	FRAME_HDR = 16,
	SEPARATE = 32,
	PACK = 64,
	LARGE = 128 /* the file */
};

#define FAR_TEXT (5ull << 30)

static void look_up(struct table *t)
{
	uint64_t start, end;
	for (size_t i = 0; i < t->n; i++) {
		uint64_t vaddr = t->base + t->entries[i].addr;
		int64_t found = table_find(t, vaddr);
		require(found < (int64_t)t->n);
		if (table_piece(t, vaddr, found, &start, &end))
			require(start <= vaddr && vaddr < end);
		vaddr += t->entries[i].size & ~TABLE_SIZE_GUESSED; /* in another one, if in any */
		found = table_find(t, vaddr);
		require(found < (int64_t)t->n && found != (int64_t)i);
	}
	table_find(t, UINT64_MAX);
	table_memory(t);
}

static void read_symbols(sandbox_op op, const struct sandbox_request *q)
{
	struct buf out = BUF_INIT;
	struct table t;
	struct err err = { 0 };
	int load;
	if (!op(q, &out) && well(parser_decode_table(&t, &out, &load, &err))) {
		look_up(&t);
		table_fini(&t);
	}
	buf_fini(&out);
}

static void read_head(const struct sandbox_request *q)
{
	struct buf out = BUF_INIT;
	struct facts f;
	if (!parser_op_open(q, &out) && well(facts_decode(&f, &out)))
		facts_fini(&f);
	out.len = 0;
	parser_op_crc(q, &out);
	buf_fini(&out);
}

static void ask(int fd, bool separate)
{
	static const uint64_t some[] = { 0x110, 0x100, 0, ELF_FILE_TEXT };
	const int fds[] = { fd, fd };
	struct sandbox_request q = {
		.bytes = (const uint8_t *)"fuzz", .len = 4, .fds = fds, .n_fds = separate ? 2 : 1
	};
	read_head(&q);
	read_symbols(parser_op_load, &q);
	q.bytes = (const uint8_t *)some;
	q.len = sizeof(some);
	read_symbols(parser_op_parts, &q);
}

/* Nothing can be read: there is no file. */
static void ask_nothing(void)
{
	static const uint8_t many[8 * (TABLE_PARTS_MAX + 1)]; /* also a name that is cut */
	const struct sandbox_request q = { .bytes = many, .len = sizeof(many) };
	struct buf out = BUF_INIT;
	require(parser_op_open(&q, &out) == -EINVAL && parser_op_crc(&q, &out) == -EINVAL);
	require(parser_op_parts(&q, &out) == -E2BIG);
	buf_fini(&out);
}

/* Replace the piece by its .xz file. */
static void pack(uint8_t **piece, size_t *len)
{
	size_t room = lzma_stream_buffer_bound(*len), n = 0;
	uint8_t *packed = malloc(room);
	require(packed && lzma_easy_buffer_encode(0, LZMA_CHECK_CRC32, NULL, *piece, *len, packed,
						  &n, room) == LZMA_OK);
	free(*piece);
	*piece = packed;
	*len = n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	uint8_t there = take_byte(&in), *pieces[6] = { 0 };
	struct elf_part parts[ELF_FILE_SECTIONS];
	size_t n = 0, len[6] = { 0 }, file_size;
	for (size_t i = 0; i < 6; i++) /* symtab, its strings, debugdata, debuglink, frame hdr */
		pieces[i] = take_piece(&in, &len[i]);
	if (there & PACK)
		pack(&pieces[2], &len[2]);
	parts[n++] = (struct elf_part){ .name = ".text",
					.type = SHT_NOBITS,
					.flags = SHF_ALLOC | SHF_EXECINSTR,
					.memory = ELF_FILE_TEXT };
	parts[n++] = (struct elf_part){
		.name = ".strtab", .type = SHT_STRTAB, .bytes = pieces[1], .size = len[1]
	};
	for (size_t i = 0; i < 2; i++)
		if (there & (SYMTAB << i))
			parts[n++] = (struct elf_part){ .name = i ? ".dynsym" : ".symtab",
							.type = i ? SHT_DYNSYM : SHT_SYMTAB,
							.link = 2,
							.entsize = sizeof(Elf64_Sym),
							.bytes = pieces[i ? 5 : 0],
							.size = len[i ? 5 : 0] / 24 * 24 };
	static const char *const names[] = { ".gnu_debugdata", ".gnu_debuglink", ".eh_frame_hdr" };
	for (size_t i = 0; i < 3; i++)
		if (there & (DEBUGDATA << i))
			parts[n++] = (struct elf_part){ .name = names[i],
							.type = SHT_PROGBITS,
							.addr = ELF_FILE_TEXT / 2,
							.bytes = pieces[2 + i],
							.size = len[2 + i] };
	for (size_t i = 0; i < 2; i++)
		parts[n++] = (struct elf_part){ .name = ".text",
						.type = SHT_NOBITS,
						.flags = SHF_ALLOC | SHF_EXECINSTR,
						.addr = i ? FAR_TEXT : 0,
						.memory = ELF_FILE_TEXT + 4096 };
	uint8_t *file = elf_file(EM_X86_64, parts, n, &file_size);
	int fd = file_of(file, file_size);
	if (there & LARGE) /* more than what is read at once; with SEPARATE, than is read at all */
		require(!ftruncate(fd, there & SEPARATE ? DEBUGLINK_FILE_MAX + 1 : 300 << 10));
	ask(fd, there & SEPARATE);
	close(fd);
	fd = file_of(data, size);
	ask(fd, false);
	close(fd);
	ask_nothing();
	free(file);
	for (size_t i = 0; i < 6; i++)
		free(pieces[i]);
	return 0;
}

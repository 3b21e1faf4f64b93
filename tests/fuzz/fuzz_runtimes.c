/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: what tells the runtimes of languages in an ELF file whose headers are right. The input
 * is a byte of enum, then pieces: the symbols, the constants, the functions of .eh_frame_hdr and
 * the relocations, as below; what is left is the file's data. The input itself is asked, too, as a
 * file.
 *
 * Covers: symbols/dynsym.c symbols/hotspot.c symbols/perl.c symbols/php.c symbols/python.c
 * symbols/ruby.c symbols/unnamed.c symbols/v8.c symbols/variables.c
 */
#include "elf/image.h"
#include "fuzz/elf_file.h"
#include "sandbox/sandbox.h"
#include "symbols/hotspot.h"
#include "symbols/perl.h"
#include "symbols/luajit.h"
#include "symbols/php.h"
#include "symbols/python.h"
#include "symbols/ruby.h"
#include "symbols/v8.h"
#include "symbols/variables.h"

#include <errno.h>
#include "luajit_wire.h"

enum {
	PYTHON = 1, /* it has .PyRuntime */
	CONSTANTS = 2,
	FUNCTIONS = 4,
	RAW = 8, /* the piece of functions is .eh_frame_hdr as it is */
	ARM64 = 16,
	LARGE = 32, /* .rodata says that it is */
	ADDRESSES = 64,
	NO_NAMES = 128
};

#define DATA_AT sizeof(struct elf_file_head) /* address, and place in the file */
#define SYMBOLS_MAX 256u
#define RELOCATIONS_MAX 8192u
#define FAR (1ull << 40) /* where no segment is */

struct symbols {
	Elf64_Sym v[SYMBOLS_MAX];
	size_t n;
	struct buf names;
};

/*
 * Each: its name, 0, then its place in the data and its size, of 16 bits each. Place 0xffff: it is
 * not defined; 0xfffe: no segment has it.
 */
static void take_symbols(struct input in, struct symbols *s)
{
	*s = (struct symbols){ .names = BUF_INIT };
	while (in.left && s->n < SYMBOLS_MAX) {
		size_t len;
		uint16_t at[2];
		char *name = take_until(&in, '\0', &len);
		take_bytes(&in, at, sizeof(at));
		s->v[s->n++] = (Elf64_Sym){ .st_name = (uint32_t)s->names.len,
					    .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT),
					    .st_shndx = at[0] != 0xffff,
					    .st_value = at[0] == 0xffff	  ? 0
							: at[0] == 0xfffe ? FAR
									  : DATA_AT + at[0],
					    .st_size = at[1] };
		well(buf_add(&s->names, name, len + 1));
		free(name);
	}
}

/* Starts of functions, each a place in the data of 16 bits; the section stands at its place. */
static void make_functions(struct input in, uint64_t section, struct buf *out)
{
	static const uint8_t usual[4] = { 1, 0x1b, 3, 0x3b };
	const uint32_t more[2] = { 0, (uint32_t)(in.left / 2) };
	well(buf_add(out, usual, sizeof(usual)));
	well(buf_add(out, more, sizeof(more)));
	while (in.left > 1) {
		uint16_t at;
		take_bytes(&in, &at, sizeof(at));
		const int32_t entry[2] = { (int32_t)(DATA_AT + at - section) };
		well(buf_add(out, entry, sizeof(entry)));
	}
}

/* Rows of them: how many, whether they are relative, then of 16 bits where, and to which place. */
static void make_relocations(struct input in, struct buf *out)
{
	size_t n = 0;
	while (in.left) {
		uint8_t head[2];
		uint16_t at[2];
		take_bytes(&in, head, sizeof(head));
		take_bytes(&in, at, sizeof(at));
		for (size_t i = 0; i < head[0] && n < RELOCATIONS_MAX; i++, n++) {
			const Elf64_Rela r = { .r_offset = at[0] + 8 * i,
					       .r_info = head[1] & 1 ? R_X86_64_RELATIVE
								     : R_X86_64_64,
					       .r_addend = (int64_t)(DATA_AT + at[1] + i) };
			well(buf_add(out, &r, sizeof(r)));
		}
	}
}

static void ask_image(const struct elf_image *img)
{
	struct binary_script s;
	struct binary_hotspot hotspot;
	struct binary_v8 v8;
	perl_find(img, &s);
	php_find(img, &s);
	python_find(img, &s);
	if (!ruby_find(img, &s))
		require(!s.eval == !s.eval_size);
	if (!luajit_find(img, &s))
		require(!s.eval == !s.eval_size && (s.eval || s.version == LUAJIT_UNUSUAL));
	if (!hotspot_find(img, &hotspot))
		for (size_t i = 0; i < HOTSPOT_SYMBOLS; i++)
			require(hotspot.at[i] != 0);
	if (!v8_find(img, &v8))
		require(v8.layout.function_register < 16 &&
			memchr(v8.missing, 0, sizeof(v8.missing)));
}

static void ask_variables(int fd, const void *addresses, size_t len)
{
	const struct sandbox_request q = { .bytes = addresses, .len = len, .fds = &fd, .n_fds = 1 };
	struct variable_name names[VARIABLES_MAX];
	struct buf out = BUF_INIT;
	if (!variables_op(&q, &out))
		well(variables_decode(names, len / sizeof(uint64_t), &out));
	require(variables_decode(names, VARIABLES_MAX + 1, &out) == -EBADMSG);
	for (size_t i = 0; i < out.len; i++)
		out.data[i] = 'x'; /* names without an end */
	if (out.len)
		require(variables_decode(names, len / sizeof(uint64_t), &out) == -EBADMSG);
	buf_fini(&out);
}

static void ask(const void *file, size_t size, const uint8_t *addresses, size_t len)
{
	struct elf_image img;
	int fd = file_of(file, size);
	if (!elf_image_open(&img, fd, "fuzz", NULL)) {
		ask_image(&img);
		elf_image_fini(&img);
	}
	ask_variables(fd, addresses, len);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	const uint8_t what = take_byte(&in);
	uint8_t *piece[4];
	size_t len[4], n = 0, file_size;
	struct elf_part parts[ELF_FILE_SECTIONS];
	struct buf functions = BUF_INIT, relocations = BUF_INIT;
	struct symbols symbols;
	for (size_t i = 0; i < 4; i++)
		piece[i] = take_piece(&in, &len[i]);
	take_symbols((struct input){ piece[0], len[0] }, &symbols);
	make_relocations((struct input){ piece[3], len[3] }, &relocations);
	parts[n++] = (struct elf_part){ .name = ".data",
					.type = SHT_PROGBITS,
					.flags = SHF_ALLOC,
					.placed = true,
					.bytes = in.p,
					.size = in.left };
	if (!(what & RAW))
		make_functions((struct input){ piece[2], len[2] }, DATA_AT + in.left, &functions);
	if (what & FUNCTIONS)
		parts[n++] = (struct elf_part){ .name = ".eh_frame_hdr",
						.type = SHT_PROGBITS,
						.placed = true,
						.bytes = what & RAW ? piece[2] : functions.data,
						.size = what & RAW ? len[2] : functions.len };
	parts[n++] = (struct elf_part){ .name = ".dynstr",
					.type = SHT_STRTAB,
					.bytes = symbols.names.data,
					.size = what & NO_NAMES ? 0 : symbols.names.len };
	parts[n] = (struct elf_part){ .name = ".dynsym",
				      .type = SHT_DYNSYM,
				      .link = (uint32_t)n,
				      .entsize = sizeof(Elf64_Sym),
				      .bytes = symbols.v,
				      .size = symbols.n * sizeof(symbols.v[0]) };
	n++;
	if (what & PYTHON)
		parts[n++] = (struct elf_part){
			.name = ".PyRuntime", .type = SHT_PROGBITS, .bytes = "runtime", .size = 8
		};
	if (what & CONSTANTS)
		parts[n++] = (struct elf_part){ .name = ".rodata",
						.type = SHT_PROGBITS,
						.memory = what & LARGE ? 33u << 20 : 0,
						.bytes = piece[1],
						.size = len[1] };
	parts[n++] = (struct elf_part){ .name = ".rela.dyn",
					.type = SHT_RELA,
					.flags = SHF_ALLOC,
					.entsize = sizeof(Elf64_Rela),
					.bytes = relocations.data,
					.size = relocations.len };
	uint8_t *file = elf_file(what & ARM64 ? EM_AARCH64 : EM_X86_64, parts, n, &file_size);
	ask(file, file_size, in.p, what & ADDRESSES || in.left < 8 ? in.left : 8);
	ask(data, size, data, size);
	free(file);
	for (size_t i = 0; i < 4; i++)
		free(piece[i]);
	buf_fini(&functions);
	buf_fini(&relocations);
	buf_fini(&symbols.names);
	return 0;
}

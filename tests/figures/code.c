/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the program on inputs that are made here. */
#include "elf/image.h"
#include "figures/figures.h"
#include "fuzz/elf_file.h"
#include "hist/hist.h"
#include "hist/snapshot.h"
#include "labels/filter.h"
#include "symbols/table.h"
#include "unwind/unwind.h"
#include "util/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool fuzz_starved; /* of fuzz/input.h: nothing fails here */

#define FUNCTIONS 5000
#define FUNCTION_BYTES (ELF_FILE_TEXT / FUNCTIONS)

/* ---- unwind rules ---- */

#define EH_FRAME_AT (4u << 20)

static void add(struct buf *b, const void *p, size_t n)
{
	figures_check(buf_add(b, p, n), "memory");
}

static void add_u32(struct buf *b, uint32_t v)
{
	add(b, &v, sizeof(v));
}

/* Pad to eight bytes, and write the length of the entry that began at `from`. */
static void end_entry(struct buf *b, size_t from)
{
	while (b->len % 8)
		add(b, "", 1); /* DW_CFA_nop */
	const uint32_t len = (uint32_t)(b->len - from - 4);
	memcpy(b->data + from, &len, 4);
}

/* What compilers write for a function with a frame pointer, and for one that pushes registers. */
static void add_program(struct buf *b, uint32_t i)
{
	static const uint8_t framed[] = { 0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6 },
			     pushed[] = { 0x42, 0x0e, 16, 0x8e, 2, 0x42, 0x0e, 24, 0x8d, 3 };
	const uint8_t steps = (uint8_t)figures_draw(6);
	if (i % 3)
		add(b, pushed, sizeof(pushed));
	else
		add(b, framed, sizeof(framed));
	for (uint8_t k = 0; i % 3 && k < steps; k++) {
		const uint8_t grow[] = { (uint8_t)(0x41 + figures_draw(9)), 0x0e,
					 (uint8_t)(32 + 8 * k) };
		add(b, grow, sizeof(grow));
	}
	const uint8_t back[] = { 0x02, (uint8_t)(20 + figures_draw(60)), 0x0c, 7, 8 };
	add(b, back, sizeof(back));
}

static void make_eh_frame(struct buf *b)
{
	/* zR, addresses of four bytes that count from where they stand; cfa rsp+8, ra at cfa-8 */
	static const uint8_t cie[] = { 0,    0,	 0, 0,	  1,	'z', 'R', 0,	1,
				       0x78, 16, 1, 0x1b, 0x0c, 7,   8,	  0x90, 1 };
	add_u32(b, 0);
	add(b, cie, sizeof(cie));
	end_entry(b, 0);
	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		const size_t from = b->len;
		add_u32(b, 0);
		add_u32(b, (uint32_t)(b->len));
		add_u32(b, i * FUNCTION_BYTES - (EH_FRAME_AT + (uint32_t)b->len));
		add_u32(b, FUNCTION_BYTES - figures_draw(16));
		add(b, "", 1);
		add_program(b, i);
		end_entry(b, from);
	}
	add_u32(b, 0);
}

void figures_unwind(const char *store)
{
	struct buf b = BUF_INIT;
	struct unwind_table *t;
	struct elf_image img;
	size_t size;
	(void)store;
	make_eh_frame(&b);
	const struct elf_part part = { .name = ".eh_frame",
				       .type = SHT_PROGBITS,
				       .addr = EH_FRAME_AT,
				       .bytes = b.data,
				       .size = b.len };
	uint8_t *file = elf_file(EM_X86_64, &part, 1, &size);
	figures_check(elf_image_open_memory(&img, file, size, "figures", NULL), "image");
	figures_begin();
	const int rc = unwind_compile(&t, &img, "figures", NULL);
	figures_end("unwind", "unwind rules of a file of 5,000 functions");
	figures_check(rc, "unwind rules");
	figures_check(t->refused || t->fdes != FUNCTIONS ? -74 : 0, "all entries");
	figure("bytes", "unwind", unwind_table_memory(t), "bytes", "memory of these rules");
}

/* ---- symbols ---- */

/* An image with a .symtab of C++ names. */
static void symbols_image(struct elf_image *img)
{
	static Elf64_Sym symbols[FUNCTIONS];
	struct buf names = BUF_INIT;
	size_t size;
	add(&names, "", 1);
	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		char name[64];
		const uint32_t k = (i * 2897u) % FUNCTIONS; /* not in the order of addresses */
		symbols[i] = (Elf64_Sym){ .st_name = (uint32_t)names.len,
					  .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
					  .st_shndx = 1,
					  .st_value = (uint64_t)k * FUNCTION_BYTES,
					  .st_size = FUNCTION_BYTES - figures_draw(16) };
		const int n = snprintf(name, sizeof(name), "_ZN6server8part_%03u9fun_%05uERKSs",
				       i % 100, i);
		add(&names, name, (size_t)n + 1);
	}
	const struct elf_part parts[] = {
		{ .name = ".text",
		  .type = SHT_NOBITS,
		  .flags = SHF_ALLOC | SHF_EXECINSTR,
		  .memory = ELF_FILE_TEXT },
		{ .name = ".strtab", .type = SHT_STRTAB, .bytes = names.data, .size = names.len },
		{ .name = ".symtab",
		  .type = SHT_SYMTAB,
		  .link = 2,
		  .entsize = sizeof(Elf64_Sym),
		  .bytes = symbols,
		  .size = sizeof(symbols) },
	};
	uint8_t *file = elf_file(EM_X86_64, parts, 3, &size);
	figures_check(elf_image_open_memory(img, file, size, "figures", NULL), "image");
}

void figures_symbols(const char *store)
{
	struct elf_image img;
	struct table t;
	(void)store;
	symbols_image(&img);
	const struct elf_image *images[] = { &img };
	figures_begin();
	const int rc = table_read(&t, images, 1, "figures", NULL);
	figures_end("symbols", "the symbol table of a file of 5,000 functions");
	figures_check(rc ? rc : t.n != FUNCTIONS ? -74 : 0, "symbols");
	figure("bytes", "symbols", table_memory(&t), "bytes", "memory of this table");
}

void figures_symbol_find(const char *store)
{
	enum { LOOKUPS = 20000 };
	static uint64_t at[LOOKUPS];
	struct elf_image img;
	struct table t;
	size_t found = 0;
	(void)store;
	symbols_image(&img);
	const struct elf_image *images[] = { &img };
	figures_check(table_read(&t, images, 1, "figures", NULL), "symbols");
	for (size_t i = 0; i < LOOKUPS; i++)
		at[i] = figures_draw(ELF_FILE_TEXT);
	figures_begin();
	for (size_t i = 0; i < LOOKUPS; i++)
		found += table_find(&t, at[i]) >= 0;
	figures_end("symbol-find", "20,000 addresses in this table");
	figures_check(found < LOOKUPS / 2 ? -2 : 0, "look-ups");
}

/* ---- labels ---- */

void figures_filter(const char *store)
{
	enum { RULES = 100, KEYS = 20000 };
	static char text[RULES][32], keys[KEYS][32];
	static size_t len[KEYS];
	struct filter_rule rules[RULES];
	struct label_filter *f;
	struct err err;
	size_t dropped = 0;
	(void)store;
	for (uint32_t i = 0; i < RULES; i++) {
		snprintf(text[i], sizeof(text[i]), i % 10 ? "x-internal-%u" : "auth-%u*", i);
		rules[i] = (struct filter_rule){ text[i], FILTER_DROP };
	}
	for (uint32_t i = 0; i < KEYS; i++) {
		static const char *const shapes[] = { "x-internal-%u", "tenant-%u", "auth-%u-token",
						      "query_%u", "http.header.%u" };
		len[i] = (size_t)snprintf(keys[i], sizeof(keys[i]), shapes[figures_draw(5)],
					  figures_draw(2 * RULES));
	}
	figures_check(filter_new(&f, rules, RULES, &err), "filter");
	figures_begin();
	for (size_t i = 0; i < KEYS; i++)
		dropped += filter_find(f, keys[i], len[i]) == FILTER_DROP;
	figures_end("filter", "20,000 keys of labels against 100 rules");
	figures_check(dropped && dropped < KEYS / 2 ? 0 : -2, "filter");
}

void figures_label_sets(const char *store)
{
	enum { SETS = 2000, LABELS = 8 };
	static char text[SETS][LABELS][16];
	static struct label v[SETS][LABELS];
	uint64_t sum = 0;
	(void)store;
	static const char *const keys[LABELS] = { "tenant", "query_id", "endpoint", "comm",
						  "thread", "trace",	"user",	    "cgroup" };
	for (size_t i = 0; i < SETS; i++)
		for (size_t k = 0; k < LABELS; k++) {
			const char *key = keys[(i + k) % LABELS];
			const int n = snprintf(text[i][k], sizeof(text[i][k]), "v%u",
					       figures_draw(100000));
			v[i][k] = (struct label){ .key = key,
						  .key_len = (uint32_t)strlen(key),
						  .str = text[i][k],
						  .str_len = (uint32_t)n,
						  .type = LABEL_STRING };
		}
	figures_begin();
	for (size_t i = 0; i < SETS; i++)
		sum += labels_key(v[i], labels_normalize(v[i], LABELS), 0);
	figures_end("label-sets", "2,000 sets of 8 labels: sort, and make the key");
	figures_check(sum ? 0 : -2, "keys");
}

/* ---- histograms ---- */

void figures_hist(const char *store)
{
	enum { VALUES = 100000 };
	static uint64_t values[VALUES];
	struct hist_snapshot s;
	struct hist *h;
	struct err err;
	(void)store;
	for (size_t i = 0; i < VALUES; i++)
		values[i] = (uint64_t)figures_draw(1u << 31) >> figures_draw(20);
	hist_snapshot_init(&s, 6);
	figures_check(hist_new(6, &h), "histogram");
	figures_begin();
	for (size_t i = 0; i < VALUES; i++)
		hist_record(h, values[i]);
	const int rc = hist_snapshot_add(&s, h, &err);
	figures_end("hist", "record 100,000 values, and take a snapshot");
	figures_check(rc ? rc : s.total != VALUES ? -74 : 0, "snapshot");
	figure("bytes", "hist", hist_bytes(h), "bytes", "memory of this histogram");
}

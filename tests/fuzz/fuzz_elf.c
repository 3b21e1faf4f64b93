/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: an ELF image, its symbols, notes and names. The input: a small file, as it is; or the
 * code of an accessor.
 *
 * Covers: elf/*.c
 */
#include "elf/accessor.h"
#include "elf/function.h"
#include "elf/go.h"
#include "elf/section.h"
#include "elf/tls.h"
#include "elf/usdt.h"
#include "elf/variable_at.h"
#include "fuzz/input.h"
#include "sampler/probe_arg.h"
#include "symbols/symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

/* No file: opened once. */
static int open_null(void)
{
	static int fd = -1;
	fd = fd < 0 ? open("/dev/null", O_RDONLY | O_CLOEXEC) : fd;
	return fd;
}

static void ask(struct binary *b, uint64_t vaddr)
{
	struct symbol s;
	if (binary_find(b, vaddr, &s))
		return;
	if (s.start > vaddr || (s.size && vaddr - s.start >= s.size) || strlen(s.name) > 10000)
		abort();
	++*s.tag;
}

/* What is asked of files of programs that publish labels. */
static void ask_variables(const uint8_t *data, size_t size)
{
	static const char *const names[] = { "custom_labels_current_set", "otel_thread_ctx_v1",
					     "debug*", "main", NULL };
	struct elf_variable v[8];
	struct elf_image img;
	struct elf_go_layout layout;
	struct elf_section text;
	struct accessor_step steps[ACCESSOR_STEPS_MAX];
	int64_t at;
	if (elf_image_open_memory(&img, data, size, "fuzz", NULL))
		return;
	int n = elf_variables(&img, names, v, 8);
	require(n <= 8);
	for (int i = 0; i < n; i++)
		elf_static_tls(&img, v[i].value);
	elf_is_executable(&img);
	elf_uses_musl(&img);
	elf_go_layout(elf_go_version(&img), &layout);
	elf_go_tls(&img, &at);
	if (!elf_section_read(&img, ".text", 1 << 16, &text)) {
		for (size_t i = 0; i < text.size && i < 256; i++)
			require(accessor_decode(text.bytes + i, text.size - i, text.vaddr + i,
						steps) <= ACCESSOR_STEPS_MAX);
		elf_section_fini(&text);
	}
	elf_image_fini(&img);
}

/* Names of variables by address: at the beginning of each segment, and further on. */
static void ask_addresses(const uint8_t *data, size_t size)
{
	struct elf_variable_at v[ELF_VARIABLE_AT_MAX];
	struct elf_image img;
	size_t n = 0;
	if (elf_image_open_memory(&img, data, size, "fuzz", NULL))
		return;
	for (size_t i = 0; i < img.n_loads && n + 8 <= ELF_VARIABLE_AT_MAX; i++)
		for (uint64_t k = 0; k < 8; k++)
			v[n++].vaddr = img.loads[i].vaddr + k * (img.loads[i].memsz / 8);
	if (!elf_variables_at(&img, v, n))
		for (size_t i = 0; i < n; i++)
			require(!*v[i].name || v[i].vaddr - v[i].start < v[i].size);
	for (size_t i = 0; i < n; i++)
		require(memchr(v[i].name, 0, sizeof(v[i].name)) != NULL);
	elf_image_fini(&img);
}

static bool same_image(const struct elf_image *a, const struct elf_image *b)
{
	return a->n_loads == b->n_loads && a->n_text == b->n_text &&
	       a->n_sections == b->n_sections && a->build_id_len == b->build_id_len &&
	       a->label_rc == b->label_rc && a->trampolines_rc == b->trampolines_rc;
}

/* A descriptor says what the bytes say, and what an address is from is there. */
static void ask_file(const uint8_t *data, size_t size)
{
	struct elf_image a, b;
	uint64_t vaddr, offset;
	uint8_t byte;
	int fd = file_of(data, size), from_file = elf_image_open(&a, fd, "fuzz", NULL),
	    from_memory = elf_image_open_memory(&b, data, size, "fuzz", NULL);
	require(!from_file == !from_memory);
	if (!from_file && !from_memory)
		require(same_image(&a, &b));
	for (uint64_t at = 0; !from_file && at < size + 64; at += 1 + size / 50)
		if (!elf_image_vaddr(&a, at, &vaddr)) {
			require(!elf_image_offset(&a, vaddr, &offset));
			require(at >= size || !elf_image_read(&a, at, &byte, 1));
		}
	if (!from_file) {
		elf_image_drop(&a);
		elf_image_fini(&a);
	}
	if (!from_memory)
		elf_image_fini(&b);
	close(fd);
}

static int count_probe(void *ctx, const struct elf_usdt *u)
{
	struct probe_argument c = { 0 };
	*(size_t *)ctx += strlen(u->provider) + strlen(u->name) + strlen(u->arguments);
	for (unsigned i = 1; i <= 9; i++)
		if (!probe_arg_of_note(u->arguments, i, &c) && !probe_arg_is_sound(&c))
			abort();
	return 0;
}

static bool is_main(void *ctx, const char *name)
{
	(void)ctx;
	return !strcmp(name, "main");
}

static int count_function(void *ctx, const struct elf_function *f)
{
	++*(size_t *)ctx;
	return f->size == 12345;
}

/* A file that is cut after it was opened, as a program that is rewritten; then it is closed. */
static void ask_cut(const uint8_t *data, size_t size)
{
	static const char *const names[] = { "main", NULL };
	struct elf_image img;
	struct elf_section text;
	struct elf_variable v;
	size_t n = 0;
	int fd = file_of(data, size);
	if (!elf_image_open(&img, fd, "fuzz", NULL)) {
		require(!ftruncate(fd, (off_t)(size / 2)));
		for (int closed = 0; closed < 2; closed++) {
			elf_variables(&img, names, &v, 1);
			elf_go_version(&img);
			elf_usdt_each(&img, count_probe, &n);
			elf_function_each(&img, is_main, count_function, &n);
			if (!elf_section_read(&img, ".text", 1 << 16, &text))
				elf_section_fini(&text);
			elf_image_drop(&img);
		}
		elf_image_fini(&img);
	}
	close(fd);
	require(elf_image_open(&img, -1, "fuzz", NULL) == -EBADF);
	require(elf_image_open(&img, open_null(), "fuzz", NULL));
}

/* Code of an accessor, without a file around it: a copy, so that nothing is read behind it. */
static void decode_accessor(const uint8_t *data, size_t size)
{
	struct accessor_step steps[ACCESSOR_STEPS_MAX];
	uint8_t *copy = malloc(size ? size : 1);
	require(copy != NULL);
	memcpy(copy, data, size);
	int n = accessor_decode(copy, size, 0x1000, steps);
	require(n <= ACCESSOR_STEPS_MAX);
	for (int i = 0; i < n; i++) /* numbers are no addresses */
		require(steps[i].op != ACCESSOR_LOAD || steps[i].size == 8 || i + 1 == n);
	free(copy);
}

/* What is asked of files whose code is probed. */
static void ask_probes(const uint8_t *data, size_t size)
{
	struct elf_image img;
	size_t n = 0;
	if (elf_image_open_memory(&img, data, size, "fuzz", NULL))
		return;
	elf_usdt_each(&img, count_probe, &n);
	elf_function_each(&img, is_main, count_function, &n);
	elf_image_fini(&img);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct binary *b = NULL;
	const uint8_t *id;
	uint64_t vaddr, bias;
	struct err err;
	ask_variables(data, size);
	ask_addresses(data, size);
	ask_file(data, size);
	ask_cut(data, size);
	decode_accessor(data, size);
	ask_probes(data, size);
	if (binary_open_memory(&b, data, size, "fuzz", &err))
		return 0;
	binary_build_id(b, &id);
	binary_label_descriptor(b, &vaddr);
	ask(b, 0);
	for (uint64_t off = 0; off < size; off += 1 + size / 200)
		if (!binary_bias(b, off, off, &bias))
			ask(b, off - bias);
	/*
	 * Whatever the symbols claim as their place: every eighth word of the file as an address.
	 */
	for (size_t at = 0; at + 8 <= size; at += 64) {
		memcpy(&vaddr, data + at, 8);
		ask(b, vaddr);
	}
	if (binary_memory(b) > (64u << 20) + 16 * size)
		abort();
	binary_free(b);
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Unwind tables of files that lie: damaged entries, and headers that are wrong. */
#include "unwind/unwind.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static uint8_t *bytes;
static size_t size;

static void read_whole(const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0 && !fstat(fd, &st));
	size = (size_t)st.st_size;
	bytes = malloc(size);
	assert_true(read(fd, bytes, size) == (ssize_t)size);
	close(fd);
}

static Elf64_Shdr *section(const char *name)
{
	Elf64_Ehdr *eh = (void *)bytes;
	Elf64_Shdr *sh = (void *)(bytes + eh->e_shoff), *names = &sh[eh->e_shstrndx];
	for (unsigned i = 0; i < eh->e_shnum; i++)
		if (!strcmp((char *)bytes + names->sh_offset + sh[i].sh_name, name))
			return &sh[i];
	return NULL;
}

/* Compile, look everywhere; whatever comes out, the caps hold. */
static int compile_copy(void)
{
	struct elf_image img;
	struct unwind_table *t = NULL;
	if (elf_image_open_memory(&img, bytes, size, "copy", NULL))
		return 1;
	int rc = unwind_compile(&t, &img, "copy", NULL);
	if (!rc) {
		assert_true(t->n_rows <= UNWIND_ROWS_MAX && t->n_rules <= UNWIND_FILE_RULES_MAX);
		assert_true(t->n_pages <= UNWIND_FILE_PAGES_MAX);
		uint64_t first = t->first_page << 12;
		for (uint64_t at = first - 4096; at < first + ((uint64_t)t->n_pages << 12) + 4096;
		     at += 61)
			unwind_table_find(t, at);
	}
	unwind_table_free(t);
	elf_image_fini(&img);
	return rc;
}

static void test_damaged_entries(void **state)
{
	(void)state;
	read_whole("/usr/bin/sort");
	uint8_t *sound = malloc(size);
	memcpy(sound, bytes, size);
	Elf64_Shdr *sh = section(".eh_frame");
	assert_non_null(sh);
	uint64_t at = sh->sh_offset, len = sh->sh_size;
	srand(7);
	for (int round = 0; round < 600; round++) {
		for (int n = 1 + rand() % 30; n > 0; n--)
			bytes[at + (uint64_t)rand() % len] = (uint8_t)(rand() % 3   ? rand()
								       : rand() % 2 ? 0xff
										    : 0x0f);
		compile_copy();
		if (round % 10 == 9)
			memcpy(bytes, sound, size);
	}
	/* Nothing but one byte, over and over. */
	for (unsigned v = 0; v < 256; v += 5) {
		memset(bytes + at, (int)v, len);
		compile_copy();
	}
	free(sound);
	free(bytes);
}

static void test_lying_headers(void **state)
{
	(void)state;
	read_whole("/usr/bin/sort");
	Elf64_Shdr *sh = section(".eh_frame"), sound = *sh;
	assert_int_equal(compile_copy(), 0);
	sh->sh_size = 1ull << 40;
	assert_int_equal(compile_copy(), -E2BIG);
	sh->sh_size = sound.sh_size;
	sh->sh_offset = size - 4;
	assert_int_equal(compile_copy(), -EBADMSG);
	sh->sh_offset = UINT64_MAX - 8;
	assert_int_equal(compile_copy(), -EBADMSG);
	sh->sh_offset = sound.sh_offset;
	/* the entries point to where there is no text: none is used */
	sh->sh_addr = UINT64_MAX - 100;
	assert_int_equal(compile_copy(), 0);
	*sh = sound;
	Elf64_Ehdr *eh = (void *)bytes;
	Elf64_Phdr *ph = (void *)(bytes + eh->e_phoff);
	eh->e_machine = EM_AARCH64; /* its entries name another return address: none is used */
	assert_int_equal(compile_copy(), 0);
	eh->e_machine = EM_X86_64;
	for (unsigned i = 0; i < eh->e_phnum; i++)
		if (ph[i].p_flags & PF_X && ph[i].p_type == PT_LOAD)
			ph[i].p_memsz = 1ull << 46;
	assert_int_equal(compile_copy(), -E2BIG);
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_damaged_entries),
		cmocka_unit_test(test_lying_headers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bounded reader of little-endian executables and shared objects: x86-64, aarch64, i386.
 *
 * The file belongs to somebody else and may change or lie at any time. Therefore: bytes come only
 * through elf_image_read (pread or a private copy), which checks offset and length against the size
 * seen at the opening. Every count has a cap below. Nothing is followed twice. No mmap (SIGBUS), no
 * library that parses on our behalf.
 *
 * Words: "vaddr" is an address in the file's own terms, "offset" is a file offset. Not thread-safe.
 * Errors: -EBADMSG the file lies or is cut, -E2BIG a cap, -EPROTONOSUPPORT another class, byte
 * order, machine or kind of ELF, -EINVAL not a regular file.
 */
#ifndef ASCRIBE_ELF_IMAGE_H
#define ASCRIBE_ELF_IMAGE_H

#include "util/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ELF_SEGMENTS_MAX 1024u	      /* program headers; real files have 5 to 20 */
#define ELF_SECTIONS_MAX 65536u	      /* section headers; real ones 20 to 200 */
#define ELF_EXEC_SECTIONS_MAX 4096u   /* of these, executable ones; real ones 2 to 10 */
#define ELF_NOTES_MAX (64u * 1024)    /* bytes read of one note segment or section */
#define ELF_NOTE_PARTS_MAX 64u	      /* note segments and sections read in all */
#define ELF_BUILD_ID_MAX 64u	      /* the kernel and linkers use 16, 20 or 32 */
#define ELF_STRINGS_MAX 0xffffffffull /* st_name is 32 bits: nothing behind can be referred to */
#define ELF_MEMORY_MAX (64u * 1024 * 1024) /* an image given in memory */

/* A PT_LOAD segment. offset + filesz and vaddr + memsz do not overflow. */
struct elf_segment {
	uint64_t offset;
	uint64_t filesz;
	uint64_t vaddr;
	uint64_t memsz;
	uint32_t flags; /* PF_X ... */
};

/* An allocated executable section: [vaddr, vaddr + size), not empty, no overflow. */
struct elf_text {
	uint64_t vaddr;
	uint64_t size;
	uint32_t index; /* of its section header; the array is sorted by it */
};

/*
 * A symbol table and the string table it links to; size 0 when there is none. Both lie inside the
 * file.
 */
struct elf_symbols {
	uint64_t offset;
	uint64_t size; /* bytes: a multiple of elf_symbol_size */
	uint64_t strings_offset;
	uint64_t strings_size;
};

struct elf_image {
	int fd;	      /* -1 for memory, or when elf_image_drop has closed it */
	uint8_t *mem; /* NULL for a file */
	uint64_t size;
	uint16_t machine;
	uint16_t type;
	/*
	 * i386: names, lines and build id are read; labels, rules, Go and Python are those of
	 * 64-bit files alone
	 */
	bool is_32;
	uint64_t shoff;
	uint32_t n_sections;
	uint16_t shstrndx; /* the section that holds their names, or SHN_XINDEX */
	struct elf_segment *loads;
	size_t n_loads;
	struct elf_text *text;
	size_t n_text;
	struct elf_symbols symtab;
	struct elf_symbols dynsym;
	struct elf_segment tls; /* memsz 0: there is none */
	uint64_t tls_align;
	uint64_t dynamic_offset, dynamic_size;
	/* The path of the dynamic linker; size 0: there is none */
	uint64_t interp_offset, interp_size;
	uint8_t build_id[ELF_BUILD_ID_MAX];
	size_t build_id_len;
	/* 0: label_vaddr is valid; -ENOENT no note; -EBADMSG, -EPROTONOSUPPORT a wrong one */
	int label_rc;
	uint64_t label_vaddr; /* of struct ascribe_descriptor */
	int trampolines_rc;   /* the same for the table of trampoline labels */
	uint64_t trampolines_vaddr;
};

/*
 * Read headers and notes. fd is duplicated; name is for messages. On failure *img holds nothing and
 * needs no fini.
 */
int elf_image_open(struct elf_image *img, int fd, const char *name, struct err *err);

/* The same from bytes, which are copied. */
int elf_image_open_memory(struct elf_image *img, const void *bytes, size_t size, const char *name,
			  struct err *err);

/* The same, and bytes (from malloc) belong to the image from now on, also on failure. */
int elf_image_adopt(struct elf_image *img, uint8_t *bytes, size_t size, const char *name,
		    struct err *err);

/*
 * Exactly len bytes at offset, or -EBADMSG when the file does not have them, or the errno of pread.
 */
int elf_image_read(const struct elf_image *img, uint64_t offset, void *out, size_t len);

/*
 * How far a process has moved the vaddrs of the file: address = vaddr + *ret_bias, modulo 2^64.
 * start and pgoff are those of one executable mapping of the file, both multiples of the page size.
 * Take the segment whose file range, rounded to pages as the loader does, holds pgoff: lld lets a
 * segment begin inside the last page of the one before. -ENOENT: no segment does.
 */
int elf_image_bias(const struct elf_image *img, uint64_t start, uint64_t pgoff, uint64_t *ret_bias);

/*
 * The vaddr of one byte of the file, through the first PT_LOAD that holds it. Not for a mapping:
 * see elf_image_bias. -ENOENT.
 */
int elf_image_vaddr(const struct elf_image *img, uint64_t offset, uint64_t *ret_vaddr);

/*
 * The other way: where in the file an address is from; what a segment has beyond its bytes in the
 * file counts on. -ENOENT.
 */
int elf_image_offset(const struct elf_image *img, uint64_t vaddr, uint64_t *ret_offset);

/* Read what stands at vaddr when the file is mapped. -ENOENT, or as elf_image_read. */
int elf_image_read_at(const struct elf_image *img, uint64_t vaddr, void *out, size_t len);

/* The executable section with this header index, or NULL. */
const struct elf_text *elf_image_text(const struct elf_image *img, uint32_t index);

/* Give up the descriptor or the copy; elf_image_read fails from here on, what was parsed stays. */
void elf_image_drop(struct elf_image *img);
void elf_image_fini(struct elf_image *img);
size_t elf_image_memory(const struct elf_image *img);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "elf/image.h"

#include "elf/headers.h"
#include "util/bisect.h"

#include "ascribe/trampoline_abi.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "ELF structures are read as they stand in a little-endian file"
#endif

#define SECTIONS_AT_ONCE 256u

/* [offset, offset + len) inside [0, size), without overflow. */
static int inside(uint64_t size, uint64_t offset, uint64_t len)
{
	return offset <= size && len <= size - offset;
}

int elf_image_read(const struct elf_image *img, uint64_t offset, void *out, size_t len)
{
	if (!inside(img->size, offset, len))
		return -EBADMSG;
	if (img->mem) {
		memcpy(out, img->mem + offset, len);
		return 0;
	}
	if (img->fd < 0)
		return -EBADF;
	uint8_t *p = out;
	while (len) {
		ssize_t n = pread(img->fd, p, len, (off_t)offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -EBADMSG; /* cut since it was opened */
		p += n;
		offset += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

static int check_header(const struct elf_image *img, const Elf64_Ehdr *eh, const char *name,
			struct err *err)
{
	if (memcmp(eh->e_ident, ELFMAG, SELFMAG))
		return err_set(err, -EBADMSG, "%s is not an ELF file", name);
	if ((!img->is_32 && eh->e_ident[EI_CLASS] != ELFCLASS64) ||
	    eh->e_ident[EI_DATA] != ELFDATA2LSB)
		return err_set(err, -EPROTONOSUPPORT,
			       "%s: only little-endian ELF of 32 or 64 bits is supported", name);
	if (img->is_32 ? eh->e_machine != EM_386
		       : eh->e_machine != EM_X86_64 && eh->e_machine != EM_AARCH64)
		return err_set(err, -EPROTONOSUPPORT, "%s: ELF machine %u is not supported", name,
			       eh->e_machine);
	if (eh->e_type != ET_EXEC && eh->e_type != ET_DYN)
		return err_set(err, -EPROTONOSUPPORT,
			       "%s: ELF type %u is neither executable nor shared object", name,
			       eh->e_type);
	if (eh->e_phnum && eh->e_phentsize != elf_program_header_size(img))
		return err_set(err, -EBADMSG, "%s: program headers of %u bytes", name,
			       eh->e_phentsize);
	if (eh->e_shoff && eh->e_shentsize != elf_section_header_size(img))
		return err_set(err, -EBADMSG, "%s: section headers of %u bytes", name,
			       eh->e_shentsize);
	return 0;
}

/* ---- notes ---- */

struct note_part {
	uint64_t offset;
	uint64_t size;
	uint64_t vaddr;
	uint64_t align;
	int mapped; /* a segment: vaddr means something */
};

static int in_loads(const struct elf_image *img, uint64_t vaddr, uint64_t len)
{
	for (size_t i = 0; i < img->n_loads; i++) {
		const struct elf_segment *s = &img->loads[i];
		if (vaddr >= s->vaddr && inside(s->memsz, vaddr - s->vaddr, len))
			return 1;
	}
	return 0;
}

/* desc: u32 abi, u32 0, s64 offset of the target from this s64; vaddr is the address of desc. */
static void take_ascribe_note(const struct elf_image *img, const uint8_t *desc, uint32_t len,
			      uint64_t vaddr, uint32_t want_abi, size_t target_size, int *rc,
			      uint64_t *ret_vaddr)
{
	uint32_t abi;
	uint64_t offset;
	if (!*rc)
		return; /* the first good one counts */
	*rc = -EBADMSG;
	if (len < 16)
		return;
	memcpy(&abi, desc, sizeof(abi));
	memcpy(&offset, desc + 8, sizeof(offset));
	if (abi != want_abi) {
		*rc = -EPROTONOSUPPORT;
		return;
	}
	uint64_t at = vaddr + 8 + offset;
	if (!in_loads(img, at, target_size))
		return;
	*ret_vaddr = at;
	*rc = 0;
}

static void take_note(struct elf_image *img, const Elf64_Nhdr *nh, const uint8_t *name,
		      const uint8_t *desc, uint64_t desc_vaddr, int mapped)
{
	if (nh->n_type == NT_GNU_BUILD_ID && nh->n_namesz == 4 && !memcmp(name, "GNU", 4)) {
		if (img->build_id_len || !nh->n_descsz || nh->n_descsz > ELF_BUILD_ID_MAX)
			return;
		memcpy(img->build_id, desc, nh->n_descsz);
		img->build_id_len = nh->n_descsz;
	}
	if (!mapped || img->is_32 || nh->n_namesz != sizeof(ASCRIBE_NOTE_NAME) ||
	    memcmp(name, ASCRIBE_NOTE_NAME, sizeof(ASCRIBE_NOTE_NAME)))
		return;
	if (nh->n_type == ASCRIBE_NOTE_TYPE)
		take_ascribe_note(img, desc, nh->n_descsz, desc_vaddr, ASCRIBE_ABI_VERSION,
				  sizeof(struct ascribe_descriptor), &img->label_rc,
				  &img->label_vaddr);
	if (nh->n_type == ASCRIBE_TRAMPOLINES_NOTE_TYPE)
		take_ascribe_note(img, desc, nh->n_descsz, desc_vaddr, ASCRIBE_TRAMPOLINES_ABI,
				  sizeof(struct ascribe_trampoline_table), &img->trampolines_rc,
				  &img->trampolines_vaddr);
}

static void walk_notes(struct elf_image *img, const uint8_t *p, size_t size,
		       const struct note_part *part)
{
	/*
	 * Names and descriptors are padded to 4, in segments that say so to 8 (GNU property notes).
	 */
	uint64_t align = part->align == 8 ? 8 : 4;
	uint64_t at = 0;
	while (inside(size, at, sizeof(Elf64_Nhdr))) {
		Elf64_Nhdr nh;
		memcpy(&nh, p + at, sizeof(nh));
		uint64_t name = at + sizeof(nh);
		uint64_t desc = (name + nh.n_namesz + align - 1) & ~(align - 1);
		if (!inside(size, name, nh.n_namesz) || !inside(size, desc, nh.n_descsz))
			return;
		take_note(img, &nh, p + name, p + desc, part->vaddr + desc, part->mapped);
		at = (desc + nh.n_descsz + align - 1) & ~(align - 1);
	}
}

/* A note area that lies is passed over: notes are optional, symbols may still be good. */
static int read_notes(struct elf_image *img, const struct note_part *part)
{
	size_t len = part->size < ELF_NOTES_MAX ? (size_t)part->size : ELF_NOTES_MAX;
	if (!len || !inside(img->size, part->offset, len))
		return 0;
	uint8_t *buf = malloc(len);
	if (!buf)
		return -ENOMEM;
	int rc = elf_image_read(img, part->offset, buf, len);
	if (!rc)
		walk_notes(img, buf, len, part);
	free(buf);
	return rc == -EBADMSG ? 0 : rc;
}

/* ---- segments ---- */

static int add_load(struct elf_image *img, const Elf64_Phdr *ph, const char *name, struct err *err)
{
	if (ph->p_filesz > UINT64_MAX - ph->p_offset || ph->p_memsz > UINT64_MAX - ph->p_vaddr ||
	    ph->p_filesz > UINT64_MAX - ph->p_vaddr)
		return err_set(err, -EBADMSG,
			       "%s: a segment reaches past the end of the address space", name);
	img->loads[img->n_loads++] = (struct elf_segment){
		.offset = ph->p_offset,
		.filesz = ph->p_filesz,
		.vaddr = ph->p_vaddr,
		.memsz = ph->p_memsz > ph->p_filesz ? ph->p_memsz : ph->p_filesz,
		.flags = ph->p_flags,
	};
	return 0;
}

static int use_segments(struct elf_image *img, const Elf64_Phdr *ph, size_t n, const char *name,
			struct err *err)
{
	size_t parts = 0;
	for (size_t i = 0; i < n; i++) {
		if (ph[i].p_type == PT_TLS && ph[i].p_memsz <= UINT64_MAX / 2 &&
		    ph[i].p_align <= UINT32_MAX) {
			img->tls =
				(struct elf_segment){ ph[i].p_offset, ph[i].p_filesz, ph[i].p_vaddr,
						      ph[i].p_memsz, ph[i].p_flags };
			img->tls_align = ph[i].p_align;
		}
		if (ph[i].p_type == PT_INTERP) {
			img->interp_offset = ph[i].p_offset;
			img->interp_size = ph[i].p_filesz;
		}
		if (ph[i].p_type == PT_DYNAMIC) {
			img->dynamic_offset = ph[i].p_offset;
			img->dynamic_size = ph[i].p_filesz;
		}
		int rc = ph[i].p_type == PT_LOAD ? add_load(img, &ph[i], name, err) : 0;
		if (rc)
			return rc;
	}
	for (size_t i = 0; i < n; i++) {
		if (ph[i].p_type != PT_NOTE || parts++ >= ELF_NOTE_PARTS_MAX)
			continue;
		struct note_part part = { ph[i].p_offset, ph[i].p_filesz, ph[i].p_vaddr,
					  ph[i].p_align, 1 };
		int rc = read_notes(img, &part);
		if (rc)
			return err_sys(err, rc, "cannot read the notes of %s", name);
	}
	return 0;
}

static int read_segments(struct elf_image *img, const Elf64_Ehdr *eh, const char *name,
			 struct err *err)
{
	size_t n = eh->e_phnum;
	if (!n)
		return 0;
	if (n > ELF_SEGMENTS_MAX)
		return err_set(err, -E2BIG, "%s has %zu program headers, more than %u", name, n,
			       ELF_SEGMENTS_MAX);
	Elf64_Phdr *ph = calloc(n, sizeof(*ph));
	img->loads = calloc(n, sizeof(*img->loads));
	int rc = -ENOMEM;
	if (ph && img->loads)
		rc = elf_read_program_headers(img, eh->e_phoff, n, ph);
	if (rc)
		err_sys(err, rc, "cannot read the program headers of %s", name);
	else
		rc = use_segments(img, ph, n, name, err);
	free(ph);
	return rc;
}

int elf_image_vaddr(const struct elf_image *img, uint64_t offset, uint64_t *ret_vaddr)
{
	for (size_t i = 0; i < img->n_loads; i++) {
		const struct elf_segment *s = &img->loads[i];
		if (offset < s->offset || offset - s->offset >= s->filesz)
			continue;
		*ret_vaddr = s->vaddr + (offset - s->offset);
		return 0;
	}
	return -ENOENT;
}

int elf_image_bias(const struct elf_image *img, uint64_t start, uint64_t pgoff, uint64_t *ret_bias)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	const struct elf_segment *found = NULL;
	for (size_t i = 0; i < img->n_loads; i++) {
		const struct elf_segment *s = &img->loads[i];
		if (!s->filesz || pgoff < (s->offset & -page) || pgoff >= s->offset + s->filesz)
			continue;
		/* Two segments may share a page of the file, which is then mapped twice. */
		int more_exec = found ? !!(s->flags & PF_X) - !!(found->flags & PF_X) : 1;
		if (more_exec > 0 || (!more_exec && s->offset > found->offset))
			found = s;
	}
	if (!found)
		return -ENOENT;
	*ret_bias = start - (found->vaddr - found->offset + pgoff);
	return 0;
}

int elf_image_offset(const struct elf_image *img, uint64_t vaddr, uint64_t *ret_offset)
{
	for (size_t i = 0; i < img->n_loads; i++) {
		const struct elf_segment *s = &img->loads[i];
		if (vaddr < s->vaddr || vaddr - s->vaddr >= s->memsz)
			continue;
		*ret_offset = s->offset + (vaddr - s->vaddr);
		return 0;
	}
	return -ENOENT;
}

int elf_image_read_at(const struct elf_image *img, uint64_t vaddr, void *out, size_t len)
{
	uint64_t offset;
	int rc = elf_image_offset(img, vaddr, &offset);
	return rc ? rc : elf_image_read(img, offset, out, len);
}

/* ---- sections ---- */

static int read_section(const struct elf_image *img, uint32_t index, Elf64_Shdr *ret)
{
	if (index >= img->n_sections)
		return -EBADMSG;
	return elf_read_section_headers(img, index, 1, ret);
}

/* Does the section hold bytes that we can read, all inside the file? */
static int is_readable(const struct elf_image *img, const Elf64_Shdr *sh)
{
	return sh->sh_type != SHT_NOBITS && !(sh->sh_flags & SHF_COMPRESSED) &&
	       inside(img->size, sh->sh_offset, sh->sh_size);
}

static int take_symbols(const struct elf_image *img, const Elf64_Shdr *sh, struct elf_symbols *ret,
			const char *name, struct err *err)
{
	const char *what = sh->sh_type == SHT_SYMTAB ? ".symtab" : ".dynsym";
	Elf64_Shdr str;
	if (ret->size || !sh->sh_size)
		return 0; /* the format allows one of each */
	if (sh->sh_entsize != elf_symbol_size(img) || sh->sh_size % sh->sh_entsize ||
	    !is_readable(img, sh))
		return err_set(err, -EBADMSG, "%s: the %s section lies about its place or size",
			       name, what);
	if (read_section(img, sh->sh_link, &str) || str.sh_type != SHT_STRTAB ||
	    !is_readable(img, &str))
		return err_set(err, -EBADMSG, "%s: the strings of %s are not inside the file", name,
			       what);
	if (str.sh_size > ELF_STRINGS_MAX)
		return err_set(err, -E2BIG, "%s: the strings of %s are larger than 4 GiB", name,
			       what);
	*ret = (struct elf_symbols){ sh->sh_offset, sh->sh_size, str.sh_offset, str.sh_size };
	return 0;
}

static int add_text(struct elf_image *img, const Elf64_Shdr *sh, uint32_t index, const char *name,
		    struct err *err)
{
	if (!sh->sh_size)
		return 0;
	if (sh->sh_size > UINT64_MAX - sh->sh_addr)
		return err_set(err, -EBADMSG,
			       "%s: section %u reaches past the end of the address space", name,
			       index);
	if (img->n_text == ELF_EXEC_SECTIONS_MAX)
		return err_set(err, -E2BIG, "%s has more than %u executable sections", name,
			       ELF_EXEC_SECTIONS_MAX);
	if (!(img->n_text & (img->n_text - 1))) { /* grow at powers of two */
		size_t cap = img->n_text ? 2 * img->n_text : 1;
		struct elf_text *t = realloc(img->text, cap * sizeof(*t));
		if (!t)
			return err_sys(err, -ENOMEM, "%s", name);
		img->text = t;
	}
	img->text[img->n_text++] = (struct elf_text){ sh->sh_addr, sh->sh_size, index };
	return 0;
}

static int use_section(struct elf_image *img, const Elf64_Shdr *sh, uint32_t index, size_t *n_notes,
		       const char *name, struct err *err)
{
	const uint64_t text = SHF_ALLOC | SHF_EXECINSTR;
	if (sh->sh_type == SHT_SYMTAB)
		return take_symbols(img, sh, &img->symtab, name, err);
	if (sh->sh_type == SHT_DYNSYM)
		return take_symbols(img, sh, &img->dynsym, name, err);
	if ((sh->sh_flags & text) == text)
		return add_text(img, sh, index, name, err);
	if (sh->sh_type == SHT_NOTE && !img->build_id_len && is_readable(img, sh) &&
	    (*n_notes)++ < ELF_NOTE_PARTS_MAX) {
		struct note_part part = { sh->sh_offset, sh->sh_size, sh->sh_addr, sh->sh_addralign,
					  0 };
		return read_notes(img, &part);
	}
	return 0;
}

static int count_sections(struct elf_image *img, const Elf64_Ehdr *eh, const char *name,
			  struct err *err)
{
	uint64_t n = eh->e_shnum;
	Elf64_Shdr first;
	img->shoff = eh->e_shoff;
	if (!n) { /* 0xff00 sections and more are counted in the first header */
		int rc = elf_read_section_headers(img, 0, 1, &first);
		if (rc)
			return err_sys(err, rc, "cannot read the section headers of %s", name);
		n = first.sh_size;
	}
	if (n > ELF_SECTIONS_MAX)
		return err_set(err, -E2BIG, "%s has %llu sections, more than %u", name,
			       (unsigned long long)n, ELF_SECTIONS_MAX);
	if (!inside(img->size, eh->e_shoff, n * elf_section_header_size(img)))
		return err_set(err, -EBADMSG, "%s: the section headers are not inside the file",
			       name);
	img->n_sections = (uint32_t)n;
	return 0;
}

static int read_sections(struct elf_image *img, const Elf64_Ehdr *eh, const char *name,
			 struct err *err)
{
	if (!eh->e_shoff)
		return 0;
	int rc = count_sections(img, eh, name, err);
	if (rc)
		return rc;
	Elf64_Shdr *sh = malloc(SECTIONS_AT_ONCE * sizeof(*sh));
	size_t n_notes = 0;
	if (!sh)
		return err_sys(err, -ENOMEM, "%s", name);
	for (uint32_t at = 0; !rc && at < img->n_sections; at += SECTIONS_AT_ONCE) {
		uint32_t n = img->n_sections - at < SECTIONS_AT_ONCE ? img->n_sections - at
								     : SECTIONS_AT_ONCE;
		rc = elf_read_section_headers(img, at, n, sh);
		if (rc)
			err_sys(err, rc, "cannot read the section headers of %s", name);
		for (uint32_t i = 0; !rc && i < n; i++)
			rc = use_section(img, &sh[i], at + i, &n_notes, name, err);
	}
	free(sh);
	return rc;
}

const struct elf_text *elf_image_text(const struct elf_image *img, uint32_t index)
{
	size_t at = bisect(i, 0, img->n_text, img->text[i].index < index);
	return at < img->n_text && img->text[at].index == index ? &img->text[at] : NULL;
}

/* ---- life ---- */

static int parse(struct elf_image *img, const char *name, struct err *err)
{
	Elf64_Ehdr eh;
	img->label_rc = -ENOENT;
	img->trampolines_rc = -ENOENT;
	if (img->size < sizeof(Elf32_Ehdr))
		return err_set(err, -EBADMSG, "%s is not an ELF file: %llu bytes", name,
			       (unsigned long long)img->size);
	int rc = elf_read_header(img, &eh);
	if (rc)
		return err_sys(err, rc, "cannot read %s", name);
	rc = check_header(img, &eh, name, err);
	if (rc)
		return rc;
	img->machine = eh.e_machine;
	img->type = eh.e_type;
	img->shstrndx = eh.e_shstrndx;
	rc = read_segments(img, &eh, name, err);
	return rc ? rc : read_sections(img, &eh, name, err);
}

int elf_image_open(struct elf_image *img, int fd, const char *name, struct err *err)
{
	struct stat st;
	*img = (struct elf_image){ .fd = -1 };
	if (fstat(fd, &st))
		return err_sys(err, -errno, "cannot stat %s", name);
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, "%s is not a regular file", name);
	img->size = (uint64_t)st.st_size;
	img->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (img->fd < 0)
		return err_sys(err, -errno, "cannot duplicate the descriptor of %s", name);
	int rc = parse(img, name, err);
	if (rc)
		elf_image_fini(img);
	return rc;
}

int elf_image_adopt(struct elf_image *img, uint8_t *bytes, size_t size, const char *name,
		    struct err *err)
{
	*img = (struct elf_image){ .fd = -1, .mem = bytes, .size = size };
	int rc = parse(img, name, err);
	if (rc)
		elf_image_fini(img);
	return rc;
}

int elf_image_open_memory(struct elf_image *img, const void *bytes, size_t size, const char *name,
			  struct err *err)
{
	*img = (struct elf_image){ .fd = -1 };
	if (size > ELF_MEMORY_MAX)
		return err_set(err, -E2BIG, "%s: an image of %zu bytes", name, size);
	uint8_t *copy = malloc(size ? size : 1);
	if (!copy)
		return err_sys(err, -ENOMEM, "%s", name);
	memcpy(copy, bytes, size);
	return elf_image_adopt(img, copy, size, name, err);
}

void elf_image_drop(struct elf_image *img)
{
	if (img->fd >= 0)
		close(img->fd);
	img->fd = -1;
	free(img->mem);
	img->mem = NULL;
}

void elf_image_fini(struct elf_image *img)
{
	elf_image_drop(img);
	free(img->loads);
	free(img->text);
	*img = (struct elf_image){ .fd = -1 };
}

size_t elf_image_memory(const struct elf_image *img)
{
	return (img->mem ? (size_t)img->size : 0) + img->n_loads * sizeof(*img->loads) +
	       img->n_text * sizeof(*img->text);
}

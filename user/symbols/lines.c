/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The units of a file are indexed by address when it is opened: by .debug_aranges, and by the units
 * themselves once an address is in none of those. The functions of a unit are indexed when the
 * first address in it is asked for; the tree of inlined calls is walked from the function down.
 * Some files stay open: stacks go through several.
 */
#include "symbols/lines.h"
#include "symbols/dwarf_name.h"

#include "symbols/zstd_sections.h"
#include "util/array.h"
#include "util/bisect.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RANGES_MAX (2u << 20) /* of units, or of the functions of one */
#define UNITS_KEPT 256	      /* of a file, with their functions: */
/* Of the units that are kept; those of the last one in any case */
#define FUNCTIONS_KEPT (1u << 16)
#define FILES_KEPT 12
/* bytes of one file's compressed sections; the others are mapped, which is no memory of ours */
#define UNPACKED_MAX (40u << 20)
/* bytes of a file whose pages may be changed: the worker's memory is charged for all of it */
#define PRIVATE_MAX (8 << 20)
#define UNPACKED_KEPT_MAX (24u << 20) /* of all files that stay open, but for the last one */
#define DEPTH_MAX 64		      /* of scopes inside a function */
#define DIES_MAX (4u << 20)	      /* looked at in one unit */

/* A stretch of addresses, and the DIE (offset in .debug_info) that it belongs to. */
struct range {
	uint64_t low, high;
	uint64_t die;
};

struct ranges {
	struct range *v;
	size_t n, cap;
};

struct unit {
	uint64_t die;
	struct ranges functions;
};

/* Which file this is, and which version of it. Compared as bytes. */
struct file_key {
	dev_t dev;
	ino_t ino;
	struct timespec mtime;
};
_Static_assert(sizeof(struct file_key) == sizeof(dev_t) + sizeof(ino_t) + sizeof(struct timespec),
	       "no byte between members");

struct file {
	struct file_key key;
	int fd;
	Elf *elf;
	Dwarf *dwarf; /* NULL: a free place */
	struct ranges units;
	bool has_all_units;	      /* not only those of .debug_aranges */
	struct unit kept[UNITS_KEPT]; /* a ring */
	size_t first_kept, n_kept, n_functions;
	uint64_t unpacked;
	bool packed; /* it has sections that must be unpacked */
	struct zstd_sections zstd;
	uint64_t used; /* when, by `uses` */
};

static struct file files[FILES_KEPT];
static uint64_t uses;

/* ---- ranges ---- */

static int add_range(struct ranges *r, uint64_t low, uint64_t high, uint64_t die)
{
	if (low >= high || !low) /* at 0 stands what the linker threw away */
		return 0;
	if (r->n == RANGES_MAX)
		return -E2BIG;
	int rc = ARRAY_RESERVE(r->v, r->cap, r->n + 1);
	if (!rc)
		r->v[r->n++] = (struct range){ low, high, die };
	return rc;
}

static int add_die(struct ranges *r, Dwarf_Die *die)
{
	Dwarf_Addr base, low, high;
	ptrdiff_t at = 0;
	int rc = 0;
	while (!rc && (at = dwarf_ranges(die, at, &base, &low, &high)) > 0)
		rc = add_range(r, low, high, dwarf_dieoffset(die));
	return rc;
}

static int compare(const void *a, const void *b)
{
	const struct range *x = a, *y = b;
	return (x->low > y->low) - (x->low < y->low);
}

static void sort(struct ranges *r)
{
	if (r->n)
		qsort(r->v, r->n, sizeof(*r->v), compare);
}

static const struct range *find(const struct ranges *r, uint64_t addr)
{
	size_t low = bisect(i, 0, r->n, r->v[i].low <= addr);
	return low && addr < r->v[low - 1].high ? &r->v[low - 1] : NULL;
}

static void ranges_fini(struct ranges *r)
{
	free(r->v);
	*r = (struct ranges){ 0 };
}

/* ---- files ---- */

static void close_file(struct file *f)
{
	if (f->dwarf)
		dwarf_end(f->dwarf);
	if (f->elf)
		elf_end(f->elf);
	if (f->fd > 0)
		close(f->fd);
	zstd_sections_fini(&f->zstd);
	ranges_fini(&f->units);
	for (size_t i = 0; i < UNITS_KEPT; i++)
		ranges_fini(&f->kept[i].functions);
	memset(f, 0, sizeof(*f));
}

static int index_aranges(struct file *f)
{
	Dwarf_Aranges *all;
	size_t n;
	int rc = 0;
	if (dwarf_getaranges(f->dwarf, &all, &n))
		n = 0;
	for (size_t i = 0; i < n && !rc; i++) {
		Dwarf_Addr low = 0;
		Dwarf_Word len = 0;
		Dwarf_Off die = 0;
		dwarf_getarangeinfo(dwarf_onearange(all, i), &low, &len, &die);
		if (low + len > low)
			rc = add_range(&f->units, low, low + len, die);
	}
	sort(&f->units);
	return rc;
}

static int index_units(struct file *f)
{
	Dwarf_CU *cu = NULL;
	Dwarf_Die die;
	int rc = 0;
	f->has_all_units = true;
	f->units.n = 0;
	while (!rc && dwarf_get_units(f->dwarf, cu, &cu, NULL, NULL, &die, NULL) == 0) {
		/*
		 * Of a split unit the skeleton has the addresses and the lines; the rest is in a
		 * .dwo, which cannot be opened here.
		 */
		int tag = dwarf_tag(&die);
		if (tag == DW_TAG_compile_unit || tag == DW_TAG_skeleton_unit)
			rc = add_die(&f->units, &die);
	}
	sort(&f->units);
	return rc;
}

/* Find the unit of an address; *ret NULL: it is in none. */
static int find_unit(struct file *f, uint64_t addr, const struct range **ret)
{
	int rc = 0;
	*ret = find(&f->units, addr);
	if (!*ret && !f->has_all_units) {
		rc = index_units(f);
		*ret = find(&f->units, addr);
	}
	return rc;
}

/* Sections that only debuggers need. */
static bool is_unused(const char *name)
{
	static const char *const names[] = { "loc",	     "loclists",    "frame",	"macro",
					     "macinfo",	     "names",	    "pubnames", "pubtypes",
					     "gnu_pubnames", "gnu_pubtypes" };
	static const char prefix[] = ".debug_";
	bool found = false;
	if (!name || strncmp(name, prefix, sizeof(prefix) - 1))
		return false;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !found; i++)
		found = !strcmp(name + sizeof(prefix) - 1, names[i]);
	return found;
}

/*
 * Let libdw not unpack what is never read here, a fifth of libc's debug file: it passes over
 * sections without contents. What libelf knows must be in memory of this process.
 */
static void hide_unused(Elf *elf)
{
	size_t names;
	GElf_Shdr sh;
	if (elf_getshdrstrndx(elf, &names))
		return;
	for (Elf_Scn *s = NULL; (s = elf_nextscn(elf, s));) {
		if (!gelf_getshdr(s, &sh) || !(sh.sh_flags & SHF_COMPRESSED) ||
		    !is_unused(elf_strptr(elf, names, sh.sh_name)))
			continue;
		sh.sh_type = SHT_NOBITS;
		sh.sh_flags &= ~(GElf_Xword)SHF_COMPRESSED;
		gelf_update_shdr(s, &sh);
	}
}

/* Bytes of a file's own mapping that the worker's memory is charged for. */
static uint64_t private_size(off_t size)
{
	return size <= PRIVATE_MAX ? (uint64_t)size : 0;
}

static Elf *open_elf(int fd, off_t size)
{
	bool small = private_size(size);
	Elf *elf = elf_begin(fd, small ? ELF_C_READ_MMAP_PRIVATE : ELF_C_READ_MMAP, NULL);
	if (elf && small)
		hide_unused(elf);
	return elf;
}

/* Bytes of memory that unpacking will take, as the sections' own heads say. */
static uint64_t unpacked_size(Elf *elf)
{
	uint64_t sum = 0;
	GElf_Shdr sh;
	GElf_Chdr ch;
	for (Elf_Scn *s = NULL; (s = elf_nextscn(elf, s));) {
		if (!gelf_getshdr(s, &sh) || !(sh.sh_flags & SHF_COMPRESSED) ||
		    !gelf_getchdr(s, &ch))
			continue;
		if (ch.ch_size > UNPACKED_MAX)
			return UNPACKED_MAX + 1;
		/*
		 * What zlib has packed is mapped; for zstd the packed bytes are read, too: see
		 * unpack_zstd. They are in the file, as gelf_getchdr saw: the sum has room.
		 */
		sum += ch.ch_size + (ch.ch_type == ELFCOMPRESS_ZLIB ? 0 : sh.sh_size);
		if (sum > UNPACKED_MAX)
			break;
	}
	return sum;
}

/*
 * The file to close: one that is opened again without unpacking, if there is any, used longest ago.
 */
static struct file *least_used(void)
{
	struct file *f = NULL;
	for (size_t i = 0; i < FILES_KEPT; i++) {
		struct file *k = &files[i];
		bool sooner = f && (k->packed != f->packed ? !k->packed : k->used < f->used);
		if (k->dwarf && (!f || sooner))
			f = k;
	}
	return f;
}

/* A place for one file more, which will unpack so much. */
static struct file *make_place(uint64_t unpacked)
{
	struct file *place = NULL;
	uint64_t sum = unpacked;
	for (size_t i = 0; i < FILES_KEPT; i++)
		sum += files[i].unpacked;
	for (struct file *f; (f = least_used()) && sum > UNPACKED_KEPT_MAX;) {
		sum -= f->unpacked;
		close_file(f);
	}
	for (size_t i = 0; i < FILES_KEPT && !place; i++)
		place = files[i].dwarf ? NULL : &files[i];
	if (!place) {
		place = least_used();
		close_file(place);
	}
	return place;
}

/* The file is read instead of being mapped where its sections are replaced by unpacked ones. */
static int unpack_zstd(struct file *f)
{
	elf_end(f->elf);
	f->elf = elf_begin(f->fd, ELF_C_READ, NULL);
	if (!f->elf)
		return -EBADMSG;
	hide_unused(f->elf);
	return zstd_sections_unpack(f->elf, &f->zstd);
}

/*
 * Do the names of source files end within their section? libdw (0.188, dwarf_getsrclines.c) looks
 * for the end of one behind it. What cannot be seen does not end. A section without bytes is none
 * to libdw. Call it when libdw has unpacked the section.
 */
static bool names_end(Elf *elf)
{
	size_t names;
	bool end = !elf_getshdrstrndx(elf, &names);
	for (Elf_Scn *s = NULL; end && (s = elf_nextscn(elf, s));) {
		GElf_Shdr h;
		if (!gelf_getshdr(s, &h))
			return false;
		const char *name = elf_strptr(elf, names, h.sh_name);
		if (!name || !strstr(name, "debug_line_str"))
			continue;
		const Elf_Data *d = elf_getdata(s, NULL);
		end = d && (!d->d_buf || !d->d_size || !((const char *)d->d_buf)[d->d_size - 1]);
	}
	return end;
}

static int open_new(int fd, const struct file_key *key, off_t size, struct file **ret)
{
	struct file n = { .fd = fcntl(fd, F_DUPFD_CLOEXEC, 3), .key = *key };
	elf_version(EV_CURRENT);
	n.elf = n.fd < 0 ? NULL : open_elf(n.fd, size);
	uint64_t packed = n.elf ? unpacked_size(n.elf) : 0;
	n.packed = packed > 0;
	n.unpacked = n.elf ? packed + private_size(size) : 0;
	int rc = n.unpacked > UNPACKED_MAX ? -E2BIG : 0;
	struct file *f = rc ? NULL : make_place(n.unpacked);
	if (!rc && n.elf && zstd_sections_any(n.elf))
		rc = unpack_zstd(&n);
	n.dwarf = !rc && n.elf ? dwarf_begin_elf(n.elf, DWARF_C_READ, NULL) : NULL;
	rc = rc ? rc : n.dwarf && names_end(n.elf) ? index_aranges(&n) : -EBADMSG;
	if (rc) {
		close_file(&n);
		return rc;
	}
	*f = n;
	*ret = f;
	return 0;
}

static int open_file(int fd, struct file **ret)
{
	struct stat st;
	int rc = 0;
	if (fstat(fd, &st))
		return -errno;
	const struct file_key key = { st.st_dev, st.st_ino, st.st_mtim };
	struct file *f = NULL;
	for (size_t i = 0; i < FILES_KEPT && !f; i++)
		if (files[i].dwarf && !memcmp(&files[i].key, &key, sizeof(key)))
			f = &files[i];
	if (!f)
		rc = open_new(fd, &key, st.st_size, &f);
	if (rc)
		return rc;
	f->used = ++uses;
	*ret = f;
	return 0;
}

/* ---- the functions of a unit ---- */

/* May hold functions with code: what is in a class or a namespace, in Rust everything. */
static int is_container(int tag)
{
	return tag == DW_TAG_namespace || tag == DW_TAG_module || tag == DW_TAG_structure_type ||
	       tag == DW_TAG_class_type || tag == DW_TAG_union_type ||
	       tag == DW_TAG_enumeration_type || tag == DW_TAG_subprogram;
}

/* Depth first, with a stack of our own: functions inside functions count for themselves. */
static int index_functions(struct ranges *r, Dwarf_Die *unit)
{
	Dwarf_Die at[DEPTH_MAX];
	size_t depth = 0, seen = 0;
	int rc = dwarf_child(unit, &at[0]) ? 0 : 1;
	while (rc == 1) {
		Dwarf_Die *die = &at[depth];
		int tag = dwarf_tag(die);
		if (++seen > DIES_MAX)
			return -E2BIG;
		if (tag == DW_TAG_subprogram) {
			int bad = add_die(r, die);
			if (bad)
				return bad;
		}
		if (is_container(tag) && depth + 1 < DEPTH_MAX &&
		    dwarf_child(die, &at[depth + 1]) == 0) {
			depth++;
			continue;
		}
		while (dwarf_siblingof(&at[depth], &at[depth])) {
			if (depth-- == 0)
				return 0;
		}
	}
	return 0;
}

static const struct unit *find_kept(const struct file *f, uint64_t die)
{
	for (size_t i = 0; i < f->n_kept; i++) {
		const struct unit *k = &f->kept[(f->first_kept + i) % UNITS_KEPT];
		if (k->die == die)
			return k;
	}
	return NULL;
}

static void drop_kept(struct file *f)
{
	struct unit *k = &f->kept[f->first_kept];
	f->n_functions -= k->functions.n;
	ranges_fini(&k->functions);
	f->first_kept = (f->first_kept + 1) % UNITS_KEPT;
	f->n_kept--;
}

static const struct unit *keep(struct file *f, const struct unit *new)
{
	while (f->n_kept == UNITS_KEPT ||
	       (f->n_kept && f->n_functions + new->functions.n > FUNCTIONS_KEPT))
		drop_kept(f);
	struct unit *k = &f->kept[(f->first_kept + f->n_kept++) % UNITS_KEPT];
	*k = *new;
	f->n_functions += k->functions.n;
	return k;
}

static int functions_of(struct file *f, const struct range *u, Dwarf_Die *ret_unit,
			const struct ranges **ret)
{
	if (!dwarf_offdie(f->dwarf, u->die, ret_unit))
		return -EBADMSG;
	const struct unit *k = find_kept(f, u->die);
	if (!k) {
		struct unit new = { .die = u->die };
		int rc = index_functions(&new.functions, ret_unit);
		if (rc)
			ranges_fini(&new.functions); /* nothing is known about this unit */
		if (rc == -ENOMEM)
			return rc;
		sort(&new.functions);
		k = keep(f, &new);
	}
	*ret = &k->functions;
	return 0;
}

/* ---- answers ---- */

static int add_text(struct buf *out, const char *s)
{
	size_t len = s ? strnlen(s, LINE_TEXT_MAX) : 0;
	int rc = buf_add_u32(out, (uint32_t)len);
	return rc ? rc : buf_add(out, s ? s : "", len);
}

static int add_named(struct buf *out, const char *name, const char *source, int line)
{
	int rc = add_text(out, name);
	rc = rc ? rc : add_text(out, source);
	return rc ? rc : buf_add_u32(out, line > 0 ? (uint32_t)line : 0);
}

static int add_frame(struct buf *out, Dwarf_Die *die, const char *source, int line)
{
	return add_named(out, dwarf_function_name(die), source, line);
}

/* One frame, of which only the line is known. */
static int add_nameless(struct buf *out, const char *source, int line)
{
	int rc = buf_add_u32(out, 1);
	return rc ? rc : add_named(out, "", source, line);
}

/* From the function down to the innermost inlined call around addr: chain[0] is the function. */
static size_t inlined_chain(Dwarf_Die *function, uint64_t addr, Dwarf_Die chain[LINE_FRAMES_MAX])
{
	Dwarf_Die at = *function, child;
	size_t n = 0, depth = 0;
	chain[n++] = *function;
	int more = dwarf_child(&at, &child) == 0;
	while (more && depth < DEPTH_MAX) {
		int tag = dwarf_tag(&child);
		bool scope = tag == DW_TAG_inlined_subroutine || tag == DW_TAG_lexical_block ||
			     tag == DW_TAG_try_block || tag == DW_TAG_catch_block;
		if (!scope || dwarf_haspc(&child, addr) <= 0) {
			more = dwarf_siblingof(&child, &child) == 0;
			continue;
		}
		if (tag == DW_TAG_inlined_subroutine) {
			if (n == LINE_FRAMES_MAX)
				break;
			chain[n++] = child;
		}
		at = child;
		depth++;
		more = dwarf_child(&at, &child) == 0;
	}
	return n;
}

/* Where an inlined call stands in its caller. */
static const char *call_site(Dwarf_Die *unit, Dwarf_Die *call, int *ret_line)
{
	Dwarf_Attribute attr;
	Dwarf_Word line = 0, index = 0;
	Dwarf_Files *sources;
	size_t n;
	*ret_line =
		dwarf_formudata(dwarf_attr(call, DW_AT_call_line, &attr), &line) || line > INT32_MAX
			? 0
			: (int)line;
	if (dwarf_formudata(dwarf_attr(call, DW_AT_call_file, &attr), &index) ||
	    dwarf_getsrcfiles(unit, &sources, &n))
		return NULL;
	return index < n ? dwarf_filesrc(sources, index, NULL, NULL) : NULL;
}

static int answer(struct file *file, uint64_t addr, struct buf *out)
{
	const struct range *u, *f;
	const struct ranges *functions;
	Dwarf_Die unit, function, chain[LINE_FRAMES_MAX];
	int line = 0, rc = find_unit(file, addr, &u);
	rc = rc ? rc : u ? functions_of(file, u, &unit, &functions) : -ENOENT;
	if (rc == -ENOMEM)
		return rc;
	if (rc)
		return buf_add_u32(out, 0);
	Dwarf_Line *l = dwarf_getsrc_die(&unit, addr);
	const char *source = l ? dwarf_linesrc(l, NULL, NULL) : NULL;
	if (l)
		dwarf_lineno(l, &line);
	f = find(functions, addr);
	/* Assembler, or what stands for an equal function */
	if (!f || !dwarf_offdie(file->dwarf, f->die, &function))
		return line > 0 ? add_nameless(out, source, line) : buf_add_u32(out, 0);
	size_t n = inlined_chain(&function, addr, chain);
	rc = buf_add_u32(out, (uint32_t)n);
	for (size_t i = n; !rc && i-- > 0;) {
		rc = add_frame(out, &chain[i], source, line);
		if (i)
			source = call_site(&unit, &chain[i], &line);
	}
	return rc;
}

int lines_op(const struct sandbox_request *q, struct buf *out)
{
	if (!q->n_fds || q->len % 8 || q->len > 8 * LINES_BATCH_MAX)
		return -EINVAL;
	struct file *f = NULL;
	int rc = open_file(q->fds[0], &f);
	struct cursor c = { q->bytes, q->bytes + q->len, 0 };
	while (!rc && cursor_left(&c))
		rc = answer(f, cursor_u64(&c), out);
	return rc;
}

int lines_dwarf(int fd, Dwarf **ret)
{
	struct file *f;
	int rc = open_file(fd, &f);
	if (!rc)
		*ret = f->dwarf;
	return rc;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reader of the label ABI for tests, written from docs/labels.md and label_abi.h alone. It looks
 * at its own process from outside (maps, ELF files, /proc/self/mem) and shares no code with
 * label.h. C and C++.
 */
#ifndef ASCRIBE_TESTS_LABELS_READER_H
#define ASCRIBE_TESTS_LABELS_READER_H

#include <ascribe/label_abi.h>
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct reading {
	int modules;  /* notes found in modules whose path contains `module` */
	int attached; /* the slot is not 0 */
	unsigned long long set_id;
	unsigned long long parent_id;
	char text[4096]; /* "key=value" or "key=#integer", sorted, joined by commas */
};

static inline int reader_mem(unsigned long long addr, void *out, size_t n)
{
	int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : pread(fd, out, n, (off_t)addr);
	if (fd >= 0)
		close(fd);
	return got == (ssize_t)n ? 0 : -1;
}

static inline unsigned long long reader_tp(void)
{
	unsigned long long tp;
#ifdef __x86_64__
	__asm__ volatile("movq %%fs:0, %0" : "=r"(tp));
#else
	__asm__ volatile("mrs %0, tpidr_el0" : "=r"(tp));
#endif
	return tp;
}

/* Address of the descriptor of the ELF file mapped from `base` on, 0: it has no note. */
static inline unsigned long long reader_descriptor(const char *path, unsigned long long base)
{
	unsigned long long found = 0;
	unsigned char note[4096];
	Elf64_Ehdr eh;
	Elf64_Phdr ph[32];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	if (pread(fd, &eh, sizeof(eh), 0) != sizeof(eh) || memcmp(eh.e_ident, ELFMAG, SELFMAG) ||
	    eh.e_phnum > 32 ||
	    pread(fd, ph, eh.e_phnum * sizeof(*ph), (off_t)eh.e_phoff) !=
		    (ssize_t)(eh.e_phnum * sizeof(*ph)))
		goto out;
	for (int i = 0; i < eh.e_phnum; i++) { /* base is where file offset 0 lies */
		if (ph[i].p_type == PT_LOAD && ph[i].p_offset == 0) {
			base -= ph[i].p_vaddr;
			break;
		}
	}
	for (int i = 0; i < eh.e_phnum; i++) {
		if (ph[i].p_type != PT_NOTE || ph[i].p_filesz > sizeof(note) ||
		    pread(fd, note, ph[i].p_filesz, (off_t)ph[i].p_offset) !=
			    (ssize_t)ph[i].p_filesz)
			continue;
		for (size_t at = 0; at + 12 <= ph[i].p_filesz;) {
			unsigned int h[3];
			long long rel;
			size_t pad = ph[i].p_align == 8 ? 7 : 3;
			memcpy(h, note + at, 12);
			size_t desc = at + ((12 + h[0] + pad) & ~pad);
			if (desc + h[1] > ph[i].p_filesz)
				break;
			if (h[0] == 8 && h[1] == 16 && h[2] == ASCRIBE_NOTE_TYPE &&
			    !memcmp(note + at + 12, ASCRIBE_NOTE_NAME, 8)) {
				memcpy(&rel, note + desc + 8, 8);
				found = base + ph[i].p_vaddr + desc + 8 + (unsigned long long)rel;
				goto out;
			}
			at = desc + ((h[1] + pad) & ~pad);
		}
	}
out:
	close(fd);
	return found;
}

static inline int reader_cmp(const void *a, const void *b)
{
	return strcmp((const char *)a, (const char *)b);
}

/* The labels in a record, by the key table; NULL or what is wrong. */
static inline const char *reader_record(unsigned long long slot,
					const struct ascribe_key_table *keys, struct reading *r)
{
	/* On the stack: a library's TLS must stay small, see labels.md */
	char rows[ASCRIBE_ATTRS_MAX / 2 + 1][400];
	unsigned char rec[ASCRIBE_PREFIX_SIZE + ASCRIBE_RECORD_MAX];
	struct ascribe_record_prefix pre;
	struct ascribe_record_header head;
	size_t n = 0, end, attrs;
	if (reader_mem(slot - ASCRIBE_PREFIX_SIZE, &pre, sizeof(pre)))
		return "prefix not readable";
	if (pre.magic != ASCRIBE_RECORD_MAGIC || pre.abi != ASCRIBE_ABI_VERSION || pre.reserved ||
	    !pre.set_id)
		return "bad prefix";
	if (pre.total_size < 60 || pre.total_size > sizeof(rec) ||
	    reader_mem(slot - ASCRIBE_PREFIX_SIZE, rec, pre.total_size))
		return "bad size";
	memcpy(&head, rec + ASCRIBE_PREFIX_SIZE, sizeof(head));
	attrs = head.attrs_size[0] | (size_t)head.attrs_size[1] << 8;
	end = ASCRIBE_PREFIX_SIZE + ASCRIBE_HEADER_SIZE + attrs;
	if (end != pre.total_size || head.valid != 1)
		return "bad header";
	r->set_id = pre.set_id;
	r->parent_id = pre.parent_id;
	for (size_t at = end - attrs; at < end; at += 2u + rec[at + 1], n++) {
		unsigned int k = 0, pos = 0;
		if (at + 2 > end || at + 2 + rec[at + 1] > end)
			return "attribute past the end";
		for (; k < rec[at] && pos < keys->bytes; k++)
			pos += 2u + keys->text[pos + 1];
		if (pos >= keys->bytes)
			return "unknown key";
		snprintf(rows[n], sizeof(rows[n]), "%.*s=%s%.*s", keys->text[pos + 1],
			 (const char *)keys->text + pos + 2,
			 keys->text[pos] == ASCRIBE_KEY_INT ? "#" : "", rec[at + 1],
			 (const char *)rec + at + 2);
	}
	if (memcmp(rec + ASCRIBE_PREFIX_SIZE, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
		   24)) {
		char *o = rows[n++];
		o += sprintf(o, "trace_id=");
		for (int i = 0; i < 24; i++)
			o += sprintf(o, i == 16 ? "/%02x" : "%02x", rec[ASCRIBE_PREFIX_SIZE + i]);
	}
	qsort(rows, n, sizeof(rows[0]), reader_cmp);
	for (size_t i = 0; i < n; i++)
		snprintf(r->text + strlen(r->text), sizeof(r->text) - strlen(r->text), "%s%.399s",
			 i ? "," : "", rows[i]);
	return NULL;
}

/*
 * What this thread publishes through the module whose path contains `module`; NULL or what is
 * wrong.
 */
static inline const char *reader_read(const char *module, struct reading *r)
{
	struct ascribe_key_table keys;
	unsigned long long slot = 0, base, off, at;
	struct ascribe_descriptor d;
	const char *wrong = NULL;
	char line[4400], path[4200];
	FILE *maps = fopen("/proc/self/maps", "re");
	memset(r, 0, sizeof(*r));
	while (!wrong && maps && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%llx-%*x %*s %llx %*s %*s %4199s", &base, &off, path) != 3 ||
		    off || path[0] != '/' || !strstr(path, module) ||
		    !(at = reader_descriptor(path, base)))
			continue;
		r->modules++;
		if (reader_mem(at, &d, sizeof(d)) || d.magic != ASCRIBE_DESCRIPTOR_MAGIC ||
		    d.abi != ASCRIBE_ABI_VERSION || d.size != sizeof(d) || !d.tp_offset)
			wrong = "bad descriptor";
		else if (reader_mem(d.key_table, &keys, sizeof(keys)) ||
			 keys.magic != ASCRIBE_KEYS_MAGIC)
			wrong = "bad key table";
		else if (reader_mem(reader_tp() + (unsigned long long)d.tp_offset, &slot, 8))
			wrong = "slot not readable";
		else if (slot) {
			r->attached = 1;
			wrong = reader_record(slot, &keys, r);
		}
	}
	if (maps)
		fclose(maps);
	return wrong ? wrong : r->modules ? NULL : "no module with a note";
}

#endif

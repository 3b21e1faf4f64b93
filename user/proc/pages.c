/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/pages.h"

#include "proc/proc.h"

#include <string.h>
#include <sys/uio.h>

struct pages *pages_of(uint32_t tgid)
{
	static struct pages m; /* 256 KiB; one thread */
	memset(m.page, 0, sizeof(m.page));
	m.reads = 0;
	m.tid = proc_thread(tgid);
	return &m;
}

static const uint8_t *page_at(struct pages *m, uint64_t page)
{
	size_t i = page / PAGE_BYTES % PAGES;
	if (m->page[i] == page + 1)
		return m->bytes[i];
	struct iovec local = { m->bytes[i], PAGE_BYTES },
		     remote = { (void *)(uintptr_t)page, PAGE_BYTES }; /* NOLINT */
	m->page[i] = 0;
	if (m->reads++ >= PAGES_READ_MAX ||
	    process_vm_readv((pid_t)m->tid, &local, 1, &remote, 1, 0) != PAGE_BYTES)
		return NULL;
	m->page[i] = page + 1;
	return m->bytes[i];
}

bool pages_read(struct pages *m, uint64_t at, void *out, size_t n)
{
	uint8_t *to = out;
	if (at > UINT64_MAX / 2 || n > UINT32_MAX)
		return false;
	while (n) {
		size_t off = at % PAGE_BYTES, part = PAGE_BYTES - off;
		const uint8_t *p = page_at(m, at - off);
		if (!p)
			return false;
		part = part < n ? part : n;
		memcpy(to, p + off, part);
		to += part;
		at += part;
		n -= part;
	}
	return true;
}

uint64_t pages_word(struct pages *m, uint64_t at)
{
	uint64_t v = 0;
	return pages_read(m, at, &v, sizeof(v)) ? v : 0;
}

void pages_to_text(const void *data, size_t n, char *out)
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *p = data;
	for (size_t i = 0; i < n; i++) {
		*out++ = digits[p[i] >> 4];
		*out++ = digits[p[i] & 15];
	}
	*out = 0;
}

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool pages_from_text(const char *text, void *out, size_t n)
{
	uint8_t *p = out;
	if (strlen(text) != 2 * n)
		return false;
	for (size_t i = 0; i < n; i++) {
		int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
		if (high < 0 || low < 0)
			return false;
		p[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

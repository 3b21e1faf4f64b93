/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/hotspot_int.h"

#include "proc/proc.h"

#include <string.h>
#include <sys/uio.h>

struct hotspot_memory *hotspot_memory_of(uint32_t tgid)
{
	static struct hotspot_memory m; /* 256 KiB; one thread */
	memset(m.page, 0, sizeof(m.page));
	m.reads = 0;
	m.tid = proc_thread(tgid);
	return &m;
}

static const uint8_t *page_at(struct hotspot_memory *m, uint64_t page)
{
	size_t i = page / HOTSPOT_PAGE % HOTSPOT_PAGES;
	if (m->page[i] == page + 1)
		return m->bytes[i];
	struct iovec local = { m->bytes[i], HOTSPOT_PAGE },
		     remote = { (void *)(uintptr_t)page, HOTSPOT_PAGE }; /* NOLINT */
	m->page[i] = 0;
	if (m->reads++ >= HOTSPOT_READS_MAX ||
	    process_vm_readv((pid_t)m->tid, &local, 1, &remote, 1, 0) != HOTSPOT_PAGE)
		return NULL;
	m->page[i] = page + 1;
	return m->bytes[i];
}

bool hotspot_read(struct hotspot_memory *m, uint64_t at, void *out, size_t n)
{
	uint8_t *to = out;
	if (at > UINT64_MAX / 2 || n > UINT32_MAX)
		return false;
	while (n) {
		size_t off = at % HOTSPOT_PAGE, part = HOTSPOT_PAGE - off;
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

uint64_t hotspot_word(struct hotspot_memory *m, uint64_t at)
{
	uint64_t v = 0;
	return hotspot_read(m, at, &v, sizeof(v)) ? v : 0;
}

bool hotspot_field(struct hotspot_memory *m, uint64_t at, struct hotspot_field f, int64_t *ret)
{
	uint64_t v = 0;
	unsigned shift = 64 - 8 * f.bytes;
	if (!f.bytes || f.bytes > 8 || !hotspot_read(m, at + f.at, &v, f.bytes))
		return false;
	*ret = (int64_t)(v << shift) >> shift;
	return true;
}

void hotspot_to_text(const void *data, size_t n, char *out)
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

bool hotspot_from_text(const char *text, void *out, size_t n)
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

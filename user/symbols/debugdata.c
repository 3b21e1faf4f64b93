/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/debugdata.h"

#include "elf/section.h"
#include "util/buf.h"

#include <errno.h>
#include <lzma.h>
#include <string.h>
#include <stdlib.h>
#include <zlib.h>

#define STEP (256u * 1024)

static int rc_of(lzma_ret r)
{
	if (r == LZMA_MEM_ERROR)
		return -ENOMEM;
	if (r == LZMA_MEMLIMIT_ERROR)
		return -E2BIG;
	return r == LZMA_STREAM_END ? 0 : -EBADMSG;
}

/* One xz stream; what stands behind it does not matter. */
static int unpack(const struct elf_section *packed, struct buf *out)
{
	lzma_stream z = LZMA_STREAM_INIT;
	lzma_ret r = lzma_stream_decoder(&z, DEBUGDATA_XZ_MEMORY, 0);
	int rc = 0;
	z.next_in = packed->bytes;
	z.avail_in = packed->size;
	while (r == LZMA_OK) {
		rc = out->len < DEBUGDATA_MAX ? buf_reserve(out, STEP) : -E2BIG;
		if (rc)
			break;
		z.next_out = out->data + out->len;
		z.avail_out = STEP;
		r = lzma_code(&z, LZMA_FINISH);
		out->len += STEP - z.avail_out;
	}
	lzma_end(&z);
	return rc ? rc : rc_of(r);
}

int debugdata_open(struct elf_image *ret, const struct elf_image *img, const char *path,
		   struct err *err)
{
	struct elf_section packed;
	struct buf out = BUF_INIT;
	int rc = elf_section_read(img, ".gnu_debugdata", DEBUGDATA_PACKED_MAX, &packed);
	if (rc == -ENOENT)
		return rc;
	if (rc)
		return err_sys(err, rc, "cannot read the .gnu_debugdata of %s", path);
	rc = unpack(&packed, &out);
	elf_section_fini(&packed);
	if (rc) {
		buf_fini(&out);
		return err_sys(err, rc, "cannot unpack the .gnu_debugdata of %s", path);
	}
	rc = elf_image_adopt(ret, out.data, out.len, path, err);
	if (!rc && ret->machine != img->machine) {
		elf_image_fini(ret);
		rc = err_set(err, -EBADMSG, "%s: the .gnu_debugdata is of another machine", path);
	}
	return rc;
}

int debuglink_read(const struct elf_image *img, char name[DEBUGLINK_NAME_MAX], uint32_t *ret_crc)
{
	struct elf_section s;
	int rc = elf_section_read(img, ".gnu_debuglink", DEBUGLINK_NAME_MAX + 8, &s);
	if (rc)
		return rc == -E2BIG ? -EBADMSG : rc;
	size_t len = strnlen((char *)s.bytes, s.size), at = (len + 4) & ~(size_t)3;
	if (!len || len >= DEBUGLINK_NAME_MAX || at + 4 > s.size || memchr(s.bytes, '/', len) ||
	    !strcmp((char *)s.bytes, ".") || !strcmp((char *)s.bytes, "..")) {
		rc = -EBADMSG;
	} else {
		memcpy(name, s.bytes, len + 1);
		memcpy(ret_crc, s.bytes + at, 4);
	}
	elf_section_fini(&s);
	return rc;
}

int debuglink_crc(const struct elf_image *img, uint32_t *ret_crc)
{
	if (img->size > DEBUGLINK_FILE_MAX)
		return -E2BIG;
	uint8_t *b = malloc(STEP);
	uLong crc = crc32(0, NULL, 0);
	int rc = b ? 0 : -ENOMEM;
	for (uint64_t at = 0; !rc && at < img->size; at += STEP) {
		size_t n = img->size - at < STEP ? (size_t)(img->size - at) : STEP;
		rc = elf_image_read(img, at, b, n);
		if (!rc)
			crc = crc32(crc, b, (uInt)n);
	}
	free(b);
	if (!rc)
		*ret_crc = (uint32_t)crc;
	return rc;
}

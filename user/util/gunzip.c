/* SPDX-License-Identifier: Apache-2.0 */
#include "util/gunzip.h"

#include <errno.h>
#include <zlib.h>

#define CHUNK 65536

int gunzip(const uint8_t *data, size_t len, size_t max, struct buf *out, struct err *err)
{
	z_stream z = { .next_in = (uint8_t *)(uintptr_t)data, .avail_in = (uInt)len };
	int rc = Z_OK;
	if (inflateInit2(&z, 15 + 16) != Z_OK)
		return err_set(err, -ENOMEM, "out of memory");
	while (rc == Z_OK && out->len <= max) {
		if (buf_reserve(out, CHUNK)) {
			inflateEnd(&z);
			return err_set(err, -ENOMEM, "out of memory");
		}
		z.next_out = out->data + out->len;
		z.avail_out = CHUNK;
		rc = inflate(&z, Z_NO_FLUSH);
		out->len += CHUNK - z.avail_out;
	}
	inflateEnd(&z);
	if (out->len > max)
		return err_set(err, -EMSGSIZE, "it unpacks to more than %zu MiB", max >> 20);
	return rc == Z_STREAM_END ? 0 : err_set(err, -EINVAL, "it is no whole gzip stream");
}

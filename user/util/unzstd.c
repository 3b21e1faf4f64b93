/* SPDX-License-Identifier: Apache-2.0 */
#include "util/unzstd.h"

#include <errno.h>
#include <stdbool.h>
#include <zstd.h>

#define CHUNK 65536
#define WINDOW_LOG_MAX 23 /* 8 MiB: what decoders must take at least, RFC 8878, 3.1.1.1.2 */

int unzstd(const uint8_t *data, size_t len, size_t max, struct buf *out, struct err *err)
{
	ZSTD_DCtx *z = ZSTD_createDCtx();
	ZSTD_inBuffer in = { data, len, 0 };
	size_t left = 1; /* of a frame; 0: one has ended */
	if (!z || ZSTD_isError(ZSTD_DCtx_setParameter(z, ZSTD_d_windowLogMax, WINDOW_LOG_MAX))) {
		ZSTD_freeDCtx(z);
		return err_set(err, -ENOMEM, "out of memory");
	}
	int rc = 0;
	for (bool full = true; !rc && (in.pos < len || (full && left)) && out->len <= max;) {
		rc = buf_reserve(out, CHUNK);
		if (rc)
			break;
		ZSTD_outBuffer to = { out->data + out->len, CHUNK, 0 };
		left = ZSTD_decompressStream(z, &to, &in);
		out->len += to.pos;
		full = to.pos == to.size;
		if (ZSTD_isError(left))
			rc = -EINVAL;
	}
	ZSTD_freeDCtx(z);
	if (out->len > max)
		return err_set(err, -EMSGSIZE, "it unpacks to more than %zu MiB", max >> 20);
	if (rc == -ENOMEM)
		return err_set(err, rc, "out of memory");
	return rc || left ? err_set(err, -EINVAL, "it is no whole zstd stream") : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "store/file/columns.h"

#include "store/file/bits.h"
#include "store/file/decompress.h"
#include "store/file/format.h"

#include <errno.h>
#include <zstd.h>
#include <zstd_errors.h>

int columns_join(struct buf *out, const struct buf *columns, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int rc = buf_add_u32(out, (uint32_t)columns[i].len);
		if (!rc)
			rc = buf_add(out, columns[i].data, columns[i].len);
		if (rc)
			return rc;
	}
	return 0;
}

int columns_split(const uint8_t *data, size_t len, struct cursor *ret_columns, size_t n)
{
	struct cursor c = { data, data + len, 0 };
	for (size_t i = 0; i < n; i++) {
		uint32_t size = cursor_u32(&c);
		const uint8_t *p = cursor_bytes(&c, size);
		if (!p)
			return -EBADMSG;
		ret_columns[i] = (struct cursor){ p, p + size, 0 };
	}
	return cursor_left(&c) ? -EBADMSG : 0;
}

/*
 * The compressor works with 8 MiB then; with a window as large as a column of some MiB it would
 * take 32 MiB.
 */
#define WINDOW_LOG 19

/* As ZSTD_compress. */
static size_t compress(void *out, size_t cap, const void *data, size_t len, int level)
{
	ZSTD_CCtx *c = ZSTD_createCCtx();
	if (!c)
		return (size_t)-ZSTD_error_memory_allocation;
	ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, level);
	ZSTD_CCtx_setParameter(c, ZSTD_c_windowLog, WINDOW_LOG);
	size_t n = ZSTD_compress2(c, out, cap, data, len);
	ZSTD_freeCCtx(c);
	return n;
}

static int pack(struct buf *out, const void *data, size_t len, int level, uint8_t *ret_codec)
{
	size_t bound = ZSTD_compressBound(len);
	int rc = buf_reserve(out, bound > len ? bound : len);
	if (rc)
		return rc;
	size_t n = len ? compress(out->data + out->len, bound, data, len, level) : 0;
	if (ZSTD_isError(n))
		return -ENOMEM;
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
	if (len < 1024)
		n = len; /* as it is, for a fuzzer to change */
#endif
	if (n < len) {
		out->len += n;
		*ret_codec = CODEC_ZSTD;
		return 0;
	}
	*ret_codec = CODEC_RAW;
	return buf_add(out, data, len);
}

int codec_pack(struct buf *out, const void *data, size_t len, uint8_t *ret_codec)
{
	return pack(out, data, len, COMPRESSION_LEVEL, ret_codec);
}

#define SMALL 128 /* bytes that are hardly worth a compressor's start */

int codec_pack_piece(struct buf *out, const void *data, size_t len, uint8_t *ret_codec)
{
	if (len >= SMALL)
		return pack(out, data, len, COMPRESSION_LEVEL_BITS, ret_codec);
	*ret_codec = CODEC_RAW;
	return buf_add(out, data, len);
}

int codec_pack_varints(struct buf *out, const void *data, size_t len, uint8_t *ret_codec)
{
	size_t before = out->len;
	struct buf bits = BUF_INIT;
	int rc = codec_pack(out, data, len, ret_codec);
	int other = rc ? rc : bits_pack(&bits, data, len);
	/* It takes longer to read: it must be worth it. */
	if (!other && bits.len + bits.len / 32 < out->len - before) {
		out->len = before;
		rc = buf_add(out, bits.data, bits.len);
		*ret_codec = CODEC_BITS;
	}
	buf_fini(&bits);
	return rc ? rc : other == -ENOMEM ? other : 0;
}

int codec_unpack(struct buf *out, uint8_t codec, const uint8_t *data, size_t len, size_t raw_len)
{
	if (codec == CODEC_RAW)
		return len == raw_len ? buf_add(out, data, len) : -EBADMSG;
	if (codec == CODEC_BITS)
		return bits_unpack(out, data, len, raw_len);
	if (codec != CODEC_ZSTD || !raw_len)
		return -EBADMSG;
	int rc = buf_reserve(out, raw_len);
	if (rc)
		return rc;
	size_t n = decompress(out->data + out->len, raw_len, data, len);
	if (ZSTD_isError(n) && ZSTD_getErrorCode(n) == ZSTD_error_memory_allocation)
		return -ENOMEM;
	if (ZSTD_isError(n) || n != raw_len)
		return -EBADMSG;
	out->len += raw_len;
	return 0;
}

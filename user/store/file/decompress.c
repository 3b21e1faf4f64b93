/* SPDX-License-Identifier: Apache-2.0 */
#include "store/file/decompress.h"

#include <pthread.h>
#include <zstd.h>
#include <zstd_errors.h>

static pthread_key_t contexts;

static void free_context(void *c)
{
	ZSTD_freeDCtx(c);
}

static void make_key(void)
{
	if (pthread_key_create(&contexts, free_context))
		contexts = (pthread_key_t)-1;
}

/*
 * To make a context takes longer than to decompress a small frame: each thread keeps one, of 160
 * KiB.
 */
static ZSTD_DCtx *thread_context(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, make_key);
	ZSTD_DCtx *c = pthread_getspecific(contexts);
	if (c)
		return c;
	c = ZSTD_createDCtx();
	if (c && pthread_setspecific(contexts, c)) {
		ZSTD_freeDCtx(c);
		c = NULL;
	}
	return c;
}

size_t decompress(void *out, size_t cap, const void *data, size_t len)
{
	ZSTD_DCtx *c = thread_context();
	return c ? ZSTD_decompressDCtx(c, out, cap, data, len)
		 : (size_t)-ZSTD_error_memory_allocation;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: MANIFEST and HEADER of a store, whose fixed part is right. The first byte chooses, a
 * protobuf message follows. What is read is written and read again.
 *
 * Covers: store/file/manifest.c store/file/header.c store/file/meta.c store/file/message.c
 */
#include "fuzz/input.h"
#include "fuzz/protobuf.h"
#include "store/file/file.h"
#include "store/file/header.h"
#include "store/file/manifest.h"
#include "unit/store_model.h"

#define STORE_ID 7

static char dir[64];
static int dir_fd = -1;

static void remove_dir(void)
{
	remove_tree(dir);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
	return protobuf_mutate_behind(1, data, size, max, seed);
}

static bool read_manifest(bool again)
{
	struct manifest m = { 0 };
	struct manifest_segment *segments = NULL;
	struct err err;
	size_t n = 0;
	if (manifest_read(&m, &segments, &n, dir_fd, dir, STORE_ID, &err))
		return false;
	const struct manifest_segment **v = calloc(n + 1, sizeof(*v));
	for (size_t i = 0; i < n; i++)
		v[i] = &segments[i];
	if (again)
		require(manifest_write(&m, v, n, dir_fd, dir, STORE_ID, &err) ||
			read_manifest(false));
	for (size_t i = 0; i < n; i++)
		manifest_segment_fini(&segments[i]);
	free(segments);
	free(v);
	manifest_fini(&m);
	return true;
}

static bool read_header(bool again)
{
	struct header h = { 0 };
	struct err err;
	if (header_read(&h, dir_fd, dir, &err))
		return false;
	if (again)
		require(header_write(dir_fd, dir, &h, &err) || read_header(false));
	header_fini(&h);
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	bool header = take_byte(&in) & 1;
	struct buf payload = BUF_INIT, file = BUF_INIT;
	if (dir_fd < 0) {
		temp_dir(dir);
		atexit(remove_dir);
		dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	require(!buf_add(&payload, in.p, in.left));
	require(!message_frame(&file, header ? HEADER_MAGIC : MANIFEST_MAGIC, STORE_ID, &payload));
	const char *name = header ? HEADER_NAME : MANIFEST_NAME;
	int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	require(fd >= 0 && write(fd, file.data, file.len) == (ssize_t)file.len);
	close(fd);
	if (header)
		read_header(true);
	else
		read_manifest(true);
	buf_fini(&payload);
	buf_fini(&file);
	return 0;
}

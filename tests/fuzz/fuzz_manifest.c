/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: MANIFEST and HEADER of a store. The first byte chooses the file, and one defect of its
 * fixed part or none (enum defect). A protobuf message follows. What is read is written and read
 * again. Events and wide keys are added to a manifest, and the meta of a header is joined with
 * another one.
 *
 * Covers: store/file/manifest.c store/file/header.c store/file/meta.c store/file/message.c
 */
#include "fuzz/input.h"
#include "fuzz/protobuf.h"
#include "store/file/file.h"
#include "store/file/format.h"
#include "store/file/header.h"
#include "store/file/manifest.h"
#include "store/file/meta.h"
#include "unit/store_model.h"

#define STORE_ID 7
#define CHOOSE_HEADER 1

enum defect { /* byte >> 1 */
	      NO_DEFECT,
	      OTHER_MAGIC,
	      OTHER_VERSION,
	      NO_VERSION,
	      OTHER_LENGTH,
	      OTHER_CHECKSUM,
	      OTHER_PAYLOAD_CHECKSUM,
	      OTHER_STORE,
	      SHORT,
	      MISSING,
};

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

/* ---- MANIFEST ---- */

static void add_to_manifest(struct manifest *m, struct manifest_segment *segments, size_t n)
{
	const size_t before = m->n_events;
	bool is_new;
	for (size_t i = 0; i < before && i < 4; i++) {
		struct store_event e = m->events[i];
		require(!manifest_add_event(m, &e, &is_new) && !is_new);
	}
	require(m->n_events == before);
	for (size_t i = 0; i < 3; i++)
		if (!manifest_add_event(m, &model_events[i], &is_new))
			require(m->n_events <= EVENTS_MAX);
	for (size_t i = 0; i < n; i++)
		if (!manifest_set_wide(&segments[i], "tenant", 6, 7))
			require(segments[i].n_wide > 0);
	const struct store_anchor anchor = { .real_minus_boot_ns = 5 };
	(void)manifest_add_anchor(m, &anchor);
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
	if (again) {
		require(manifest_write(&m, v, n, dir_fd, dir, STORE_ID, &err) ||
			read_manifest(false));
		add_to_manifest(&m, segments, n);
		require(manifest_write(&m, v, n, dir_fd, dir, STORE_ID, &err) ||
			read_manifest(false));
	}
	for (size_t i = 0; i < n; i++)
		manifest_segment_fini(&segments[i]);
	free(segments);
	free(v);
	manifest_fini(&m);
	return true;
}

/* ---- HEADER ---- */

static bool has_name(const char *const *names, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(names[i], name))
			return true;
	return false;
}

/* Each counter has its place among those of all, under its own name. */
static void join_meta(const struct store_meta *m)
{
	const struct store_meta *from[] = { m, &model_meta, m };
	struct meta_map maps[3] = { { NULL } };
	struct store_meta all;
	if (!meta_join(&all, from, 3, maps)) {
		for (size_t i = 0; i < 3; i++)
			for (size_t k = 0; k < from[i]->n_lost; k++)
				require(!strcmp(all.lost_names[maps[i].lost_at[k]],
						from[i]->lost_names[k]));
		for (size_t i = 0; i < all.n_flagged; i++)
			require(has_name(m->flagged_names, m->n_flagged, all.flagged_names[i]) ||
				has_name(flagged_names, 1, all.flagged_names[i]));
		require(all.created_ns <= m->created_ns && all.created_ns <= model_meta.created_ns);
		meta_fini(&all);
	}
	for (size_t i = 0; i < 3; i++)
		meta_map_fini(&maps[i]);
}

static bool read_header(bool again)
{
	struct header h = { 0 };
	struct err err;
	if (header_read(&h, dir_fd, dir, &err))
		return false;
	if (again) {
		require(header_write(dir_fd, dir, &h, &err) || read_header(false));
		join_meta(&h.meta);
	}
	header_fini(&h);
	return true;
}

/* ---- one input ---- */

/* Offsets in the fixed part: docs/format.md. */
static void add_defect(struct buf *file, enum defect defect)
{
	static const uint8_t at[] = {
		[OTHER_MAGIC] = 0,  [OTHER_VERSION] = 8,	   [OTHER_LENGTH] = 12,
		[OTHER_STORE] = 16, [OTHER_PAYLOAD_CHECKSUM] = 24, [OTHER_CHECKSUM] = 28,
	};
	if (defect == NO_VERSION)
		memset(file->data + 8, 0, 4);
	else if (defect == SHORT)
		file->len = HEADER_SIZE - 1;
	else if (defect != NO_DEFECT && defect < SHORT)
		file->data[at[defect]] ^= 0x40;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	const uint8_t choice = take_byte(&in);
	const bool header = choice & CHOOSE_HEADER;
	const enum defect defect = choice >> 1;
	struct buf payload = BUF_INIT, file = BUF_INIT;
	if (dir_fd < 0) {
		temp_dir(dir);
		atexit(remove_dir);
		dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	const char *name = header ? HEADER_NAME : MANIFEST_NAME;
	if (buf_add(&payload, in.p, in.left) ||
	    message_frame(&file, header ? HEADER_MAGIC : MANIFEST_MAGIC, STORE_ID, &payload)) {
		require(false);
		buf_fini(&payload);
		buf_fini(&file);
		return 0;
	}
	add_defect(&file, defect);
	int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	require(fd >= 0 && write(fd, file.data, file.len) == (ssize_t)file.len);
	close(fd);
	if (defect == MISSING)
		unlinkat(dir_fd, name, 0);
	require((header ? read_header(true) : read_manifest(true)) <=
		(defect == NO_DEFECT || defect > MISSING || (header && defect == OTHER_STORE)));
	buf_fini(&payload);
	buf_fini(&file);
	return 0;
}

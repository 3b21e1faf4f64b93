/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of an export: frames that show the same name, file and module are one. Numbered
 * from 0 in order of first use. One thread at a time may use it.
 */
#ifndef ASCRIBE_EXPORT_FUNCTIONS_H
#define ASCRIBE_EXPORT_FUNCTIONS_H

#include "export/export.h"
#include "export/intern.h"

struct functions {
	const struct export_source *src;
	struct intern keys;
	uint32_t *by_frame; /* number + 1 of each frame; 0: not known yet */
	size_t n_frames;
	uint32_t *frame; /* [keys.n]: the first frame of each; 0: (other) */
	size_t cap;
	struct buf key;
};

/* 0 or -ENOMEM; functions_fini is due in any case. */
int functions_init(struct functions *t, const struct export_source *src);
void functions_fini(struct functions *t);

/* The number of a frame's function. 0, -ENOMEM, -E2BIG. */
int functions_find(struct functions *t, uint32_t frame, uint32_t *ret);

/* The name of a function, valid until the next call of any function here. */
const char *functions_name(struct functions *t, uint32_t function, size_t *ret_len);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A label set from text, for targets that ask selectors: "key=value,key=value". */
#ifndef TESTS_FUZZ_LABEL_SET_H
#define TESTS_FUZZ_LABEL_SET_H

#include "labels/labels.h"

#include <string.h>

#define LABEL_SET_MAX 8

/* Return how many labels the line has. They borrow it. Numbers are integers. */
static inline size_t labels_of(char *line, struct label v[static LABEL_SET_MAX])
{
	size_t n = 0;
	for (char *at = strtok(line, ","); at && n < LABEL_SET_MAX; at = strtok(NULL, ",")) {
		char *value = strchr(at, '=');
		if (!value)
			continue;
		v[n] = (struct label){ .key = at,
				       .key_len = (uint32_t)(value - at),
				       .str = value + 1,
				       .str_len = (uint32_t)strlen(value + 1) };
		if (label_int(v[n].str, v[n].str_len, &v[n].num))
			v[n].type = LABEL_INT;
		n++;
	}
	return labels_normalize(v, n);
}

#endif

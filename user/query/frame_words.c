/* SPDX-License-Identifier: Apache-2.0 */
#include "query/frame_words.h"

#include <string.h>

static bool word_matches(const char *word, size_t len, const char *name)
{
	if (word[0] == '*')
		return memmem(name, strlen(name), word + 1, len - 1) != NULL;
	if (word[len - 1] == '*')
		return !strncmp(name, word, len - 1);
	return !strncmp(name, word, len) && (!name[len] || strchr("(@.<", name[len]));
}

bool frame_words_match(const char *words, const char *name)
{
	for (size_t len; *words; words += len) {
		words += strspn(words, " ");
		len = strcspn(words, " ");
		if (len && word_matches(words, len, name))
			return true;
	}
	return false;
}

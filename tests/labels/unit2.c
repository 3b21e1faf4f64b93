/* SPDX-License-Identifier: Apache-2.0 */
/* A second translation unit: it must share slot and key table with the first. */
#include "linkage.h"

#include <ascribe/label.h>

C_LINKAGE int unit2_attach(struct ascribe_scope *scope, const char *key, const char *value);

int unit2_attach(struct ascribe_scope *scope, const char *key, const char *value)
{
	return ascribe_attach_string(scope, key, value);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a member of a structure is, by the DWARF (2 to 5) of the file itself: a bounded reader of the few things that takes. For
 * label paths, which name members so that offsets need not be looked up by hand.
 */
#ifndef ASCRIBE_ELF_MEMBER_H
#define ASCRIBE_ELF_MEMBER_H

#include "elf/image.h"

#define ELF_DWARF_MAX (128u << 20) /* bytes of .debug_info; of .debug_str as much, of .debug_abbrev an eighth */

/*
 * The offset of `member` in the structure, class, union or typedef of one called `type`; the first definition counts. -ENOENT:
 * there is none, or no DWARF; -EBADMSG: damaged; -E2BIG; -EOPNOTSUPP: it has no fixed offset.
 */
int elf_member_offset(const struct elf_image *img, const char *type, const char *member, uint64_t *ret);

#endif

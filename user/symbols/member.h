/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a member of a structure is, by the DWARF of the file itself. By libdw: only in a worker
 * (symbols/lines.h).
 */
#ifndef ASCRIBE_SYMBOLS_MEMBER_H
#define ASCRIBE_SYMBOLS_MEMBER_H

#include <stdint.h>

/*
 * The offset of `member` in the structure, class, union or typedef of one called `type`; the first
 * definition counts. fd is borrowed. -ENOENT: there is none, or no DWARF; -EBADMSG: damaged;
 * -E2BIG; -EOPNOTSUPP: it has no fixed offset.
 */
int member_offset(int fd, const char *type, const char *member, uint64_t *ret);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ASCRIBE_SYMBOLS_DWARF_NAME_H
#define ASCRIBE_SYMBOLS_DWARF_NAME_H

#include <elfutils/libdw.h>

/* The linker's name of a function, else that of the source; "": it has none. Only in a worker. */
const char *dwarf_function_name(Dwarf_Die *die);

#endif

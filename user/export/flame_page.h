/* SPDX-License-Identifier: Apache-2.0 */
/* The flame graph's page as text; FLAME_PAGE_DATA in it is where the data goes. */
#ifndef ASCRIBE_EXPORT_FLAME_PAGE_H
#define ASCRIBE_EXPORT_FLAME_PAGE_H

#define FLAME_PAGE_DATA "@FLAME_DATA@"

extern const char flame_page[];

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of functions that a stripped file does not name, by the functions that end in them.
 *
 *   pthread_mutex_timedlock:  ...  jmp X --.
 *   pthread_mutex_clocklock:  ...  jmp X --+--> X: "pthread_mutex_clocklock|pthread_mutex_timedlock"
 *
 * A jump puts the code it leads to into the frame of the function that jumped. So X is named where
 * named functions jump to it and nothing else refers to it: no call, no address in code or data.
 */
#ifndef ASCRIBE_SYMBOLS_TAILS_H
#define ASCRIBE_SYMBOLS_TAILS_H

#include "symbols/table.h"

/*
 * Name functions "" of io_table, the table of img, which is sorted and has its reach. Other
 * machines than x86-64 and files over 16 MiB stay as they are. 0, -ENOMEM, or as elf_image_read:
 * the table is as it was.
 */
int tails_name(struct table *io_table, const struct elf_image *img);

#endif

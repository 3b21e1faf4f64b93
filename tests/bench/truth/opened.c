/* SPDX-License-Identifier: Apache-2.0 */
/* The two functions in a library that is opened while the program runs (opens.c). */
#define PART __attribute__((noinline, visibility("default")))
void three(unsigned n);
void one(unsigned n);
#include "parts.h"

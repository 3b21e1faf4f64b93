/* SPDX-License-Identifier: Apache-2.0 */
/* The name of Debian's directories for this machine's libraries. */
#ifndef TESTS_TRIPLET_H
#define TESTS_TRIPLET_H

#if defined(__aarch64__)
#define TRIPLET "aarch64-linux-gnu"
#define LINKER "/lib/ld-linux-aarch64.so.1"
#else
#define TRIPLET "x86_64-linux-gnu"
#define LINKER "/lib64/ld-linux-x86-64.so.2"
#endif

#endif

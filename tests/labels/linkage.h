/* SPDX-License-Identifier: Apache-2.0 */
/* Names that C and C++ share: these tests are compiled as both. */
#ifndef ASCRIBE_TESTS_LINKAGE_H
#define ASCRIBE_TESTS_LINKAGE_H

#ifdef __cplusplus
#define C_LINKAGE extern "C"
#else
#define C_LINKAGE extern
#endif

#endif

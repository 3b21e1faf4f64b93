/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FLAME_PAGE (web/single.html with what belongs to it: mk/web.mk) inside the program; the compiler
 * runs at the top of the tree.
 */
#include "export/flame_page.h"

__asm__(".pushsection .rodata\n"
	".global flame_page\n"
	"flame_page:\n"
	".incbin \"" FLAME_PAGE "\"\n"
	".byte 0\n"
	".popsection\n");

/* SPDX-License-Identifier: Apache-2.0 */
/* user/export/flame.html inside the program; the compiler runs at the top of the tree. */
#include "export/flame_page.h"

__asm__(".pushsection .rodata\n"
	".global flame_page\n"
	"flame_page:\n"
	".incbin \"user/export/flame.html\"\n"
	".byte 0\n"
	".popsection\n");

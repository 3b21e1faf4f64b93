/* SPDX-License-Identifier: Apache-2.0 */
/*
 * renew STORE SECONDS: record the host, a new symbol generation after each window of a second, as
 * it happens once in months.
 */
#include "recording.h"
#include "store/writer.h"

int main(int argc, char **argv)
{
	struct recording r;
	struct store_options o;
	if (argc != 3)
		return 2;
	store_options_default(&o);
	o.symbols_bytes = 1;
	recording_run(&r, argv, &o);
	recording_end(&r);
	return 0;
}

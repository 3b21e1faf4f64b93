/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/proc_int.h"

/* Looks at one image are free up to here, which is more than most programs take in all. */
#define IMAGE_FREE_NS 1000000ull
/* Beyond that, looks for one user may take this at once, then 1 / USER_EARN of all time. */
#define USER_BURST_NS 100000000ull
#define USER_EARN 10
/* One image gets half of that, and leaves the rest to other images of its user. */
#define IMAGE_SHARE (2 * USER_EARN)

uint64_t procs_paused_until(struct procs *p, struct proc_image *im)
{
	uint64_t now = proc_now_ns(), until = im->looks.until_ns;
	if (until > now || im->looked_ns < IMAGE_FREE_NS)
		return until > now ? until : 0;
	const struct spender *u = spenders_find(&p->lookers, proc_image_user(im), USER_EARN, now);
	uint64_t debt = u->spent_ns > USER_BURST_NS ? u->spent_ns - USER_BURST_NS : 0;
	return debt ? now + debt * USER_EARN : 0;
}

void procs_looked(struct procs *p, struct proc_image *im, uint64_t begin_ns)
{
	uint64_t ns = pace_charge(&im->looks, begin_ns, IMAGE_SHARE);
	uint64_t free_ns = im->looked_ns < IMAGE_FREE_NS ? IMAGE_FREE_NS - im->looked_ns : 0;
	im->looked_ns += ns;
	if (ns > free_ns)
		spenders_find(&p->lookers, proc_image_user(im), USER_EARN, proc_now_ns())
			->spent_ns += ns - free_ns;
}

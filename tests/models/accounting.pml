/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accounting: each sample that fired is stored, or counted as lost under one name.
 *
 * Stands for
 *   bpf/sample.bpf.c          sample, sample_in, sample_task, keep_row
 *   user/sampler/drain.c      sampler_drain, read_counts, take
 *   user/sampler/sampler.c    sampler_fired, not_run
 *   user/collect/rows.c       rows_on_half, rows_go_on, store_sample, rows_put_aside
 *   user/collect/news.c       news_on_copy
 *   user/stacks/copies.c      copies_add, copies_take
 *   user/collect/window.c     count_not_run, window_totals, window_lost, window_clear
 *   user/collect/windows.c    windows_close, windows_write, windows_drain
 *
 * One CPU with two events. The kernel counts a sample, then runs the program or does not. User
 * space drains, and each drain closes a window. The write of a window may fail, but for the last
 * one, when the events are stopped. A sample is one period of its event.
 *
 * Proved: in each window that is written, fired = stored + lost; in all of them together, not_run
 * is what the kernel did not run, and each sample is counted once.
 *
 * All names of losses are one number here, but for not_run: what matters is that a sample comes to
 * one of them. That a run of the program is one step is proved by halves.pml.
 */
#define EVENTS 2
#define FIRES(e) (2 - (e)) /* how often event e fires */
#define DRAINS 2 /* and a last one, when the events are stopped */

/* What the kernel and the programs write. */
byte fires[EVENTS];		  /* the event's own count */
byte half;			  /* the id of the half that is written */
byte ran[EVENTS], outside, rows, rows_full; /* of that half */
byte copies[DRAINS + 2];	  /* on their way, by half */
byte ended;

/* What was true, to compare with. */
byte not_run, left_outside;

proctype event(byte e)
{
	byte n;
	for (n : 1 .. FIRES(e)) {
		fires[e]++;
		if
		:: not_run++ /* nested, or a bpf() call on this CPU */
		:: d_step { ran[e]++; outside++; left_outside++ }
		:: d_step { ran[e]++; rows++ }
		:: d_step { ran[e]++; rows_full++ }
		:: d_step { ran[e]++; copies[half]++ }
		fi
	}
	ended++
}

/* struct cpu: counts at the last drain. struct window_cpu: of the open window. */
byte count[EVENTS], covered[EVENTS];
byte w_ran, w_outside, w_stored, w_lost, w_not_run; /* w_lost: without not_run */
byte not_run_reported, unkept[DRAINS + 2], kept[DRAINS + 2], aside;
byte fired; /* of all windows that were written */
bool stopped;

/* count_not_run: one sample of each event may be between its count and its program. */
inline end_window()
{
	d_step {
		missing = 0;
		slack = 0;
		for (e : 0 .. EVENTS - 1) {
			if
			:: count[e] > covered[e] ->
				missing = missing + count[e] - covered[e];
				slack++
			:: else
			fi
		}
		e = 0;
#if BROKEN == 1 /* one sample of all events */
		slack = 1;
#elif BROKEN == 2
		slack = 0;
#endif
		if
		:: stopped -> slack = 0
		:: else
		fi;
		if
		:: missing > not_run_reported + slack ->
			w_not_run = w_not_run + missing - slack - not_run_reported;
			not_run_reported = missing - slack
		:: else
		fi;
		missing = 0;
		slack = 0
	}
}

/* store_sample: it is stored, or there is no memory. */
inline store_one()
{
	if
	:: w_stored++
	:: w_lost++
	fi
}

/* rows_go_on, window_totals, and the write. */
inline write_window()
{
	do
	:: aside -> aside--; store_one()
	:: else -> break
	od;
	assert(w_ran - w_outside + w_not_run == w_stored + w_lost + w_not_run);
	if
	:: !stopped -> /* it fails: its samples are lost in the next one's totals */
		w_lost = w_lost + w_stored
#if BROKEN != 4
		;
		w_stored = 0
#endif
	:: true ->
		d_step {
			fired = fired + w_ran - w_outside + w_not_run;
			w_ran = 0;
			w_outside = 0;
			w_stored = 0;
			w_lost = 0;
			w_not_run = 0
		}
	fi
}

inline read_counts()
{
	count[0] = fires[0];
	count[1] = fires[1]
}

/* take: the half is ours, the next one is written. */
inline take_half()
{
	d_step {
		taken = half;
		half++;
		h_ran = ran[0] + ran[1];
		covered[0] = covered[0] + ran[0];
		covered[1] = covered[1] + ran[1];
		h_outside = outside;
		h_rows = rows;
		h_rows_full = rows_full;
		ran[0] = 0;
		ran[1] = 0;
		outside = 0;
		rows = 0;
		rows_full = 0
	}
}

/* The ring: a copy is kept with the id of its half, or there is no memory for it. */
inline poll_ring()
{
	for (e : 0 .. DRAINS + 1) {
		do
		:: copies[e] ->
			copies[e]--;
			if
			:: kept[e]++
#if BROKEN == 5 /* of the half that is taken next */
			:: unkept[taken]++
#else
			:: unkept[e]++
#endif
			fi
		:: else -> break
		od
	}
	e = 0
}

/* rows_on_half: its rows, and the copies that began in it. */
inline on_half()
{
	d_step {
		w_ran = w_ran + h_ran;
		w_outside = w_outside + h_outside;
		w_lost = w_lost + h_rows_full + unkept[taken];
		unkept[taken] = 0;
#if BROKEN == 6 /* all copies that have come */
		h_rows = h_rows + kept[0] + kept[1] + kept[2] + kept[3];
		kept[0] = 0;
		kept[1] = 0;
		kept[2] = 0;
		kept[3] = 0
#else
		h_rows = h_rows + kept[taken];
		kept[taken] = 0
#endif
	}
	do
	:: h_rows ->
		h_rows--;
		if
		:: store_one()
		:: aside++
		fi
	:: else -> break
	od
}

active proctype user()
{
	byte n, e, taken, h_ran, h_outside, h_rows, h_rows_full, missing, slack;
	run event(0);
	run event(1);
	for (n : 0 .. DRAINS) {
		if
		:: n == DRAINS -> ended == EVENTS; stopped = true
		:: else
		fi;
#if BROKEN == 3 /* the events are read behind the halves */
		take_half();
		read_counts();
#else
		read_counts();
		take_half();
#endif
		atomic { poll_ring() }
		/* Up to the next drain user space reads nothing that the programs write */
		atomic {
			on_half();
			end_window();
			write_window();
			taken = 0;
			h_ran = 0;
			h_outside = 0;
			h_rows_full = 0
		}
	}
	assert(fired == fires[0] + fires[1] - left_outside);
	assert(not_run_reported == not_run)
}

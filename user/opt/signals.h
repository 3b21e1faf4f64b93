/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turn SIGINT, SIGTERM and SIGHUP into a descriptor that a loop polls. Call before threads are
 * made.
 */
#ifndef ASCRIBE_OPT_SIGNALS_H
#define ASCRIBE_OPT_SIGNALS_H

/*
 * Return a signalfd that does not block, or -1. The caller closes it. more: one more signal that
 * it reports; 0: none.
 */
int signals_take(int more);

/*
 * Return a descriptor that becomes readable at the first signal, or -1. Leave it open: the process
 * ends with it.
 *
 * A thread of its own takes the signals, so that the caller may be busy. A second signal ends the
 * process at once, as if the first had never been caught. Signals within SIGNALS_SAME_MS of the
 * first count as the same request: timeout(1), for example, signals its command and then the whole
 * process group.
 */
#define SIGNALS_SAME_MS 300
int signals_take_once(void);

#endif

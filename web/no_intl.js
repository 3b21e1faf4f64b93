/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In place of Intl for uPlot, which makes a format when it is loaded, 10 ms of a page's start, that
 * the chart does not use: it writes its labels itself.
 */
export class PlainNumbers {
	format(n) { return String(n); }
}

export class PlainDates {
	resolvedOptions() { return { timeZone: undefined }; }
}

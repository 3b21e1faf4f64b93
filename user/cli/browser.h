/* SPDX-License-Identifier: Apache-2.0 */
/* --open: show a page in the browser of this desktop, or say how to reach it from another one. */
#ifndef ASCRIBE_CLI_BROWSER_H
#define ASCRIBE_CLI_BROWSER_H

/* A page that was handed to a browser. */
struct browser {
	char *file; /* that leads to the page; removed by browser_done */
};

#define BROWSER_INIT { 0 }

/*
 * Open a file, or an address with a token in it. The command line of a browser is visible to all
 * users, so an address goes there in a file that only its owner may read. Without a desktop, or
 * where no browser starts, print what to do instead.
 */
void browser_open_file(const char *path);
void browser_open_address(struct browser *b, const char *url);
/* Remove the file; the browser has read it. */
void browser_done(struct browser *b);

#endif

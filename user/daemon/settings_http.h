/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of the server, one function for each key (settings.c). 0, or -EINVAL with the text. */
#ifndef ASCRIBE_DAEMON_SETTINGS_HTTP_H
#define ASCRIBE_DAEMON_SETTINGS_HTTP_H

#include "daemon/settings.h"

int settings_parse_mode(struct daemon_settings *s, struct err *err);
int settings_read_token(struct daemon_settings *s, struct err *err);
int settings_read_capture_token(struct daemon_settings *s, struct err *err);
int settings_read_tokens(struct daemon_settings *s, struct err *err); /* after both */
int settings_read_cert(struct daemon_settings *s, struct err *err);
int settings_read_key(struct daemon_settings *s, struct err *err);
int settings_read_client_ca(struct daemon_settings *s, struct err *err);
int settings_check_audit(struct daemon_settings *s, struct err *err);
int settings_parse_listen(struct daemon_settings *s, struct err *err);
/* Close the files of tokens, certificate and key. */
void settings_close_secrets(struct daemon_settings *s);

#endif

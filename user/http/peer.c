/* SPDX-License-Identifier: Apache-2.0 */
#include "http/peer.h"

#include <microhttpd.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

#define GROUPS_MAX 1024

bool peer_is_member(struct MHD_Connection *c)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);
	const int fd = info ? info->connect_fd : -1;
	const gid_t own = getegid();
	struct ucred who;
	gid_t groups[GROUPS_MAX];
	socklen_t len = sizeof(who);
	/* Of the internet nobody is known. */
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) || who.uid == (uid_t)-1)
		return false;
	if (who.uid == 0 || who.gid == own)
		return true;
	len = sizeof(groups);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &len)) /* since v4.13 */
		return false;
	for (size_t i = 0; i < len / sizeof(groups[0]); i++)
		if (groups[i] == own)
			return true;
	return false;
}

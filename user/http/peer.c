/* SPDX-License-Identifier: Apache-2.0 */
#include "http/peer.h"

#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

#define GROUPS_MAX 1024

static bool is_member(int fd, const struct ucred *who)
{
	const gid_t own = getegid();
	gid_t groups[GROUPS_MAX];
	socklen_t len = sizeof(groups);
	if (who->uid == 0 || who->gid == own)
		return true;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &len)) /* since v4.13 */
		return false;
	for (size_t i = 0; i < len / sizeof(groups[0]); i++)
		if (groups[i] == own)
			return true;
	return false;
}

struct peer peer_of(int fd)
{
	struct ucred who;
	socklen_t len = sizeof(who);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) || who.uid == (uid_t)-1)
		return (struct peer){ .uid = -1 };
	return (struct peer){ who.uid, is_member(fd, &who) };
}

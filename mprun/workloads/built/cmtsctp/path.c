// SPDX-License-Identifier: Apache-2.0
/*
 * The linker's --wrap puts the function at the end between usrsctp and the kernel. usrsctp sends from
 * one UDP socket that is bound to no address, and the routing table chooses the source. Over a host's
 * default route, all paths would then use one interface. Here each packet gets the local address of
 * its path (IP_PKTINFO, ip(7)).
 *
 * Packets are counted by path. Retransmissions are also counted by path, because the library counts
 * them only for all paths together.
 */
#define _GNU_SOURCE
#include "path.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct path paths[MOST_PATHS];
int path_count;

static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);

static int parse_address(const char *text, uint16_t port, union address *address)
{
	memset(address, 0, sizeof(*address));
	if (inet_pton(AF_INET, text, &address->v4.sin_addr) == 1) {
		address->v4.sin_family = AF_INET;
		address->v4.sin_port = htons(port);
		return 1;
	}
	if (inet_pton(AF_INET6, text, &address->v6.sin6_addr) == 1) {
		address->v6.sin6_family = AF_INET6;
		address->v6.sin6_port = htons(port);
		return 1;
	}
	return 0;
}

static int is_same(const struct sockaddr *a, const struct sockaddr *b)
{
	if (a->sa_family != b->sa_family)
		return 0;
	if (a->sa_family == AF_INET)
		return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
		       ((const struct sockaddr_in *)b)->sin_addr.s_addr;
	return !memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
		       &((const struct sockaddr_in6 *)b)->sin6_addr, sizeof(struct in6_addr));
}

static socklen_t size_of(const union address *address)
{
	return address->any.sa_family == AF_INET ? sizeof(address->v4) : sizeof(address->v6);
}

const char *path_add(const char *text, uint16_t port)
{
	char local[INET6_ADDRSTRLEN] = "";
	const char *comma = strchr(text, ',');
	struct path *path = &paths[path_count];

	if (path_count == MOST_PATHS)
		return "there are too many paths";
	if (!comma || (size_t)(comma - text) >= sizeof(local))
		return "a path is two addresses with a comma between them";
	memcpy(local, text, comma - text);
	if (!parse_address(local, port, &path->local) || !parse_address(comma + 1, port, &path->remote))
		return "a path is two IPv4 or two IPv6 addresses with a comma between them";
	if (path->local.any.sa_family != path->remote.any.sa_family)
		return "the two addresses of a path are of one family";
	path_count++;
	return NULL;
}

struct path *path_find(const struct sockaddr *remote)
{
	for (int i = 0; i < path_count; i++)
		if (is_same(&paths[i].remote.any, remote))
			return &paths[i];
	return NULL;
}

struct counts path_counts(const struct path *path)
{
	struct counts counts;

	pthread_mutex_lock(&counting);
	counts = path->counts;
	pthread_mutex_unlock(&counting);
	return counts;
}

static int pack(void *packed, size_t which)
{
	const union address *seen[MOST_PATHS];
	char *end = packed;
	int count = 0;

	for (int i = 0; i < path_count; i++) {
		const union address *address = (const void *)((const char *)&paths[i] + which);
		int known = 0;

		for (int k = 0; k < count; k++)
			known |= is_same(&seen[k]->any, &address->any);
		if (known)
			continue;
		seen[count++] = address;
		memcpy(end, address, size_of(address));
		end += size_of(address);
	}
	return count;
}

int path_locals(void *packed)
{
	return pack(packed, offsetof(struct path, local));
}

int path_remotes(void *packed)
{
	return pack(packed, offsetof(struct path, remote));
}

const char *path_text(const union address *address, char *text)
{
	const void *bytes = address->any.sa_family == AF_INET ? (const void *)&address->v4.sin_addr
							      : (const void *)&address->v6.sin6_addr;

	return inet_ntop(address->any.sa_family, bytes, text, INET6_ADDRSTRLEN);
}

/* Write control data that makes `local` the source of a packet. Return its length. */
static size_t write_source(const union address *local, struct cmsghdr *header)
{
	if (local->any.sa_family == AF_INET) {
		struct in_pktinfo info = {.ipi_spec_dst = local->v4.sin_addr};

		*header = (struct cmsghdr){CMSG_LEN(sizeof(info)), IPPROTO_IP, IP_PKTINFO};
		memcpy(CMSG_DATA(header), &info, sizeof(info));
		return CMSG_SPACE(sizeof(info));
	}
	struct in6_pktinfo info = {.ipi6_addr = local->v6.sin6_addr};

	*header = (struct cmsghdr){CMSG_LEN(sizeof(info)), IPPROTO_IPV6, IPV6_PKTINFO};
	memcpy(CMSG_DATA(header), &info, sizeof(info));
	return CMSG_SPACE(sizeof(info));
}

/*
 * Mark a transmission sequence number as sent. Return whether it was sent before. With CMT a number
 * may be sent before a lower number on another path, so the highest number alone is not enough.
 */
static int was_sent(uint32_t number)
{
	/* more numbers than can be in flight at once */
	enum { RING = 1 << 17 };
	static unsigned char sent[RING];
	static uint32_t highest;
	static int has_begun;
	int before;

	if (!has_begun)
		highest = number - 1;
	has_begun = 1;
	for (; (int32_t)(number - highest) > 0; highest++)
		sent[(highest + 1) % RING] = 0;
	before = sent[number % RING];
	sent[number % RING] = 1;
	return before;
}

static uint32_t read_number(const unsigned char *at, int size)
{
	uint32_t number = 0;

	while (size--)
		number = number << 8 | *at++;
	return number;
}

/* Count the DATA chunks of a packet that are sent again (RFC 9260, sections 3.1 to 3.3.1). */
static void count_resent(const struct msghdr *message, struct counts *counts)
{
	enum { COMMON_HEADER = 12, CHUNK_HEADER = 4, DATA_HEADER = 16, DATA = 0 };
	unsigned char packet[2048];
	size_t size = 0, at, length;

	for (size_t i = 0; i < message->msg_iovlen; i++) {
		size_t part = message->msg_iov[i].iov_len;

		if (part > sizeof(packet) - size)
			part = sizeof(packet) - size;
		memcpy(packet + size, message->msg_iov[i].iov_base, part);
		size += part;
	}
	for (at = COMMON_HEADER; at + CHUNK_HEADER <= size; at += (length + 3) & ~(size_t)3) {
		length = read_number(packet + at + 2, 2);
		if (length < CHUNK_HEADER)
			break;
		if (packet[at] != DATA || length < DATA_HEADER || at + DATA_HEADER > size)
			continue;
		if (was_sent(read_number(packet + at + 4, 4))) {
			counts->resent++;
			counts->resent_bytes += length - DATA_HEADER;
		}
	}
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(struct in6_pktinfo))];
	} control = {0};
	struct path *path = message->msg_name ? path_find(message->msg_name) : NULL;
	struct msghdr changed = *message;
	ssize_t sent;

	if (path) {
		changed.msg_control = &control;
		changed.msg_controllen = write_source(&path->local, &control.header);
	}
	sent = __real_sendmsg(fd, &changed, flags);
	if (path && sent > 0) {
		pthread_mutex_lock(&counting);
		path->counts.bytes += sent;
		path->counts.packets++;
		count_resent(message, &path->counts);
		pthread_mutex_unlock(&counting);
	}
	return sent;
}

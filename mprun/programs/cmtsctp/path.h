// SPDX-License-Identifier: Apache-2.0
/*
 * The paths of an association: pairs of a local and a remote address. SCTP tells paths apart by
 * the remote address (RFC 9260, section 6.4), so the first path with a remote address is that of
 * all packets to it.
 */
#ifndef PATH_H
#define PATH_H

#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>

#define MOST_PATHS 16

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* SCTP packets that were sent: with headers, control chunks and retransmissions; and the DATA chunks
 * among them that had been sent before, with the bytes of their payload. */
struct counts {
	uint64_t bytes, packets, resent, resent_bytes;
};

struct path {
	union address local, remote;
	/* when it was found to work (CLOCK_MONOTONIC); 0: not yet. Of `association.lock`. */
	int64_t confirmed_ns;
	struct counts counts;
};

extern struct path paths[MOST_PATHS];
extern int path_count;

/* Adds the path that "LOCAL,REMOTE" spells; NULL, or why not. */
const char *path_add(const char *text, uint16_t port);
/* The path of a remote address; NULL if there is none. */
struct path *path_find(const struct sockaddr *remote);
/* Its counts at this moment. */
struct counts path_counts(const struct path *path);
/* The different addresses of one end of all paths, one after the other as usrsctp_bindx takes
 * them; how many there are. */
int path_locals(void *packed);
int path_remotes(void *packed);
/* An address as text; `text` holds INET6_ADDRSTRLEN bytes. */
const char *path_text(const union address *address, char *text);

#endif

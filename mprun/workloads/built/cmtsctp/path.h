// SPDX-License-Identifier: Apache-2.0
/*
 * The paths of an association: pairs of a local and a remote address. SCTP identifies paths by the
 * remote address (RFC 9260, section 6.4). All packets to a remote address therefore use the first path
 * with this address.
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

/*
 * The SCTP packets that were sent, with headers, control chunks and retransmissions. `resent` counts
 * the DATA chunks among them that had been sent before, `resent_bytes` their payload.
 */
struct counts {
	uint64_t bytes, packets, resent, resent_bytes;
};

struct path {
	union address local, remote;
	/* when it was confirmed (CLOCK_MONOTONIC); 0: not yet. Protected by `association.lock`. */
	int64_t confirmed_ns;
	struct counts counts;
};

extern struct path paths[MOST_PATHS];
extern int path_count;

/* Add the path in "LOCAL,REMOTE". Return NULL, or the reason for a failure. */
const char *path_add(const char *text, uint16_t port);
/* Return the path of a remote address; NULL if there is none. */
struct path *path_find(const struct sockaddr *remote);
/* Return the current counts of a path. */
struct counts path_counts(const struct path *path);
/*
 * Write the different addresses of one end of all paths one after the other, as usrsctp_bindx expects
 * them. Return their number.
 */
int path_locals(void *packed);
int path_remotes(void *packed);
/* Write an address as text. `text` holds INET6_ADDRSTRLEN bytes. */
const char *path_text(const union address *address, char *text);

#endif

// SPDX-License-Identifier: Apache-2.0
/* The one association of the program: setting it up, filling it, ending it. */
#ifndef ASSOCIATION_H
#define ASSOCIATION_H

#include <pthread.h>
#include <stdint.h>
#include <usrsctp.h>

struct association {
	/* of all that follows; `changed` is told when it does (on CLOCK_MONOTONIC) */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct socket *socket;
	sctp_assoc_t id;
	int is_up, is_over;
	/* why it ended, if nobody shut it down */
	const char *lost;
	int64_t up_ns;
	/* what was handed to SCTP or came from it */
	uint64_t bytes, messages;
};

extern struct association association;

int64_t now_ns(void);
/* With the lock: until a moment, or until something has changed. */
void wait_until(int64_t moment_ns);
/* Before anything else. */
void prepare_association(void);
/* Returns when the association is up; a sender then sends. */
void associate(void);
void abort_association(void);
/* Tells all who wait that it is over; why: for the report. */
void end_association(const char *why);

#endif

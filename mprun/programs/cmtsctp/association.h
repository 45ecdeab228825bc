// SPDX-License-Identifier: Apache-2.0
/* The one association of the program: setting it up, filling it, ending it. */
#ifndef ASSOCIATION_H
#define ASSOCIATION_H

#include <pthread.h>
#include <stdint.h>
#include <usrsctp.h>

/* A receiver's wait for data, if it took so long; CLOCK_MONOTONIC. */
#define STANDSTILL_NS (SECOND_NS / 100)
#define MOST_STANDSTILLS 100000
struct standstill {
	int64_t from_ns, to_ns;
};

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
	/* when data came last, of a receiver, and its waits for data */
	int64_t moved_ns;
	struct standstill *standstill;
	size_t standstills;
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
/* With the lock: a receiver's wait for data is over, as data came or as nobody looks any longer. */
void note_movement(void);
/* Tells all who wait that it is over; why: for the report. */
void end_association(const char *why);

#endif

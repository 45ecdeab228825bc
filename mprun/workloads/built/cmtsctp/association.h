// SPDX-License-Identifier: Apache-2.0
/* The only association of the program: set it up, fill it, end it. */
#ifndef ASSOCIATION_H
#define ASSOCIATION_H

#include <pthread.h>
#include <stdint.h>
#include <usrsctp.h>

/* A receiver's wait for data of at least STANDSTILL_NS; times of CLOCK_MONOTONIC. */
#define STANDSTILL_NS (SECOND_NS / 100)
#define MOST_STANDSTILLS 100000
struct standstill {
	int64_t from_ns, to_ns;
};

struct association {
	/* protects all members below; `changed` is signalled when one of them changes (on CLOCK_MONOTONIC) */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct socket *socket;
	sctp_assoc_t id;
	int is_up, is_over;
	/* why it ended, if nobody shut it down */
	const char *lost;
	int64_t up_ns;
	/* the data that was passed to SCTP or received from it */
	uint64_t bytes, messages;
	/* receiver: when data came last, and its waits for data */
	int64_t moved_ns;
	struct standstill *standstill;
	size_t standstills;
};

extern struct association association;

int64_t now_ns(void);
/* Wait until a time, or until something has changed. The caller holds the lock. */
void wait_until(int64_t moment_ns);
/* Call this function before any other. */
void prepare_association(void);
/* Return when the association is up. A sender then sends. */
void associate(void);
void abort_association(void);
/* A receiver's wait for data is over, because data came or because the program ends. The caller holds the lock. */
void note_movement(void);
/* Wake all threads that wait, because the association is over. why: for the report. */
void end_association(const char *why);

#endif

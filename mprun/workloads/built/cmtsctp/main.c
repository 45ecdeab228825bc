// SPDX-License-Identifier: Apache-2.0
/*
 * cmtsctp: one SCTP association over several paths, and its results as JSON.
 *
 * The SCTP (RFC 9260) is FreeBSD's in user space (usrsctp), inside UDP (RFC 6951). One end listens and
 * the other connects. One end sends and the other receives, until a time is over or a number of bytes
 * is sent. Only the sender does concurrent multipath transfer (draft-tuexen-tsvwg-sctp-multipath).
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "association.h"
#include "options.h"
#include "path.h"
#include "report.h"

/* How long after its time a receiver waits for the sender's end of the association. */
#define DONE_NS (2 * SECOND_NS)

/* Read the association's counts every interval and print them, until the time or the association is over. */
static void follow(void)
{
	int64_t end_ns = options.duration_ns ? options.duration_ns : INT64_MAX, last_ns = 0;
	uint64_t last = 0, messages;
	const char *separator = "";

	print_options();
	pthread_mutex_lock(&association.lock);
	while (last_ns < end_ns && !association.is_over) {
		int64_t next_ns = last_ns + options.interval_ns;
		uint64_t bytes;

		if (next_ns > end_ns)
			next_ns = end_ns;
		while (!association.is_over && now_ns() < association.up_ns + next_ns)
			wait_until(association.up_ns + next_ns);
		if (association.is_over)
			next_ns = now_ns() - association.up_ns;
		bytes = association.bytes;
		pthread_mutex_unlock(&association.lock);
		if (next_ns > last_ns) {
			print_interval(last_ns, next_ns, bytes - last, separator);
			separator = ",";
		}
		last = bytes;
		last_ns = next_ns;
		pthread_mutex_lock(&association.lock);
	}
	messages = association.messages;
	/* a receiver that has received everything is not waiting for data */
	if (!options.sends && (!association.is_over || association.lost))
		note_movement();
	pthread_mutex_unlock(&association.lock);
	print_end(last_ns, last, messages);
}

/* Wait for the sender's end of the association. If it is lost, end all the same. */
static void await_end(void)
{
	int64_t deadline = now_ns() + DONE_NS;

	pthread_mutex_lock(&association.lock);
	while (!association.is_over && now_ns() < deadline)
		wait_until(deadline);
	pthread_mutex_unlock(&association.lock);
}

/* On SIGTERM, end the association as the peer would, so that a report is printed. */
static void *await_signal(void *signals)
{
	int number;

	sigwait(signals, &number);
	end_association("it was told to end");
	return NULL;
}

/* Block SIGTERM in all threads that are started from now on. One thread waits for it. */
static void expect_signal(void)
{
	static sigset_t signals;
	pthread_t waiter;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	if (pthread_create(&waiter, NULL, await_signal, &signals))
		die("no thread: %s", strerror(errno));
}

int main(int count, char **words)
{
	read_options(count, words);
	prepare_association();
	expect_signal();
	associate();
	follow();
	if (options.duration_ns && options.sends)
		abort_association();
	else if (options.duration_ns)
		await_end();
	fflush(stdout);
	/* usrsctp_finish() would wait for its threads, two of which sleep until a packet comes */
	_exit(association.lost && options.bytes ? 1 : 0);
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * A library that is preloaded into bulk receivers in the virtual engine. It saves system calls that
 * change nothing, because they are most of the cost of a simulated transfer.
 *
 * Low-water mark: the receiver wakes every WAKE_NS at most instead of at every packet. The mark follows
 * the rate, between LEAST and MOST bytes. It is at most a 64th of the receive buffer, so a transfer that
 * its window limits is not affected.
 *
 * Empty reads: a read that returns less than the program asked for has emptied the socket. Simulated time
 * stands still while the program runs, so the next read would return EAGAIN. The library returns EAGAIN
 * itself, unless the program has called select(2) since.
 *
 * A socket counts as a bulk socket when its program first reads LARGE_READ bytes or more at once.
 * Control connections are therefore not affected. The kernel sends acknowledgements; they do not wait
 * for the reader.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define LARGE_READ (64 * 1024)
#define LEAST (8 * 1024)
#define MOST (128 * 1024)
#define WAKE_NS 3000000LL
/* the mark is chosen again after this many wake-ups */
#define PERIOD 32
#define MAX_FD 1024

struct bulk {
	int low_water;
	/* wake-ups and bytes since the mark was chosen, and the time of that */
	int wakes;
	long long bytes, since_ns;
	/* the number of calls of select when the socket was found empty; 0: it was not */
	unsigned long empty;
	char is_nonblocking;
};

static struct bulk sockets[MAX_FD];
/* Calls of select, plus 1. */
static unsigned long selects = 1;

static long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* Set the mark to a power of two times LEAST. */
static void choose_mark(int fd, struct bulk *bulk, long long wanted)
{
	int buffer = 0, mark = LEAST;
	socklen_t size = sizeof(buffer);

	if (wanted >= 2 * LEAST) {
		getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, &size);
		while (mark < MOST && 2 * mark <= wanted && 2 * mark <= buffer / 64)
			mark *= 2;
	}
	if (mark != bulk->low_water)
		setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &mark, sizeof(mark));
	bulk->low_water = mark;
}

static void follow_rate(int fd, struct bulk *bulk, ssize_t got)
{
	long long now, passed;

	bulk->bytes += got > 0 ? got : 0;
	if (++bulk->wakes < PERIOD)
		return;
	now = now_ns();
	passed = now - bulk->since_ns;
	if (passed > 0)
		choose_mark(fd, bulk, bulk->bytes * WAKE_NS / passed);
	bulk->wakes = 0;
	bulk->bytes = 0;
	bulk->since_ns = now;
}

ssize_t read(int fd, void *buf, size_t count)
{
	static ssize_t (*real_read)(int, void *, size_t);
	struct bulk *bulk = fd >= 0 && fd < MAX_FD ? &sockets[fd] : NULL;
	ssize_t got;

	if (!real_read)
		real_read = (ssize_t (*)(int, void *, size_t))dlsym(RTLD_NEXT, "read");
	if (!bulk || (!bulk->low_water && count < LARGE_READ))
		return real_read(fd, buf, count);
	if (bulk->empty == selects) {
		bulk->empty = 0;
		errno = EAGAIN;
		return -1;
	}
	if (!bulk->low_water) {
		bulk->since_ns = now_ns();
		bulk->is_nonblocking = (fcntl(fd, F_GETFL) & O_NONBLOCK) != 0;
		choose_mark(fd, bulk, LEAST);
	}
	got = real_read(fd, buf, count);
	follow_rate(fd, bulk, got);
	/* a program that does not use select may see another order of events */
	if (bulk->is_nonblocking && got > 0 && (size_t)got < count && selects > 1)
		bulk->empty = selects;
	return got;
}

int select(int count, fd_set *reading, fd_set *writing, fd_set *failing, struct timeval *timeout)
{
	static int (*real_select)(int, fd_set *, fd_set *, fd_set *, struct timeval *);

	if (!real_select)
		real_select = (int (*)(int, fd_set *, fd_set *, fd_set *, struct timeval *))dlsym(RTLD_NEXT, "select");
	selects++;
	return real_select(count, reading, writing, failing, timeout);
}

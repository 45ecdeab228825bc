// SPDX-License-Identifier: GPL-2.0-only
/*
 * A library that is preloaded into bulk receivers in the virtual engine. It wakes them every LOW_WATER
 * bytes instead of at every packet, because these wake-ups are most of the cost of a simulated
 * transfer.
 *
 * A socket counts as a bulk socket when its program first reads LARGE_READ bytes or more at once.
 * Control connections are therefore not affected. The kernel sends acknowledgements; they do not wait
 * for the reader.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/socket.h>
#include <unistd.h>

#define LARGE_READ (64 * 1024)
#define LOW_WATER (8 * 1024)
#define MAX_FD 1024

static ssize_t (*real_read)(int, void *, size_t);
static unsigned char seen[MAX_FD];

static void mark(int fd, size_t count)
{
	int low_water = LOW_WATER;

	if (count < LARGE_READ || fd < 0 || fd >= MAX_FD || seen[fd])
		return;
	seen[fd] = 1;
	setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &low_water, sizeof(low_water));
}

ssize_t read(int fd, void *buf, size_t count)
{
	if (!real_read)
		real_read = (ssize_t (*)(int, void *, size_t))dlsym(RTLD_NEXT, "read");
	mark(fd, count);
	return real_read(fd, buf, count);
}

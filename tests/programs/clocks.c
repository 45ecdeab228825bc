// SPDX-License-Identifier: Apache-2.0
/*
 * Check the clocks that the vDSO reads against those that system calls read. Print a line for each check.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STEP_NS 256LL
#define ROUNDS 1000

static long long ns_of(struct timespec time)
{
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static long long by_vdso(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return ns_of(time);
}

static long long by_call(clockid_t clock)
{
	struct timespec time;

	syscall(SYS_clock_gettime, clock, &time);
	return ns_of(time);
}

static void report(const char *name, int is_right)
{
	printf("%s: %s\n", name, is_right ? "right" : "wrong");
	fflush(stdout);
}

/* Each reading, of either kind, comes one step after the last one. */
static int advances(clockid_t clock)
{
	long long last = by_vdso(clock);
	int is_right = 1;

	/* the first reading maps the page */
	last = by_call(clock);
	/* few enough not to count as polling */
	for (int i = 0; i < 100; i++) {
		long long now = i % 7 ? by_vdso(clock) : by_call(clock);

		is_right &= now - last == STEP_NS;
		last = now;
	}
	usleep(10);
	return is_right;
}

/* Readings never go back, in a loop that does nothing else, and across processes. */
static int never_goes_back(void)
{
	long long last = by_vdso(CLOCK_MONOTONIC), now;
	int channel[2], status, is_right = 1;
	pid_t child;

	for (int i = 0; i < ROUNDS; i++, last = now)
		is_right &= (now = by_vdso(CLOCK_MONOTONIC)) > last;
	if (pipe(channel))
		return 0;
	child = fork();
	if (!child) {
		long long told;

		while (read(channel[0], &told, sizeof(told)) == sizeof(told) && told)
			if (by_vdso(CLOCK_MONOTONIC) <= told)
				_exit(1);
		_exit(0);
	}
	for (int i = 0; i <= ROUNDS; i++) {
		now = i < ROUNDS ? by_vdso(CLOCK_MONOTONIC) : 0;
		if (write(channel[1], &now, sizeof(now)) != sizeof(now))
			is_right = 0;
	}
	waitpid(child, &status, 0);
	return is_right && !status;
}

/* A sleep between two readings is as long as asked. */
static int sleeps(void)
{
	long long began = by_vdso(CLOCK_MONOTONIC), passed;
	struct timespec pause = { 0, 5000000 };

	nanosleep(&pause, NULL);
	passed = by_vdso(CLOCK_MONOTONIC) - began;
	return passed >= 5000000 && passed < 5100000;
}

static int others(void)
{
	struct timeval now;
	long long real = by_call(CLOCK_REALTIME);

	gettimeofday(&now, NULL);
	return now.tv_sec * 1000000LL + now.tv_usec - real / 1000 <= 1 && time(NULL) == syscall(SYS_time, NULL) &&
	       by_vdso(CLOCK_REALTIME_COARSE) == by_call(CLOCK_REALTIME_COARSE) &&
	       by_vdso(CLOCK_MONOTONIC_COARSE) == by_call(CLOCK_MONOTONIC_COARSE);
}

int main(void)
{
	report("CLOCK_REALTIME", advances(CLOCK_REALTIME));
	report("CLOCK_MONOTONIC", advances(CLOCK_MONOTONIC));
	report("CLOCK_MONOTONIC_RAW", advances(CLOCK_MONOTONIC_RAW));
	report("CLOCK_BOOTTIME", advances(CLOCK_BOOTTIME));
	report("order", never_goes_back());
	report("sleep", sleeps());
	report("other clocks", others());
	return 0;
}

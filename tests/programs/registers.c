// SPDX-License-Identifier: Apache-2.0
/*
 * Check that the vector registers of a thread survive whatever stops it: system calls, faults, signals,
 * other threads, fork and exec. Print a line for each check, and "wrong" if a register changed.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 300

/* Set xmm8 to xmm15 to `value`, make a system call (no call if `number` is negative), read `touched`, and
 * return true if the registers still have the value. */
static int kept(uint64_t value, long number, long first, long second, long third, const volatile char *touched)
{
	uint64_t low, other;
	register long rdx asm("rdx") = third;
	long result = number;

	asm volatile("movq %[value], %%xmm8\n\tmovq %[value], %%xmm15\n\t"
		     "test %%rax, %%rax\n\tjs 1f\n\tsyscall\n1:\t"
		     "movb (%[touched]), %%cl\n\t"
		     "movq %%xmm8, %[low]\n\tmovq %%xmm15, %[other]\n\t"
		     : "+a"(result), [low] "=&r"(low), [other] "=&r"(other)
		     : [value] "r"(value), "D"(first), "S"(second), "r"(rdx), [touched] "r"(touched)
		     : "rcx", "r11", "memory", "cc", "xmm8", "xmm15");
	return low == value && other == value;
}

/* Make a system call between an instruction that sets a register and one that reads it. */
#define ACROSS(set, call, read) \
	asm volatile(set "\n\tsyscall\n\t" read \
		     : "+a"(call), [now] "=m"(now) : [before] "m"(before), "D"(getpid()), "S"(SIGUSR1) \
		     : "rcx", "r11", "memory", "cc", "xmm9")

/* Check the same of a whole register of the widest kind that the processor has, while a signal is handled. */
static int is_wide_kept(int seed)
{
	unsigned char before[64], now[64];
	size_t width = __builtin_cpu_supports("avx512f") ? 64 : __builtin_cpu_supports("avx") ? 32 : 16;
	long number = SYS_kill;

	for (int i = 0; i < 64; i++)
		before[i] = seed + i;
	if (width == 64)
		ACROSS("vmovdqu64 %[before], %%zmm17", number, "vmovdqu64 %%zmm17, %[now]");
	else if (width == 32)
		ACROSS("vmovdqu %[before], %%ymm9", number, "vmovdqu %%ymm9, %[now]");
	else
		ACROSS("movdqu %[before], %%xmm9", number, "movdqu %%xmm9, %[now]");
	return !memcmp(before, now, width);
}

static void overwrite(void)
{
	uint64_t other = 0xdead;

	asm volatile("movq %0, %%xmm8\n\tmovq %0, %%xmm9\n\tmovq %0, %%xmm15" : : "r"(other) : "xmm8", "xmm9", "xmm15");
	if (__builtin_cpu_supports("avx"))
		asm volatile("vpxor %%ymm9, %%ymm9, %%ymm9" : : : "xmm9");
	if (__builtin_cpu_supports("avx512f"))
		asm volatile("vpxorq %%zmm17, %%zmm17, %%zmm17" : :);
}

static volatile int handled;

static void handle(int signal)
{
	overwrite();
	getppid();
	overwrite();
	handled += signal != 0;
}

static void report(const char *name, int is_right)
{
	printf("%s: %s\n", name, is_right ? "right" : "wrong");
	fflush(stdout);
}

static char page[1];

static void *in_turn(void *argument)
{
	uint64_t value = (uint64_t)(uintptr_t)argument;
	struct timespec moment = { 0, 50000 };
	long is_right = 1;

	for (int i = 0; i < ROUNDS; i++) {
		is_right &= kept(value + i, SYS_nanosleep, (long)&moment, 0, 0, page);
		is_right &= kept(value - i, SYS_sched_yield, 0, 0, 0, page);
	}
	return (void *)is_right;
}

static int threads(void)
{
	pthread_t all[4];
	long is_right = 1;

	for (long i = 0; i < 4; i++)
		pthread_create(&all[i], NULL, in_turn, (void *)((i + 1) * 0x1000000));
	for (int i = 0; i < 4; i++) {
		void *result;

		pthread_join(all[i], &result);
		is_right &= (long)result;
	}
	return is_right;
}

static int faults(void)
{
	char *fresh = mmap(NULL, ROUNDS * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int is_right = 1;

	for (int i = 0; i < ROUNDS; i++)
		is_right &= kept(i + 77, -1, 0, 0, 0, fresh + i * 4096);
	return is_right;
}

static int signals(void)
{
	int is_right = 1;

	signal(SIGUSR1, handle);
	for (int i = 0; i < ROUNDS; i++)
		is_right &= kept(i + 99, SYS_kill, getpid(), SIGUSR1, 0, page);
	return is_right && handled == ROUNDS;
}

static int wide_registers(void)
{
	int is_right = 1;

	for (int i = 0; i < ROUNDS; i++)
		is_right &= is_wide_kept(i);
	return is_right && handled == 2 * ROUNDS;
}

/* The child of fork has the parent's registers, and each changes only its own. */
static int forks(void)
{
	int is_right = 1, status;

	for (int i = 0; i < 20; i++) {
		uint64_t value = i + 5000, low;
		long pid = SYS_fork;

		asm volatile("movq %[value], %%xmm8\n\tsyscall\n\tmovq %%xmm8, %[low]"
			     : "+a"(pid), [low] "=r"(low) : [value] "r"(value)
			     : "rcx", "r11", "memory", "cc", "xmm8");
		if (!pid) {
			overwrite();
			_exit(low != value);
		}
		is_right &= low == value;
		is_right &= kept(value, SYS_wait4, pid, (long)&status, 0, page) && !status;
	}
	return is_right;
}

/* A child that shares the memory until it starts another program (vfork) leaves the parent's registers alone. */
static int starts(char *self)
{
	int is_right = 1;

	for (int i = 0; i < 20; i++) {
		char *words[] = { self, "child", NULL };
		int status;
		pid_t pid = vfork();

		if (!pid) {
			overwrite();
			execv(self, words);
			_exit(1);
		}
		is_right &= kept(i + 31, SYS_wait4, pid, (long)&status, 0, page) && !status;
	}
	return is_right;
}

int main(int count, char **words)
{
	if (count > 1)
		return !in_turn((void *)0x77000000);
	report("system calls", in_turn((void *)0x5000000) != NULL);
	report("threads", threads());
	report("faults", faults());
	report("signals", signals());
	report("wide registers", wide_registers());
	report("fork", forks());
	report("exec", starts("/proc/self/exe"));
	return 0;
}

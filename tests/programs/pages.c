// SPDX-License-Identifier: Apache-2.0
/*
 * Check that each write to memory has its effect on its own page only. Print a line for each check.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGES 1024
#define PAGE 4096L

static void report(const char *name, int is_right)
{
	printf("%s: %s\n", name, is_right ? "right" : "wrong");
	fflush(stdout);
}

static char *map(int flags, int file)
{
	char *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, flags, file, 0);

	if (memory == MAP_FAILED)
		abort();
	return memory;
}

/* Write the number of each page, plus `added`, to the end of the page. */
static void fill(char *memory, int added)
{
	for (int page = 0; page < PAGES; page++)
		*(int *)(memory + (page + 1) * PAGE - sizeof(int)) = page + added;
}

static int is_filled(const char *memory, int added)
{
	for (int page = 0; page < PAGES; page++)
		if (memory[page * PAGE] || *(const int *)(memory + (page + 1) * PAGE - sizeof(int)) != page + added)
			return 0;
	return 1;
}

static int is_zero(const char *memory)
{
	for (long at = 0; at < PAGES * PAGE; at++)
		if (memory[at])
			return 0;
	return 1;
}

/* Return the signal that ends a process when it writes to an address; 0 for none. */
static int signal_of_write(char *address)
{
	int status;

	if (fork() == 0) {
		*(volatile char *)address = 1;
		_exit(0);
	}
	wait(&status);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static int exit_of(int (*check)(char *), char *memory)
{
	int status;

	if (fork() == 0)
		_exit(check(memory));
	wait(&status);
	return WEXITSTATUS(status);
}

static int fill_in_child(char *memory)
{
	int was = is_filled(memory, 0);

	fill(memory, 7);
	return was && is_filled(memory, 7);
}

static void check_file(void)
{
	FILE *file = tmpfile();
	char *private_pages, *shared_pages, letter;

	if (!file || ftruncate(fileno(file), (PAGES - 3) * PAGE))
		abort();
	private_pages = map(MAP_PRIVATE, fileno(file));
	shared_pages = map(MAP_SHARED, fileno(file));
	private_pages[5 * PAGE] = 'p';
	letter = private_pages[6 * PAGE] | shared_pages[5 * PAGE];
	report("private file", letter == 0 && pread(fileno(file), &letter, 1, 5 * PAGE) == 1 && letter == 0);
	shared_pages[6 * PAGE] = 's';
	report("shared file", pread(fileno(file), &letter, 1, 6 * PAGE) == 1 && letter == 's');
	private_pages[(PAGES - 4) * PAGE] = 'p';
	report("end of a file", signal_of_write(private_pages + (PAGES - 3) * PAGE) == SIGBUS);
}

int main(void)
{
	char *own = map(MAP_PRIVATE | MAP_ANONYMOUS, -1), *shared = map(MAP_SHARED | MAP_ANONYMOUS, -1);

	own[PAGE] = 1;
	own[PAGE] = 0;
	report("fresh memory", is_zero(own));
	fill(own, 0);
	report("own memory", is_filled(own, 0));
	report("fork", exit_of(fill_in_child, own) == 1 && is_filled(own, 0));
	fill(shared, 0);
	report("shared memory", exit_of(fill_in_child, shared) == 1 && is_filled(shared, 7));
	mprotect(own + 3 * PAGE, PAGE, PROT_READ);
	mprotect(own + 4 * PAGE, PAGE, PROT_NONE);
	madvise(own, PAGES * PAGE, MADV_DONTNEED);
	own[2 * PAGE] = 1;
	report("protected memory", signal_of_write(own + 3 * PAGE) == SIGSEGV && signal_of_write(own + 4 * PAGE) == SIGSEGV);
	report("returned memory", own[5 * PAGE] == 0 && own[3 * PAGE] == 0);
	check_file();
	return 0;
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * First process of the experiment kernel: makes the file tree that a run sees, starts the agent, reaps
 * orphans and powers off. It is static and starts no shell, because every process is expensive here.
 *
 * The root is the host's, read-only. The environment variable MPRUN_BOOT names a file of lines, whose
 * fields are separated by tabs:
 *
 *   hide PATH           an empty directory instead of the host's
 *   show HOST INSIDE    the host's directory HOST at INSIDE (made if it is missing), read-only
 *   open HOST INSIDE    the same, writable
 *   live HOST INSIDE    the same, read-only, but changes on the host show (mprun_hostfs.c)
 *   env NAME=VALUE      environment of the agent (it has no other)
 *   arg WORD            next word of the agent's command line
 *   cwd PATH            the agent's working directory
 *   log PATH            the file for the agent's output, instead of the console
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_WORDS 256

static char *args[MAX_WORDS + 1], *envs[MAX_WORDS + 1];
static const char *log_path;

static void power_off(void)
{
	sync();
	reboot(RB_POWER_OFF);
}

static void fail(const char *attempt, const char *what)
{
	fprintf(stderr, "mprun-init: %s %s: %s\n", attempt, what, strerror(errno));
	power_off();
	_exit(1);
}

static void mount_or_fail(const char *source, const char *at, const char *type, unsigned long flags,
			  const char *data)
{
	if (mount(source, at, type, MS_NOSUID | flags, data))
		fail("mount", at);
}

static void make_directories(const char *path)
{
	char partial[4096];
	size_t i;

	for (i = 0; path[i] && i < sizeof(partial) - 1; i++) {
		if (path[i] == '/' && i) {
			partial[i] = 0;
			mkdir(partial, 0755);
		}
		partial[i] = path[i];
	}
	partial[i] = 0;
	mkdir(partial, 0755);
}

static void make_device(const char *path, mode_t mode, unsigned int major, unsigned int minor)
{
	if (mknod(path, S_IFCHR | mode, makedev(major, minor)))
		fail("make", path);
	chmod(path, mode);
}

/*
 * The sizes of the file systems in memory leave a sixth of it to programs. If a program fills a file
 * system, it gets an error and the run continues.
 */
static void make_tree(void)
{
	umask(0);
	mount_or_fail("proc", "/proc", "proc", 0, NULL);
	mount_or_fail("sysfs", "/sys", "sysfs", 0, NULL);
	mount_or_fail("dev", "/dev", "tmpfs", 0, "mode=755,size=1%");
	make_device("/dev/null", 0666, 1, 3);
	make_device("/dev/zero", 0666, 1, 5);
	make_device("/dev/full", 0666, 1, 7);
	make_device("/dev/random", 0666, 1, 8);
	make_device("/dev/urandom", 0666, 1, 9);
	make_device("/dev/tty", 0666, 5, 0);
	make_device("/dev/console", 0600, 5, 1);
	mkdir("/dev/net", 0755);
	make_device("/dev/net/tun", 0666, 10, 200);
	mkdir("/dev/pts", 0755);
	mount_or_fail("devpts", "/dev/pts", "devpts", 0, "ptmxmode=666");
	if (symlink("pts/ptmx", "/dev/ptmx") || symlink("/proc/self/fd", "/dev/fd"))
		fail("link", "/dev");
	mkdir("/dev/shm", 01777);
	mount_or_fail("shm", "/dev/shm", "tmpfs", 0, "mode=1777,size=20%");
	mount_or_fail("tmp", "/tmp", "tmpfs", 0, "mode=1777,size=50%");
	mount_or_fail("run", "/run", "tmpfs", 0, "mode=755,size=10%");
	umask(022);
}

static char *next_field(char **rest)
{
	char *field = strsep(rest, "\t");

	if (!field || !*rest)
		fail("read", "a line of the boot file");
	return field;
}

static void obey(char *line, int *n_args, int *n_envs)
{
	char *rest = line, *verb = next_field(&rest);

	if (!strcmp(verb, "hide")) {
		make_directories(rest);
		mount_or_fail("hidden", rest, "tmpfs", 0, "mode=755,size=1%");
	} else if (!strcmp(verb, "show") || !strcmp(verb, "open") || !strcmp(verb, "live")) {
		char *host = next_field(&rest);
		unsigned long flags = *verb == 'o' ? 0 : MS_RDONLY;

		make_directories(rest);
		mount_or_fail("none", rest, "hostfs", *verb == 'l' ? flags | MS_SYNCHRONOUS : flags, host);
	} else if (!strcmp(verb, "cwd")) {
		if (chdir(rest))
			fail("enter", rest);
	} else if (!strcmp(verb, "log")) {
		log_path = strdup(rest);
	} else if (!strcmp(verb, "arg") && *n_args < MAX_WORDS) {
		args[(*n_args)++] = strdup(rest);
	} else if (!strcmp(verb, "env") && *n_envs < MAX_WORDS) {
		envs[(*n_envs)++] = strdup(rest);
	} else {
		errno = EINVAL;
		fail("obey", verb);
	}
}

/* From here on the host's files cannot be changed (mprun_seal.c). */
static void seal(void)
{
	int fd = open("/proc/mprun_seal", O_WRONLY);

	if (fd < 0 || write(fd, "1", 1) != 1)
		fail("seal", "the host's files");
	close(fd);
}

int main(void)
{
	const char *boot = getenv("MPRUN_BOOT");
	int n_args = 0, n_envs = 0, status;
	char *text, *rest, *line;
	ssize_t size;
	struct stat st;
	pid_t agent, ended;
	int fd;

	/* read the whole file before anything is mounted over it */
	fd = boot ? open(boot, O_RDONLY) : -1;
	if (fd < 0 || fstat(fd, &st))
		fail("open", boot ? boot : "MPRUN_BOOT");
	text = calloc(1, st.st_size + 1);
	size = read(fd, text, st.st_size);
	if (size != st.st_size)
		fail("read", boot);
	close(fd);

	make_tree();
	for (rest = text; (line = strsep(&rest, "\n"));)
		if (*line)
			obey(line, &n_args, &n_envs);

	seal();
	agent = fork();
	if (agent == 0) {
		setsid();
		if (log_path) {
			fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND, 0644);
			if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0)
				fail("log to", log_path);
			close(fd);
		} else {
			ioctl(0, TIOCSCTTY, 1);
		}
		execve(args[0], args, envs);
		fail("start", args[0]);
	}
	while ((ended = wait(&status)) != agent)
		if (ended < 0 && errno != EINTR)
			break;
	power_off();
	return 0;
}

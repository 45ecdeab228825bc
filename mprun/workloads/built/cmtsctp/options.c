// SPDX-License-Identifier: Apache-2.0
/* The command line: getopt_long(3). */
#include "options.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "path.h"

/* DATA chunk header, common header, UDP header (RFC 9260, RFC 6951). */
#define HEADERS (16 + 12 + 8)

const char *const cmt_names[] = {"off", "cmt", "rpv1", "rpv2", "mptcp", NULL};
const char *const splitting_names[] = {"off", "send", "receive", "both", NULL};

struct options options = {.port = 5201, .udp_port = 9899, .interval_ns = SECOND_NS / 10};

void die(const char *format, ...)
{
	va_list arguments;

	fflush(stdout);
	fputs("cmtsctp: ", stderr);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	_exit(1);
}

size_t default_message(void)
{
	/* the payload that fits into a packet of 1500 bytes, rounded down to the unit of SCTP's padding */
	return (1500 - (paths[0].remote.any.sa_family == AF_INET ? 20 : 40) - HEADERS) & ~3;
}

static int choice(const char *text, const char *const *names, const char *option)
{
	for (int i = 0; names[i]; i++)
		if (!strcmp(text, names[i]))
			return i;
	die("--%s: no '%s'", option, text);
}

static double number(const char *text, const char *option, double most)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value > 0) || value > most)
		die("--%s: '%s' is not a number above 0, of %.0f at the most", option, text, most);
	return value;
}

void read_options(int count, char **words)
{
	enum { LISTEN = 256, CONNECT, SEND, RECEIVE, PATH, PORT, UDP_PORT, DURATION, BYTES, INTERVAL, CMT, SPLITTING,
	       UNORDERED, MESSAGE, SEND_BUFFER, RECEIVE_BUFFER, RTO_MIN, SAY_VERSION };
	static const struct option known[] = {
		{"listen", 0, NULL, LISTEN}, {"connect", 0, NULL, CONNECT}, {"send", 0, NULL, SEND},
		{"receive", 0, NULL, RECEIVE}, {"path", 1, NULL, PATH}, {"port", 1, NULL, PORT},
		{"udp-port", 1, NULL, UDP_PORT}, {"duration", 1, NULL, DURATION}, {"bytes", 1, NULL, BYTES},
		{"interval", 1, NULL, INTERVAL}, {"cmt", 1, NULL, CMT}, {"buffer-splitting", 1, NULL, SPLITTING},
		{"unordered", 0, NULL, UNORDERED}, {"message", 1, NULL, MESSAGE}, {"send-buffer", 1, NULL, SEND_BUFFER},
		{"receive-buffer", 1, NULL, RECEIVE_BUFFER}, {"rto-min-ms", 1, NULL, RTO_MIN},
		{"version", 0, NULL, SAY_VERSION}, {NULL, 0, NULL, 0}};
	const char *path_texts[MOST_PATHS], *fault;
	int letter, texts = 0, connects = 0, receives = 0, which;

	while ((letter = getopt_long(count, words, "", known, &which)) >= 0) {
		const char *name = letter == '?' ? "" : known[which].name;

		switch (letter) {
		case LISTEN: options.listens = 1; break;
		case CONNECT: connects = 1; break;
		case SEND: options.sends = 1; break;
		case RECEIVE: receives = 1; break;
		case PATH:
			if (texts == MOST_PATHS)
				die("--path: %d at the most", MOST_PATHS);
			path_texts[texts++] = optarg;
			break;
		case PORT: options.port = number(optarg, name, 65535); break;
		case UDP_PORT: options.udp_port = number(optarg, name, 65535); break;
		case DURATION: options.duration_ns = number(optarg, name, 1e6) * SECOND_NS; break;
		case BYTES: options.bytes = number(optarg, name, 1e15); break;
		case INTERVAL: options.interval_ns = number(optarg, name, 1e6) * SECOND_NS; break;
		case CMT: options.cmt = choice(optarg, cmt_names, name); break;
		case SPLITTING: options.splitting = choice(optarg, splitting_names, name); break;
		case UNORDERED: options.unordered = 1; break;
		case MESSAGE: options.message = number(optarg, name, MOST_MESSAGE); break;
		case SEND_BUFFER: options.send_buffer = number(optarg, name, 1 << 30); break;
		case RECEIVE_BUFFER: options.receive_buffer = number(optarg, name, 1 << 30); break;
		case RTO_MIN: options.rto_min_ms = number(optarg, name, 60000); break;
		case SAY_VERSION:
			puts(VERSION);
			exit(0);
		default: _exit(2);
		}
	}
	if (optind < count)
		die("'%s' is no option", words[optind]);
	if (options.listens + connects != 1 || options.sends + receives != 1 || !texts)
		die("give --listen or --connect, --send or --receive, and a --path LOCAL,REMOTE");
	if (!!options.duration_ns + !!options.bytes != 1)
		die("give --duration SECONDS or --bytes NUMBER");
	for (int i = 0; i < texts; i++)
		if ((fault = path_add(path_texts[i], options.port)))
			die("--path %s: %s", path_texts[i], fault);
	if (!options.message)
		options.message = default_message();
}


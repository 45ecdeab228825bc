// SPDX-License-Identifier: Apache-2.0
/* The options of the command line. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#define SECOND_NS 1000000000LL
#define MOST_MESSAGE 65535

struct options {
	int listens, sends, unordered;
	/* numbers of usrsctp: SCTP_CMT_OFF and so on, and the bits of buffer splitting */
	int cmt, splitting;
	/* udp_port: of both ends, for the encapsulation (RFC 6951) */
	uint16_t port, udp_port;
	/* in bytes; 0: usrsctp's default */
	int send_buffer, receive_buffer;
	size_t message;
	/* 0: usrsctp's default */
	uint32_t rto_min_ms;
	/* exactly one of duration and bytes is 0 */
	int64_t duration_ns, interval_ns;
	uint64_t bytes;
};

extern struct options options;
extern const char *const cmt_names[], *const splitting_names[];

/* Ends the program if the options are invalid. */
void read_options(int count, char **words);
/* Return the payload that fits into a packet of 1500 bytes with its headers. */
size_t default_message(void);
/* Ends the program with a message in the format of printf(3), and status 1. */
void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif

// SPDX-License-Identifier: Apache-2.0
/*
 * usrsctp's threads do the work. Its receiving thread calls two functions: one takes messages, the
 * other fills the send buffer when there is room. A timer thread runs every 10 ms. All threads sleep
 * until they are woken. Nothing polls, because polling would hold up simulated time.
 */
#include "association.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "options.h"
#include "path.h"

/* The longest time for an association to come up. */
#define UP_NS (60 * SECOND_NS)

struct association association = {.lock = PTHREAD_MUTEX_INITIALIZER};

static atomic_int has_sent_all;

int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * SECOND_NS + now.tv_nsec;
}

void wait_until(int64_t moment_ns)
{
	struct timespec moment = {moment_ns / SECOND_NS, moment_ns % SECOND_NS};

	pthread_cond_timedwait(&association.changed, &association.lock, &moment);
}

static void set(int level, int name, const void *value, socklen_t size, const char *what)
{
	if (usrsctp_setsockopt(association.socket, level, name, value, size) < 0)
		die("cannot set %s: %s", what, strerror(errno));
}

/* Notifications of usrsctp. */

static void note_change(const struct sctp_assoc_change *change)
{
	switch (change->sac_state) {
	case SCTP_COMM_UP:
		if (association.is_up)
			break;
		association.is_up = 1;
		association.id = change->sac_assoc_id;
		association.up_ns = association.moved_ns = now_ns();
		break;
	case SCTP_COMM_LOST:
		/* a sender whose time is over ends with an ABORT */
		association.lost = "the association was lost";
		association.is_over = 1;
		break;
	case SCTP_CANT_STR_ASSOC:
		association.lost = "the association could not be set up";
		association.is_over = 1;
		break;
	case SCTP_SHUTDOWN_COMP:
		association.is_over = 1;
		break;
	}
	pthread_cond_broadcast(&association.changed);
}

/* A path other than the first was confirmed. */
static void note_path(const struct sctp_paddr_change *change)
{
	struct path *path = path_find((const struct sockaddr *)&change->spc_aaddr);

	if (path && change->spc_state == SCTP_ADDR_CONFIRMED && !path->confirmed_ns)
		path->confirmed_ns = now_ns();
}

void note_movement(void)
{
	int64_t now = now_ns();

	if (now - association.moved_ns >= STANDSTILL_NS && association.standstills < MOST_STANDSTILLS)
		association.standstill[association.standstills++] = (struct standstill){association.moved_ns, now};
	association.moved_ns = now;
}

static int receive(struct socket *socket, union sctp_sockstore from, void *data, size_t size, struct sctp_rcvinfo info,
		   int flags, void *unused)
{
	(void)socket, (void)from, (void)info, (void)unused;
	if (!data)
		return 1;
	pthread_mutex_lock(&association.lock);
	if (flags & MSG_NOTIFICATION) {
		const union sctp_notification *note = data;

		if (note->sn_header.sn_type == SCTP_ASSOC_CHANGE)
			note_change(&note->sn_assoc_change);
		else if (note->sn_header.sn_type == SCTP_PEER_ADDR_CHANGE)
			note_path(&note->sn_paddr_change);
	} else if (!options.sends) {
		association.bytes += size;
		association.messages += !!(flags & MSG_EOR);
		note_movement();
	}
	pthread_mutex_unlock(&association.lock);
	free(data);
	return 1;
}

/* Sending. */

/*
 * Fill the send buffer. usrsctp calls this function whenever an acknowledgement has made room in the
 * buffer, and this program calls it once at the start. If two threads call it at the same time, one of
 * them fills for both.
 */
static int fill(struct socket *socket, uint32_t room, void *unused)
{
	static pthread_mutex_t filling = PTHREAD_MUTEX_INITIALIZER;
	static const char message[MOST_MESSAGE];
	uint16_t order = options.unordered ? SCTP_UNORDERED : 0;
	struct sctp_sndinfo info = {.snd_flags = order, .snd_assoc_id = association.id};
	uint64_t sent = 0, count = 0, before;

	(void)room, (void)unused;
	if (!association.is_up || pthread_mutex_trylock(&filling))
		return 1;
	pthread_mutex_lock(&association.lock);
	before = association.bytes;
	pthread_mutex_unlock(&association.lock);
	while (!has_sent_all) {
		size_t size = options.message;

		if (options.bytes && options.bytes - before - sent < size)
			size = options.bytes - before - sent;
		if (usrsctp_sendv(socket, message, size, NULL, 0, &info, sizeof(info), SCTP_SENDV_SNDINFO, 0) < 0)
			break;
		sent += size;
		count++;
		has_sent_all = options.bytes == before + sent;
		if (!has_sent_all)
			continue;
		info.snd_flags = SCTP_EOF;
		usrsctp_sendv(socket, "", 0, NULL, 0, &info, sizeof(info), SCTP_SENDV_SNDINFO, 0);
	}
	pthread_mutex_lock(&association.lock);
	association.bytes += sent;
	association.messages += count;
	pthread_mutex_unlock(&association.lock);
	pthread_mutex_unlock(&filling);
	return 1;
}

/* Setting up. */

/*
 * The library's receiver records arrivals in a map of 4096 bits (SCTP_MAPPING_ARRAY, in bytes). The
 * map begins a few bytes before the first missing chunk. The receiver drops chunks beyond the map,
 * which the sender considers lost on all its paths. Therefore no more than this number of chunks may
 * be in flight.
 */
enum { MOST_CHUNKS = 4096 - 64 };

static size_t smallest(size_t a, size_t b)
{
	return a < b ? a : b;
}

/*
 * Buffers count bytes, so no limit on chunks may be reached before them. The default is 512 chunks in
 * each direction.
 */
static uint32_t most_chunks(void)
{
	size_t most = options.send_buffer > options.receive_buffer ? options.send_buffer : options.receive_buffer;
	size_t chunks = most / smallest(options.message, default_message() / 2) + 1;

	return chunks > 512 ? chunks : 512;
}

/* Return the mean payload of a chunk. A message is split if it is longer than a packet. */
static size_t chunk_bytes(void)
{
	size_t most = default_message();

	return options.message / ((options.message + most - 1) / most);
}

static void configure_library(void)
{
	usrsctp_init(options.udp_port, NULL, NULL);
	usrsctp_sysctl_set_sctp_cmt_on_off(options.cmt);
	usrsctp_sysctl_set_sctp_buffer_splitting(options.splitting);
	if (!options.send_buffer)
		options.send_buffer = usrsctp_sysctl_get_sctp_sendspace();
	options.send_buffer = smallest(options.send_buffer, MOST_CHUNKS * chunk_bytes());
	usrsctp_sysctl_set_sctp_sendspace(options.send_buffer);
	if (options.receive_buffer)
		usrsctp_sysctl_set_sctp_recvspace(options.receive_buffer);
	else
		options.receive_buffer = usrsctp_sysctl_get_sctp_recvspace();
	usrsctp_sysctl_set_sctp_max_chunks_on_queue(most_chunks());
	if (options.rto_min_ms)
		usrsctp_sysctl_set_sctp_rto_min_default(options.rto_min_ms);
	/* the addresses are those of the paths, whatever other addresses the host has */
	usrsctp_sysctl_set_sctp_auto_asconf(0);
}

static void open_socket(void)
{
	char addresses[sizeof(union address) * MOST_PATHS];
	int family = paths[0].local.any.sa_family;
	struct sctp_event event = {SCTP_ALL_ASSOC, SCTP_ASSOC_CHANGE, 1};
	struct sctp_event path_event = {SCTP_ALL_ASSOC, SCTP_PEER_ADDR_CHANGE, 1};
	struct sctp_udpencaps encapsulation = {0};
	int count;

	association.socket = usrsctp_socket(family, SOCK_SEQPACKET, IPPROTO_SCTP, receive, options.sends ? fill : NULL,
					    options.message, NULL);
	if (!association.socket)
		die("no socket: %s", strerror(errno));
	usrsctp_set_non_blocking(association.socket, 1);
	encapsulation.sue_address.ss_family = family;
	encapsulation.sue_port = htons(options.udp_port);
	set(IPPROTO_SCTP, SCTP_REMOTE_UDP_ENCAPS_PORT, &encapsulation, sizeof(encapsulation), "the UDP port");
	set(IPPROTO_SCTP, SCTP_EVENT, &event, sizeof(event), "the events");
	set(IPPROTO_SCTP, SCTP_EVENT, &path_event, sizeof(path_event), "the events of paths");
	set(SOL_SOCKET, SO_SNDBUF, &options.send_buffer, sizeof(int), "the send buffer");
	set(SOL_SOCKET, SO_RCVBUF, &options.receive_buffer, sizeof(int), "the receive buffer");
	count = path_locals(addresses);
	if (usrsctp_bindx(association.socket, (struct sockaddr *)addresses, count, SCTP_BINDX_ADD_ADDR) < 0)
		die("cannot bind to its addresses: %s", strerror(errno));
}

static void listen_or_connect(void)
{
	char addresses[sizeof(union address) * MOST_PATHS];

	if (options.listens) {
		if (usrsctp_listen(association.socket, 1) < 0)
			die("cannot listen: %s", strerror(errno));
		fputs("listening\n", stderr);
		return;
	}
	int count = path_remotes(addresses);

	if (usrsctp_connectx(association.socket, (struct sockaddr *)addresses, count, NULL) < 0 && errno != EINPROGRESS)
		die("cannot connect: %s", strerror(errno));
}

static void await_association(void)
{
	int64_t deadline = now_ns() + UP_NS;

	pthread_mutex_lock(&association.lock);
	while (!association.is_up && !association.is_over) {
		if (options.listens)
			pthread_cond_wait(&association.changed, &association.lock);
		else if (now_ns() < deadline)
			wait_until(deadline);
		else
			die("no association after %lld s", UP_NS / SECOND_NS);
	}
	pthread_mutex_unlock(&association.lock);
	if (!association.is_up)
		die("%s", association.lost ? association.lost : "the association was over at once");
}

void prepare_association(void)
{
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&association.changed, &monotonic);
	association.standstill = malloc(MOST_STANDSTILLS * sizeof(*association.standstill));
	if (!association.standstill)
		die("no memory");
}

void associate(void)
{
	configure_library();
	open_socket();
	listen_or_connect();
	await_association();
	if (options.sends)
		fill(association.socket, 0, NULL);
}

void end_association(const char *why)
{
	pthread_mutex_lock(&association.lock);
	association.lost = why;
	association.is_over = 1;
	pthread_cond_broadcast(&association.changed);
	pthread_mutex_unlock(&association.lock);
}

void abort_association(void)
{
	struct sctp_sndinfo info = {.snd_flags = SCTP_ABORT, .snd_assoc_id = association.id};

	usrsctp_sendv(association.socket, "", 0, NULL, 0, &info, sizeof(info), SCTP_SENDV_SNDINFO, 0);
}

// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include <stdio.h>
#include <string.h>

#include "association.h"
#include "options.h"
#include "path.h"

static const char *name_state(int32_t value)
{
	return value & SCTP_UNCONFIRMED ? "unconfirmed" : value & SCTP_ACTIVE ? "active" : "inactive";
}

static void print_path(struct path *path, const char *separator)
{
	struct sctp_paddrinfo info = {0};
	socklen_t size = sizeof(info);
	struct counts counts = path_counts(path);
	char local[INET6_ADDRSTRLEN], remote[INET6_ADDRSTRLEN];

	memcpy(&info.spinfo_address, &path->remote, sizeof(path->remote));
	printf("%s\n   {\"local\": \"%s\", \"remote\": \"%s\", \"bytes\": %llu, \"packets\": %llu, \"resent\": %llu, "
	       "\"resent_bytes\": %llu", separator,
	       path_text(&path->local, local), path_text(&path->remote, remote), (unsigned long long)counts.bytes,
	       (unsigned long long)counts.packets, (unsigned long long)counts.resent,
	       (unsigned long long)counts.resent_bytes);
	if (path->confirmed_ns)
		printf(", \"confirmed_ns\": %lld", (long long)path->confirmed_ns);
	if (!usrsctp_opt_info(association.socket, association.id, SCTP_GET_PEER_ADDR_INFO, &info, &size))
		printf(", \"state\": \"%s\", \"cwnd\": %u, \"srtt_ms\": %u, \"rto_ms\": %u, \"mtu\": %u",
		       name_state(info.spinfo_state), info.spinfo_cwnd, info.spinfo_srtt, info.spinfo_rto,
		       info.spinfo_mtu);
	putchar('}');
}

void print_interval(int64_t start_ns, int64_t end_ns, uint64_t bytes, const char *separator)
{
	printf("%s\n  {\"start\": %.6f, \"end\": %.6f, \"bytes\": %llu, \"bits_per_second\": %.3f, \"paths\": [",
	       separator, start_ns / 1e9, end_ns / 1e9, (unsigned long long)bytes, bytes * 8e9 / (end_ns - start_ns));
	for (int i = 0; i < path_count; i++)
		if (path_find(&paths[i].remote.any) == &paths[i])
			print_path(&paths[i], i ? "," : "");
	printf("]}");
}

void print_options(void)
{
	printf("{\"role\": \"%s\", \"connects\": %s, \"cmt\": \"%s\", \"buffer_splitting\": \"%s\", "
	       "\"unordered\": %s,\n"
	       " \"message_bytes\": %zu, \"send_buffer_bytes\": %d, \"receive_buffer_bytes\": %d, \"intervals\": [",
	       options.sends ? "sender" : "receiver", options.listens ? "false" : "true", cmt_names[options.cmt],
	       splitting_names[options.splitting], options.unordered ? "true" : "false", options.message,
	       options.send_buffer, options.receive_buffer);
}

void print_end(int64_t length_ns, uint64_t bytes, uint64_t messages)
{
	struct sctpstat counts;

	usrsctp_get_stat(&counts);
	printf("],\n \"up_ns\": %lld, \"standstills_ns\": [", (long long)association.up_ns);
	for (size_t i = 0; i < association.standstills; i++)
		printf("%s[%lld, %lld]", i ? ", " : "", (long long)association.standstill[i].from_ns,
		       (long long)association.standstill[i].to_ns);
	printf("],\n \"seconds\": %.6f, \"bytes\": %llu, \"messages\": %llu, \"data_chunks\": %u,\n", length_ns / 1e9,
	       (unsigned long long)bytes, (unsigned long long)messages, counts.sctps_senddata);
	printf(" \"retransmits\": %u, \"fast_retransmits\": %u, \"timeouts\": %u, \"duplicates\": %u, "
	       "\"dropped_for_window\": %u,\n",
	       counts.sctps_sendretransdata, counts.sctps_sendfastretrans, counts.sctps_timodata,
	       counts.sctps_recvdupdata, counts.sctps_datadroprwnd);
	printf(" \"ended\": \"%s\"}\n",
	       association.lost ? association.lost : association.is_over ? "shut down" : "time is over");
}

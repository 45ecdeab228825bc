/* SPDX-License-Identifier: GPL-2.0-only */
/* The common parts of the schedulers. */
#ifndef __MPRUN_SCHED_H
#define __MPRUN_SCHED_H

#include <net/mptcp.h>

#include "protocol.h"

/* Settings of a network namespace, net.mptcp.*; see mprun_sched.c. */
struct mprun_settings {
	unsigned int roundrobin_segments;
	unsigned int balanced_epsilon;
	unsigned int balanced_floor;
};

extern struct mptcp_sched_ops mprun_lowest_rtt;
extern struct mptcp_sched_ops mprun_roundrobin;
extern struct mptcp_sched_ops mprun_redundant;
extern struct mptcp_sched_ops mprun_balanced;
extern struct mptcp_sched_ops mprun_blest;

const struct mprun_settings *mprun_settings(const struct mptcp_sock *msk);

/* Return the segments that a subflow may send at once: its congestion window less what is in flight or waits. */
u32 mprun_room(const struct sock *ssk);
/* Return the smoothed round-trip time in us; if it is not measured yet, the largest value. */
u32 mprun_srtt(const struct sock *ssk);

/*
 * The ability of a subflow to take new data, from worst to best. A backup is preferred to a subflow
 * whose retransmission timer has expired, because that subflow may have failed. Its window holds only
 * one segment, and mainline does not find out that it is stale unless it gets more data.
 */
enum mprun_tier {
	MPRUN_CANNOT_SEND,
	MPRUN_TIMER_EXPIRED,
	MPRUN_BACKUP,
	MPRUN_FOR_USE,
};

/* Return the best tier that a connection has. */
enum mprun_tier mprun_best_tier(struct mptcp_sock *msk);
/* Return true if the subflow can send and is in the wanted tier, the best tier of its connection. */
bool mprun_usable(struct mptcp_subflow_context *subflow, enum mprun_tier wanted);

/* Give the next segments to a subflow. Return the result of a get_send. */
int mprun_choose(struct mptcp_sock *msk, struct mptcp_subflow_context *subflow, u32 segments);
/* Return the usable subflow with the lowest RTT; with_room: only among those with room. NULL if there is none. */
struct mptcp_subflow_context *mprun_fastest(struct mptcp_sock *msk, bool with_room);
/* Choose the subflow for retransmitted data, as mainline does. */
int mprun_reinject(struct mptcp_sock *msk);

/*
 * A scheduler: its name in C, its choice for new data, and its other members. Until 6.14 one function
 * chose for new data and for retransmissions.
 */
#ifdef MPRUN_SCHED_DATA
#define MPRUN_SCHEDULER(ops, send, ...)								\
	static int ops##_get_subflow(struct mptcp_sock *msk, struct mptcp_sched_data *data)	\
	{											\
		return data->reinject ? mprun_reinject(msk) : send(msk);			\
	}											\
	struct mptcp_sched_ops ops = {								\
		.get_subflow	= ops##_get_subflow,						\
		.owner		= THIS_MODULE,							\
		__VA_ARGS__									\
	}
#else
#define MPRUN_SCHEDULER(ops, send, ...)								\
	struct mptcp_sched_ops ops = {								\
		.get_send	= send,								\
		.get_retrans	= mprun_reinject,						\
		.owner		= THIS_MODULE,							\
		__VA_ARGS__									\
	}
#endif

#endif

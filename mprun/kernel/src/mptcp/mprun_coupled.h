/* SPDX-License-Identifier: GPL-2.0-only */
/* The common parts of coupled congestion controls: the subflows of a connection, and fractions of a window. */
#ifndef __MPRUN_COUPLED_H
#define __MPRUN_COUPLED_H

#include <net/tcp.h>

#include "mprun_coupled_math.h"

/* The beginning of the private area of each subflow's congestion control. */
struct mprun_coupled {
	/* the link in the connection's list of subflows; empty on a plain TCP socket */
	struct list_head node;
	struct sock *ssk;
	/* the pending growth of the window, in MPRUN_ONE-ths of a segment; may be negative */
	s64 credit;
	/* segments acknowledged since the last loss, and between the two losses before */
	u64 since_loss;
	u64 before_loss;
	/* wvegas: segments per second when its weight was last set */
	u64 rate;
};

/* The windows and round-trip times of a connection's subflows. */
struct mprun_group {
	struct mprun_path paths[MPRUN_MOST];
	int number;
	/* index of the subflow that asked */
	int own;
	/* wvegas: the rate of all subflows */
	u64 rate;
};

void mprun_coupled_init(struct sock *ssk);
void mprun_coupled_release(struct sock *ssk);
void mprun_coupled_acked(struct sock *ssk, const struct ack_sample *sample);
/* Return true if the socket is part of an MPTCP connection. Then `group` has all its subflows. */
bool mprun_coupled_look(struct sock *ssk, struct mprun_group *group);
/* Return half the window, as Reno does, and record the loss. */
u32 mprun_coupled_ssthresh(struct sock *ssk);
/* Slow start, or grow the window by the result of `increase`. On a plain TCP socket: Reno. */
void mprun_coupled_avoid(struct sock *ssk, u32 acked,
			 s64 (*increase)(const struct mprun_path *paths, int number, int own));

#endif

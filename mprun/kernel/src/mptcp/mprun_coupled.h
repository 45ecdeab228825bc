/* SPDX-License-Identifier: GPL-2.0-only */
/* What coupled congestion controls have in common: the subflows of a connection, and fractions of a window. */
#ifndef __MPRUN_COUPLED_H
#define __MPRUN_COUPLED_H

#include <net/tcp.h>

#include "mprun_coupled_math.h"

/* Begins the private area of each subflow's congestion control. */
struct mprun_coupled {
	/* among the subflows of the connection; empty of a plain TCP socket */
	struct list_head node;
	struct sock *ssk;
	/* what the window is to grow by, in MPRUN_ONE-ths of a segment; may be negative */
	s64 credit;
	/* segments acknowledged since the last loss, and between the two before */
	u64 since_loss;
	u64 before_loss;
	/* wvegas: segments a second when its weight was last set */
	u64 rate;
};

/* The windows and round-trip times of a connection's subflows. */
struct mprun_group {
	struct mprun_path paths[MPRUN_MOST];
	int number;
	/* place of the subflow that asked */
	int own;
	/* wvegas: of all */
	u64 rate;
};

void mprun_coupled_init(struct sock *ssk);
void mprun_coupled_release(struct sock *ssk);
void mprun_coupled_acked(struct sock *ssk, const struct ack_sample *sample);
/* Whether the socket is one of an MPTCP connection; then group holds it and the others. */
bool mprun_coupled_look(struct sock *ssk, struct mprun_group *group);
/* Half the window, as Reno; and the losses counted. */
u32 mprun_coupled_ssthresh(struct sock *ssk);
/* Slow start, or the window grows by what `increase` says; Reno on a plain TCP socket. */
void mprun_coupled_avoid(struct sock *ssk, u32 acked,
			 s64 (*increase)(const struct mprun_path *paths, int number, int own));

#endif

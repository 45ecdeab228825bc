/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The state of the schedulers and the coupled congestion controls, per connection and per subflow.
 * protocol.h includes this file, so that both are part of its structures.
 */
#ifndef __MPRUN_MPTCP_H
#define __MPRUN_MPTCP_H

#include <linux/list.h>
#include <linux/types.h>

struct mptcp_data_frag;
struct mptcp_sock;
struct mptcp_subflow_context;
struct sock;

/* Mainline's structure, which mainline defines in protocol.c. */
struct mptcp_sendmsg_info {
	int mss_now;
	int size_goal;
	u16 limit;
	u16 sent;
	unsigned int flags;
	bool data_lock_held;
};

/* How the data that a scheduler has given to a subflow is pushed. */
struct mprun_push {
	/* number of segments of the last choice; 0: mainline's way, whole fragments */
	u32 segments;
	/* bytes of a segment on the chosen subflow */
	u32 segment_bytes;
	/* the scheduler chooses by segments, so fragments are divided */
	bool exact;
	/* every subflow sends all data (redundant) */
	bool copies;
};

/* Per connection. */
struct mprun_msk {
	struct mprun_push push;
	/* the number of the subflow that sent last */
	u32 last;
	/* balanced: the number of subflows whose bytes are counted, and the bytes of all of them */
	u32 number;
	u64 counted;
	/* balanced with a floor */
	bool free;
	u64 window_end_us;
	u32 windows_held;
	/* blest */
	u32 lambda;
	bool blocked;
	u64 lambda_end_us;
	/* the subflows of a coupled congestion control */
	struct list_head coupled;
};

/* Per subflow. */
struct mprun_subflow {
	/* balanced: true if this subflow is counted, and its bytes, each when first sent */
	bool member;
	u64 counted;
	/* balanced with a floor: segments delivered when the window began, and bit/s in the last window */
	u32 delivered;
	u64 rate;
	/* redundant: the data sequence number that is next here */
	u64 next_seq;
	bool begun;
};

void mprun_init_msk(struct mptcp_sock *msk);
bool mprun_sends_copies(const struct mptcp_sock *msk);
bool mprun_to_send(struct sock *sk);
int mprun_push_limit(struct mptcp_sock *msk, struct sock *ssk, const struct mptcp_data_frag *dfrag);
void mprun_pushed(struct mptcp_sock *msk, struct sock *ssk, int bytes);
int mprun_push_copies(struct sock *sk, struct sock *ssk, struct mptcp_sendmsg_info *info);
void mprun_register_schedulers(void);

/* Functions of protocol.c that are not static in this kernel. */
void mptcp_set_timeout(struct sock *sk);
int mptcp_sendmsg_frag(struct sock *sk, struct sock *ssk, struct mptcp_data_frag *dfrag,
		       struct mptcp_sendmsg_info *info);
void mptcp_update_post_push(struct mptcp_sock *msk, struct mptcp_data_frag *dfrag, u32 sent);

#endif

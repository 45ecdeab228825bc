/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the schedulers and the coupled congestion controls keep, per connection and per subflow.
 * Included by protocol.h, so that both stand in its structures.
 */
#ifndef __MPRUN_MPTCP_H
#define __MPRUN_MPTCP_H

#include <linux/list.h>
#include <linux/types.h>

struct mptcp_data_frag;
struct mptcp_sock;
struct mptcp_subflow_context;
struct sock;

/* Mainline's, which stands in protocol.c there. */
struct mptcp_sendmsg_info {
	int mss_now;
	int size_goal;
	u16 limit;
	u16 sent;
	unsigned int flags;
	bool data_lock_held;
};

/* How a scheduler wants the data that it has given to a subflow to be pushed. */
struct mprun_push {
	/* segments that the last choice holds for; 0: mainline's way, whole fragments */
	u32 segments;
	/* bytes of a segment on the subflow that was chosen */
	u32 segment_bytes;
	/* the scheduler chooses by segments: fragments are divided */
	bool exact;
	/* every subflow sends everything (redundant) */
	bool copies;
};

/* Per connection. */
struct mprun_msk {
	struct mprun_push push;
	/* subflow that sent last, by its number */
	u32 last;
	/* balanced: the number of subflows whose bytes are counted, and the bytes of all */
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
	/* coupled congestion control: its subflows */
	struct list_head coupled;
};

/* Per subflow. */
struct mprun_subflow {
	/* balanced: this subflow is one of those counted, and its bytes, each when first sent */
	bool member;
	u64 counted;
	/* balanced with a floor: segments delivered when the window began, and bit/s in the last one */
	u32 delivered;
	u64 rate;
	/* redundant: data sequence number that comes next here */
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

/* Of protocol.c, not static here. */
void mptcp_set_timeout(struct sock *sk);
int mptcp_sendmsg_frag(struct sock *sk, struct sock *ssk, struct mptcp_data_frag *dfrag,
		       struct mptcp_sendmsg_info *info);
void mptcp_update_post_push(struct mptcp_sock *msk, struct mptcp_data_frag *dfrag, u32 sent);

#endif

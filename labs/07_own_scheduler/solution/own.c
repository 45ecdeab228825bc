// SPDX-License-Identifier: GPL-2.0-only
/*
 * own: a packet scheduler of MPTCP that waits for a short path instead of using a much longer one.
 *
 *     mprun kernel build --source TREE --name mine --with-scheduler own.c
 *     mprun -t topo -x xp --kernel mine            with `mptcp: {scheduler: own}` of a host
 *
 * Among the subflows with room, it chooses the one with the lowest round-trip time, as lowest-rtt does. But it never
 * uses a path whose round trip without queues is more than LIMIT times as long as that of the shortest usable path.
 */
#include <linux/init.h>

#include "mprun_sched.h"

#define LIMIT 2

/* Return the shortest round trip in us that was measured, so without queues; if there is none, the largest value. */
static u32 shortest_round_trip(struct mptcp_subflow_context *subflow)
{
	return tcp_min_rtt(tcp_sk(mptcp_subflow_tcp_sock(subflow)));
}

static bool is_better(const struct sock *one, const struct sock *other)
{
	return mprun_srtt(one) < mprun_srtt(other);
}

static int choose_for_new_data(struct mptcp_sock *msk)
{
	struct mptcp_subflow_context *subflow, *best = NULL;
	/* backups count only if no other subflow works; a failed path is no longer in the wanted tier */
	enum mprun_tier wanted = mprun_best_tier(msk);
	u32 shortest = U32_MAX;

	/* a subflow without room counts too: it is worth the wait */
	mptcp_for_each_subflow(msk, subflow) {
		if (mprun_usable(subflow, wanted))
			shortest = min(shortest, shortest_round_trip(subflow));
	}
	mptcp_for_each_subflow(msk, subflow) {
		struct sock *ssk = mptcp_subflow_tcp_sock(subflow);

		if (!mprun_usable(subflow, wanted) || !mprun_room(ssk))
			continue;
		if (shortest_round_trip(subflow) / LIMIT > shortest)
			continue;
		if (!best || is_better(ssk, mptcp_subflow_tcp_sock(best)))
			best = subflow;
	}
	/* the segments that it may send before the scheduler is asked again; without a subflow, wait for an ACK */
	return mprun_choose(msk, best, best ? mprun_room(mptcp_subflow_tcp_sock(best)) : 0);
}

/* Prepare the scheduler of a new connection. */
static void prepare(struct mptcp_sock *msk)
{
	/* a choice is valid for its number of segments, not for whole fragments as in mainline */
	msk->mprun.push.exact = true;
}

MPRUN_SCHEDULER(own_scheduler, choose_for_new_data,
	.init		= prepare,
	.name		= "own");

static int __init register_it(void)
{
	return mptcp_register_scheduler(&own_scheduler);
}
late_initcall(register_it);

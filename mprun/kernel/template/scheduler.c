// SPDX-License-Identifier: GPL-2.0-only
/*
 * @NAME@: a packet scheduler of MPTCP.
 *
 *     mprun kernel build --source TREE --name mine --with-scheduler @FILE@
 *     mprun -t topo -x xp --kernel mine            with `mptcp: {scheduler: @NAME@}` of a host
 *
 * The kernel asks the scheduler for a subflow whenever data can be sent. The functions mprun_* are in
 * mprun_sched.h, and struct mptcp_sock and struct mptcp_subflow_context in protocol.h, both in net/mptcp.
 * This file compiles on Linux 6.12 and on 7.x, where the functions of a scheduler differ.
 */
#include <linux/init.h>

#include "mprun_sched.h"

/* Return true if `one` is a better choice than `other`. This is the line to change. */
static bool is_better(const struct sock *one, const struct sock *other)
{
	return mprun_srtt(one) < mprun_srtt(other);
}

static int choose_for_new_data(struct mptcp_sock *msk)
{
	struct mptcp_subflow_context *subflow, *best = NULL;
	/* backups count only if no other subflow works */
	enum mprun_tier wanted = mprun_best_tier(msk);

	mptcp_for_each_subflow(msk, subflow) {
		struct sock *ssk = mptcp_subflow_tcp_sock(subflow);

		/* without room in its congestion window, a subflow cannot send now */
		if (!mprun_usable(subflow, wanted) || !mprun_room(ssk))
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

MPRUN_SCHEDULER(@NAME@_scheduler, choose_for_new_data,
	.init		= prepare,
	.name		= "@NAME@");

static int __init register_it(void)
{
	return mptcp_register_scheduler(&@NAME@_scheduler);
}
late_initcall(register_it);

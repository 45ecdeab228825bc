// SPDX-License-Identifier: GPL-2.0-only
/*
 * Congestion controls that couple the subflows of an MPTCP connection: lia, olia, balia.
 *
 * Each subflow joins its connection's list at its first acknowledgement, because it then surely
 * belongs to a connection. It leaves the list when its congestion control is released. One lock
 * protects the lists of all connections. The windows of the other subflows are read as they are at
 * that time. On a plain TCP socket, and on a connection that fell back to TCP, all of these congestion
 * controls behave like Reno.
 */
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/spinlock.h>

#include "mprun_coupled.h"
#include "protocol.h"

static DEFINE_SPINLOCK(groups_lock);

void mprun_coupled_init(struct sock *ssk)
{
	struct mprun_coupled *own = inet_csk_ca(ssk);

	memset(own, 0, sizeof(*own));
	INIT_LIST_HEAD(&own->node);
	own->ssk = ssk;
}

void mprun_coupled_release(struct sock *ssk)
{
	struct mprun_coupled *own = inet_csk_ca(ssk);

	/* released without having been initialised: a socket that was never connected */
	if (!own->node.next)
		return;
	spin_lock_bh(&groups_lock);
	list_del_init(&own->node);
	spin_unlock_bh(&groups_lock);
}

void mprun_coupled_acked(struct sock *ssk, const struct ack_sample *sample)
{
	struct mprun_coupled *own = inet_csk_ca(ssk);

	own->since_loss += sample->pkts_acked;
}

static struct list_head *list_of(struct sock *ssk)
{
	struct mptcp_subflow_context *subflow;

	if (!sk_is_mptcp(ssk))
		return NULL;
	subflow = mptcp_subflow_ctx(ssk);
	if (!subflow || !subflow->conn)
		return NULL;
	return &mptcp_sk(subflow->conn)->mprun.coupled;
}

bool mprun_coupled_look(struct sock *ssk, struct mprun_group *group)
{
	struct mprun_coupled *own = inet_csk_ca(ssk), *one;
	struct list_head *list = list_of(ssk);

	if (!list)
		return false;
	group->number = 0;
	group->own = -1;
	group->rate = 0;
	spin_lock_bh(&groups_lock);
	if (list_empty(&own->node))
		list_add_tail(&own->node, list);
	list_for_each_entry(one, list, node) {
		const struct tcp_sock *tp = tcp_sk(one->ssk);
		struct mprun_path *path = &group->paths[group->number];
		u32 rtt_us = READ_ONCE(tp->srtt_us) >> 3;

		if (!rtt_us || group->number == MPRUN_MOST || !__tcp_can_send(one->ssk))
			continue;
		if (one == own)
			group->own = group->number;
		path->window = max(tcp_snd_cwnd(tp), 1U);
		path->rtt_us = rtt_us;
		path->between_losses = max(one->since_loss, one->before_loss);
		group->rate += one->rate;
		group->number++;
	}
	spin_unlock_bh(&groups_lock);
	return group->own >= 0;
}

u32 mprun_coupled_ssthresh(struct sock *ssk)
{
	struct mprun_coupled *own = inet_csk_ca(ssk);

	own->before_loss = own->since_loss;
	own->since_loss = 0;
	return tcp_reno_ssthresh(ssk);
}

static void grow(struct tcp_sock *tp, struct mprun_coupled *own, s64 by)
{
	u32 window = tcp_snd_cwnd(tp);

	own->credit += by;
	if (own->credit >= MPRUN_ONE) {
		window += own->credit >> MPRUN_SHIFT;
		own->credit &= MPRUN_ONE - 1;
	} else if (own->credit <= -MPRUN_ONE) {
		window = max(window - 1, 2U);
		own->credit += MPRUN_ONE;
	}
	tcp_snd_cwnd_set(tp, min(window, tp->snd_cwnd_clamp));
}

void mprun_coupled_avoid(struct sock *ssk, u32 acked,
			 s64 (*increase)(const struct mprun_path *paths, int number, int own))
{
	struct tcp_sock *tp = tcp_sk(ssk);
	struct mprun_group group;

	if (!tcp_is_cwnd_limited(ssk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	if (mprun_coupled_look(ssk, &group))
		grow(tp, inet_csk_ca(ssk), acked * increase(group.paths, group.number, group.own));
	else
		tcp_cong_avoid_ai(tp, tcp_snd_cwnd(tp), acked);
}

static void lia_avoid(struct sock *ssk, u32 ack, u32 acked)
{
	mprun_coupled_avoid(ssk, acked, mprun_lia);
}

static void olia_avoid(struct sock *ssk, u32 ack, u32 acked)
{
	mprun_coupled_avoid(ssk, acked, mprun_olia);
}

static void balia_avoid(struct sock *ssk, u32 ack, u32 acked)
{
	mprun_coupled_avoid(ssk, acked, mprun_balia);
}

static u32 balia_ssthresh(struct sock *ssk)
{
	u32 half = mprun_coupled_ssthresh(ssk);
	struct mprun_group group;

	if (!mprun_coupled_look(ssk, &group))
		return half;
	return max(mprun_balia_after_loss(group.paths, group.number, group.own), 2U);
}

static struct tcp_congestion_ops coupled[] = {
	{
		.init		= mprun_coupled_init,
		.release	= mprun_coupled_release,
		.ssthresh	= mprun_coupled_ssthresh,
		.undo_cwnd	= tcp_reno_undo_cwnd,
		.pkts_acked	= mprun_coupled_acked,
		.cong_avoid	= lia_avoid,
		.name		= "lia",
		.flags		= TCP_CONG_NON_RESTRICTED,
		.owner		= THIS_MODULE,
	}, {
		.init		= mprun_coupled_init,
		.release	= mprun_coupled_release,
		.ssthresh	= mprun_coupled_ssthresh,
		.undo_cwnd	= tcp_reno_undo_cwnd,
		.pkts_acked	= mprun_coupled_acked,
		.cong_avoid	= olia_avoid,
		.name		= "olia",
		.flags		= TCP_CONG_NON_RESTRICTED,
		.owner		= THIS_MODULE,
	}, {
		.init		= mprun_coupled_init,
		.release	= mprun_coupled_release,
		.ssthresh	= balia_ssthresh,
		.undo_cwnd	= tcp_reno_undo_cwnd,
		.pkts_acked	= mprun_coupled_acked,
		.cong_avoid	= balia_avoid,
		.name		= "balia",
		.flags		= TCP_CONG_NON_RESTRICTED,
		.owner		= THIS_MODULE,
	},
};

static int __init mprun_coupled_register(void)
{
	int i;

	BUILD_BUG_ON(sizeof(struct mprun_coupled) > ICSK_CA_PRIV_SIZE);
	for (i = 0; i < ARRAY_SIZE(coupled); i++) {
		int error = tcp_register_congestion_control(&coupled[i]);

		if (error)
			return error;
	}
	return 0;
}
late_initcall(mprun_coupled_register);

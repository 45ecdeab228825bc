// SPDX-License-Identifier: GPL-2.0-only
/*
 * @NAME@: a congestion control of TCP and of MPTCP's subflows.
 *
 *     mprun kernel build --source TREE --name mine --with-congestion @FILE@
 *     mprun -t topo -x xp --kernel mine       with `sysctl: {net.ipv4.tcp_congestion_control: @NAME@}` of a host
 *
 * This file is TCP Reno, with its state in struct own. The other functions of a congestion control are in
 * struct tcp_congestion_ops (include/net/tcp.h). mprun_coupled.h in net/mptcp has the other subflows of a connection.
 */
#include <linux/init.h>
#include <linux/module.h>
#include <net/tcp.h>

/* The state of a subflow; at most ICSK_CA_PRIV_SIZE bytes. */
struct own {
	u32 losses;
};

static void prepare(struct sock *sk)
{
	struct own *own = inet_csk_ca(sk);

	own->losses = 0;
}

/* Return the slow-start threshold after a loss, in segments. This is the first line to change. */
static u32 threshold(struct sock *sk)
{
	struct own *own = inet_csk_ca(sk);

	own->losses++;
	return max(tcp_snd_cwnd(tcp_sk(sk)) / 2, 2U);
}

/* Grow the window when `acked` segments were acknowledged. This is the second line to change. */
static void grow(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	/* one segment for each window of acknowledged segments */
	tcp_cong_avoid_ai(tp, tcp_snd_cwnd(tp), acked);
}

static struct tcp_congestion_ops own_congestion = {
	.init		= prepare,
	.ssthresh	= threshold,
	.cong_avoid	= grow,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.name		= "@NAME@",
	.flags		= TCP_CONG_NON_RESTRICTED,
	.owner		= THIS_MODULE,
};

static int __init register_it(void)
{
	BUILD_BUG_ON(sizeof(struct own) > ICSK_CA_PRIV_SIZE);
	return tcp_register_congestion_control(&own_congestion);
}
late_initcall(register_it);

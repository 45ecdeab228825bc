// SPDX-License-Identifier: GPL-2.0-only
/*
 * wvegas: weighted Vegas, coupled by delay (draft-xu-mptcp-congestion-control-05).
 *
 * Each subflow keeps alpha segments in the queue of its path, and the connection keeps ten over all
 * subflows. alpha is the subflow's share of these ten, by its share of the rate. Once per round trip
 * the window grows or shrinks by one segment.
 *
 * If the delay of a queue has doubled since its minimum, the queue is emptied once, so that the
 * shortest round trip is measured again. The draft uses the minimum delay of any round trip. Without
 * noise this is a microsecond, and the window would be halved whenever a queue begins. Here it is the
 * minimum of the round trips in which alpha is kept.
 */
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/module.h>

#include "mprun_coupled.h"

#define TOTAL_ALPHA	10
#define LEAST_ALPHA	2
#define GAMMA		1
#define FRACTION	1024

struct wvegas {
	struct mprun_coupled coupled;
	/* snd_nxt when the round trip began */
	u32 round_end;
	u32 base_us;
	/* values of this round trip */
	u32 samples;
	u32 alpha;
	u64 sum_us;
	u32 queue_us;
};

static void begin_round(struct sock *ssk, struct wvegas *own)
{
	own->round_end = tcp_sk(ssk)->snd_nxt;
	own->samples = 0;
	own->sum_us = 0;
}

static void wvegas_init(struct sock *ssk)
{
	struct wvegas *own = inet_csk_ca(ssk);

	mprun_coupled_init(ssk);
	own->base_us = U32_MAX;
	own->alpha = LEAST_ALPHA;
	own->queue_us = 0;
	begin_round(ssk, own);
}

static void wvegas_acked(struct sock *ssk, const struct ack_sample *sample)
{
	struct wvegas *own = inet_csk_ca(ssk);

	mprun_coupled_acked(ssk, sample);
	if (sample->rtt_us <= 0)
		return;
	own->base_us = min_t(u32, own->base_us, sample->rtt_us);
	own->sum_us += sample->rtt_us;
	own->samples++;
}

/* Set alpha of the subflow: its share of the connection's rate, of TOTAL_ALPHA. */
static void weigh(struct sock *ssk, struct wvegas *own, u32 rtt_us)
{
	struct mprun_group group;

	own->coupled.rate = div_u64((u64)tcp_snd_cwnd(tcp_sk(ssk)) * USEC_PER_SEC, rtt_us);
	if (!mprun_coupled_look(ssk, &group) || !group.rate)
		return;
	own->alpha = max_t(u32, LEAST_ALPHA, div64_u64(TOTAL_ALPHA * own->coupled.rate, group.rate));
}

/* Empty the queue once if its delay has doubled since its minimum. */
static void drain(struct tcp_sock *tp, struct wvegas *own, u32 rtt_us)
{
	u32 queue_us = rtt_us - own->base_us;

	if (!own->queue_us || own->queue_us > queue_us)
		own->queue_us = queue_us;
	if (queue_us >= 2 * own->queue_us && own->queue_us) {
		u64 window = div_u64((u64)tcp_snd_cwnd(tp) * own->base_us, 2 * rtt_us);

		tcp_snd_cwnd_set(tp, max_t(u32, window, 2));
		own->queue_us = 0;
	}
}

static void wvegas_avoid(struct sock *ssk, u32 ack, u32 acked)
{
	struct wvegas *own = inet_csk_ca(ssk);
	struct tcp_sock *tp = tcp_sk(ssk);
	u32 window = tcp_snd_cwnd(tp), rtt_us, queued;

	if (!sk_is_mptcp(ssk)) {
		tcp_reno_cong_avoid(ssk, ack, acked);
		return;
	}
	if (before(ack, own->round_end) || !own->samples) {
		if (tcp_in_slow_start(tp))
			tcp_slow_start(tp, acked);
		return;
	}
	rtt_us = max_t(u32, 1, div_u64(own->sum_us, own->samples));
	/* segments that wait in the queue of the path */
	queued = div_u64((u64)window * (rtt_us - own->base_us), rtt_us);
	if (tcp_in_slow_start(tp)) {
		if (queued > GAMMA) {
			tcp_snd_cwnd_set(tp, max(window - queued, 2U));
			tp->snd_ssthresh = min(tp->snd_ssthresh, max(tcp_snd_cwnd(tp) - 1, 2U));
		} else {
			tcp_slow_start(tp, acked);
		}
	} else {
		if (queued >= own->alpha)
			weigh(ssk, own, rtt_us);
		if (queued < own->alpha)
			tcp_snd_cwnd_set(tp, min(window + 1, tp->snd_cwnd_clamp));
		else if (queued > own->alpha)
			tcp_snd_cwnd_set(tp, max(window - 1, 2U));
		if (queued >= own->alpha)
			drain(tp, own, rtt_us);
		tp->snd_ssthresh = tcp_current_ssthresh(ssk);
	}
	begin_round(ssk, own);
}

static struct tcp_congestion_ops wvegas = {
	.init		= wvegas_init,
	.release	= mprun_coupled_release,
	.ssthresh	= mprun_coupled_ssthresh,
	.undo_cwnd	= tcp_reno_undo_cwnd,
	.pkts_acked	= wvegas_acked,
	.cong_avoid	= wvegas_avoid,
	.name		= "wvegas",
	.flags		= TCP_CONG_NON_RESTRICTED,
	.owner		= THIS_MODULE,
};

static int __init wvegas_register(void)
{
	BUILD_BUG_ON(sizeof(struct wvegas) > ICSK_CA_PRIV_SIZE);
	return tcp_register_congestion_control(&wvegas);
}
late_initcall(wvegas_register);

// SPDX-License-Identifier: GPL-2.0-only
/*
 * blest: lowest RTT, but no data on a slow subflow that would keep the fast one from sending (Ferlin,
 * Alay, Mehani, Boreli: BLEST, IFIP Networking 2016).
 *
 * When the fastest subflow has no room, the next one may send only if the connection's send window is
 * large enough. The window must hold what the next subflow has in flight. It must also hold what the
 * fastest can send until then, X = MSS * (cwnd + (r - 1) / 2) * r with r the ratio of the RTTs, times
 * lambda. lambda grows if the window was closed while the fastest had room, and shrinks otherwise. It
 * changes once per round trip, between 1 and 1.3.
 */
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/minmax.h>

#include "mprun_sched.h"

/* lambda in thousandths */
#define ONE		1000
#define LEAST_LAMBDA	1000
#define MOST_LAMBDA	1300
#define LAMBDA_UP	40
#define LAMBDA_DOWN	10

static void update_lambda(struct mptcp_sock *msk, const struct sock *fastest)
{
	struct mprun_msk *state = &msk->mprun;
	u64 now_us = ktime_get_ns() / NSEC_PER_USEC;

	if (!after64(READ_ONCE(msk->wnd_end), msk->snd_nxt) && mprun_room(fastest))
		state->blocked = true;
	if (now_us < state->lambda_end_us)
		return;
	if (state->blocked)
		state->lambda = min(state->lambda + LAMBDA_UP, MOST_LAMBDA);
	else
		state->lambda = max(state->lambda - LAMBDA_DOWN, LEAST_LAMBDA);
	state->blocked = false;
	state->lambda_end_us = now_us + mprun_srtt(fastest);
}

/* Return the bytes that the fast subflow could send during a round trip of the slow one. */
static u64 sent_meanwhile(const struct sock *fast, const struct sock *slow)
{
	u64 ratio = div64_u64((u64)mprun_srtt(slow) * ONE, max(mprun_srtt(fast), 1U));
	u64 window = (u64)tcp_snd_cwnd(tcp_sk(fast)) * ONE + (ratio - min_t(u64, ratio, ONE)) / 2;

	return div64_u64(tcp_sk(fast)->mss_cache * window, ONE) * ratio / ONE;
}

static bool would_block(const struct mptcp_sock *msk, const struct sock *fast, const struct sock *slow)
{
	const struct tcp_sock *tp = tcp_sk(slow);
	u64 held = (u64)tp->mss_cache * (tcp_packets_in_flight(tp) + 1);
	u64 window = READ_ONCE(msk->wnd_end) - READ_ONCE(msk->snd_una);
	u64 wanted;

	if (mprun_srtt(slow) == U32_MAX || mprun_srtt(fast) == U32_MAX)
		return false;
	wanted = div64_u64(sent_meanwhile(fast, slow) * msk->mprun.lambda, ONE);
	return wanted + held > window;
}

static int blest_get_send(struct mptcp_sock *msk)
{
	struct mptcp_subflow_context *fastest, *best;
	struct sock *fast, *chosen;

	fastest = mprun_fastest(msk, false);
	if (!fastest)
		return -EINVAL;
	fast = mptcp_subflow_tcp_sock(fastest);
	update_lambda(msk, fast);
	best = mprun_fastest(msk, true);
	if (!best)
		return mprun_choose(msk, NULL, 0);
	chosen = mptcp_subflow_tcp_sock(best);
	if (best == fastest)
		return mprun_choose(msk, best, mprun_room(chosen));
	/* one segment at a time, because each segment changes the estimate */
	return mprun_choose(msk, would_block(msk, fast, chosen) ? NULL : best, 1);
}

static void blest_init(struct mptcp_sock *msk)
{
	msk->mprun.push.exact = true;
	msk->mprun.lambda = LEAST_LAMBDA;
}

MPRUN_SCHEDULER(mprun_blest, blest_get_send,
	.init		= blest_init,
	.name		= "blest");

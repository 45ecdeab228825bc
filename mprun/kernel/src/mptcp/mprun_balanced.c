// SPDX-License-Identifier: GPL-2.0-only
/*
 * balanced: spreads the data so that an observer of one path sees little of it.
 *
 * Bytes count once, when they are first sent. No subflow carries more than a share of 1/n + epsilon of
 * the bytes. n is the number of subflows in use, and epsilon is net.mptcp.balanced_epsilon in percent.
 * A subflow beyond its share waits even if it has room. Among the others, the one that has carried
 * least is next. With the slowest rate r, the connection reaches at most
 *
 * 	r / (1/n - epsilon * (n - 1))
 *
 * because the slowest subflow carries at least what the others leave over. The count restarts when a
 * subflow joins or leaves. What was sent over one path before the second existed is not compensated,
 * because the first path would then stand still.
 *
 * net.mptcp.balanced_floor=1 gives up balance rather than fall below the rate of the best path alone.
 * In a window of one second in which no subflow waits, the rate of each subflow is measured. If
 * balance would be slower than the best subflow alone, no subflow waits in the next second either, and
 * the rates are measured again. Otherwise the shares hold for eight seconds before the next
 * measurement.
 */
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/minmax.h>

#include "mprun_sched.h"

#define PERCENT		100
#define WINDOW_US	USEC_PER_SEC
#define WINDOWS_HELD	8

static void restart(struct mptcp_sock *msk, enum mprun_tier wanted, u32 number)
{
	struct mptcp_subflow_context *subflow;

	mptcp_for_each_subflow(msk, subflow) {
		subflow->mprun.member = mprun_usable(subflow, wanted);
		subflow->mprun.counted = 0;
		subflow->mprun.delivered = tcp_sk(mptcp_subflow_tcp_sock(subflow))->delivered;
	}
	msk->mprun.counted = 0;
	msk->mprun.number = number;
	msk->mprun.free = true;
	msk->mprun.window_end_us = ktime_get_ns() / NSEC_PER_USEC + WINDOW_US;
}

/* Restart the count if the set of subflows in use has changed. */
static void watch_members(struct mptcp_sock *msk, enum mprun_tier wanted)
{
	struct mptcp_subflow_context *subflow;
	bool joined = false;
	u32 number = 0;

	mptcp_for_each_subflow(msk, subflow) {
		if (mprun_usable(subflow, wanted)) {
			joined |= !subflow->mprun.member;
			number++;
		}
	}
	/* a subflow that left changes the number, unless another joined */
	if (joined || number != msk->mprun.number)
		restart(msk, wanted, number);
}

/* Return true if balance would carry less than the best subflow alone, by the rates just measured. */
static bool falls_below_best(struct mptcp_sock *msk, enum mprun_tier wanted, u32 epsilon)
{
	u32 number = msk->mprun.number, least_share;
	struct mptcp_subflow_context *subflow;
	u64 slowest = U64_MAX, best = 0;

	mptcp_for_each_subflow(msk, subflow) {
		if (mprun_usable(subflow, wanted)) {
			slowest = min(slowest, subflow->mprun.rate);
			best = max(best, subflow->mprun.rate);
		}
	}
	/* the least share of the slowest subflow, in hundredths of a percent */
	least_share = PERCENT * PERCENT / number;
	least_share -= min(least_share, epsilon * (number - 1) * PERCENT);
	return slowest * PERCENT * PERCENT < best * least_share;
}

static void end_window(struct mptcp_sock *msk, enum mprun_tier wanted, u32 epsilon)
{
	u64 now_us = ktime_get_ns() / NSEC_PER_USEC, length_us;
	struct mptcp_subflow_context *subflow;

	if (now_us < msk->mprun.window_end_us)
		return;
	length_us = now_us - msk->mprun.window_end_us + WINDOW_US;
	mptcp_for_each_subflow(msk, subflow) {
		const struct tcp_sock *tp = tcp_sk(mptcp_subflow_tcp_sock(subflow));
		u64 bits = (u64)(tp->delivered - subflow->mprun.delivered) * tp->mss_cache * BITS_PER_BYTE;

		if (msk->mprun.free)
			subflow->mprun.rate = div64_u64(bits * USEC_PER_SEC, length_us);
		subflow->mprun.delivered = tp->delivered;
	}
	if (msk->mprun.free) {
		msk->mprun.free = falls_below_best(msk, wanted, epsilon);
		msk->mprun.windows_held = 0;
	} else if (++msk->mprun.windows_held >= WINDOWS_HELD) {
		msk->mprun.free = true;
	}
	msk->mprun.window_end_us = now_us + WINDOW_US;
}

/* counted / total > 1/n + epsilon */
static bool beyond_share(const struct mptcp_sock *msk, const struct mptcp_subflow_context *subflow, u32 epsilon)
{
	u32 n = msk->mprun.number;

	return subflow->mprun.counted * n * PERCENT > msk->mprun.counted * (PERCENT + n * epsilon);
}

void mprun_pushed(struct mptcp_sock *msk, struct sock *ssk, int bytes)
{
	if (msk->recovery)
		return;
	mptcp_subflow_ctx(ssk)->mprun.counted += bytes;
	msk->mprun.counted += bytes;
}

static int balanced_get_send(struct mptcp_sock *msk)
{
	const struct mprun_settings *settings = mprun_settings(msk);
	struct mptcp_subflow_context *subflow, *best = NULL;
	bool is_free = false;
	enum mprun_tier wanted;

	wanted = mprun_best_tier(msk);
	if (wanted == MPRUN_CANNOT_SEND)
		return -EINVAL;
	watch_members(msk, wanted);
	if (settings->balanced_floor) {
		end_window(msk, wanted, settings->balanced_epsilon);
		is_free = msk->mprun.free;
	}
	mptcp_for_each_subflow(msk, subflow) {
		if (!mprun_usable(subflow, wanted) || !mprun_room(mptcp_subflow_tcp_sock(subflow)))
			continue;
		if (!is_free && beyond_share(msk, subflow, settings->balanced_epsilon))
			continue;
		if (!best || subflow->mprun.counted < best->mprun.counted)
			best = subflow;
	}
	return mprun_choose(msk, best, 1);
}

static void balanced_init(struct mptcp_sock *msk)
{
	msk->mprun.push.exact = true;
}

MPRUN_SCHEDULER(mprun_balanced, balanced_get_send,
	.init		= balanced_init,
	.name		= "balanced");

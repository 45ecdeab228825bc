// SPDX-License-Identifier: GPL-2.0-only
/*
 * redundant: every subflow sends all data that the peer has not acknowledged yet.
 *
 * Each subflow sends the data independently, as fast as its congestion window allows, and skips what
 * the peer has acknowledged meanwhile. The first subflow that reaches new data sends it first, so the
 * fastest path alone determines the connection's rate.
 */
#include <linux/minmax.h>

#include "mprun_sched.h"

/* Return the next data of a subflow: not before what is acknowledged, and not after what no subflow has sent. */
static u64 next_of(const struct mptcp_sock *msk, struct mptcp_subflow_context *subflow)
{
	const struct mptcp_data_frag *head = mptcp_send_head((const struct sock *)msk);
	u64 una = READ_ONCE(msk->snd_una);
	u64 next = subflow->mprun.next_seq;

	if (!subflow->mprun.begun || before64(next, una))
		next = una;
	if (head && after64(next, head->data_seq + head->already_sent))
		next = head->data_seq + head->already_sent;
	return next;
}

static bool has_work(const struct mptcp_sock *msk, struct mptcp_subflow_context *subflow)
{
	return mptcp_send_head((const struct sock *)msk) || before64(next_of(msk, subflow), READ_ONCE(msk->snd_nxt));
}

bool mprun_sends_copies(const struct mptcp_sock *msk)
{
	return msk->mprun.push.copies && !__mptcp_check_fallback(msk);
}

/* Return true if some subflow has data to send. For other schedulers: if there is unsent data. */
bool mprun_to_send(struct sock *sk)
{
	struct mptcp_sock *msk = mptcp_sk(sk);
	struct mptcp_subflow_context *subflow;

	if (mptcp_send_head(sk))
		return true;
	if (!mprun_sends_copies(msk))
		return false;
	mptcp_for_each_subflow(msk, subflow) {
		if (mptcp_subflow_active(subflow) && has_work(msk, subflow))
			return true;
	}
	return false;
}

static struct mptcp_data_frag *fragment_at(struct mptcp_sock *msk, u64 seq)
{
	struct mptcp_data_frag *dfrag;

	list_for_each_entry(dfrag, &msk->rtx_queue, list) {
		if (before64(seq, dfrag->data_seq + dfrag->data_len))
			return before64(seq, dfrag->data_seq) ? NULL : dfrag;
	}
	return NULL;
}

/* Used instead of mainline's __subflow_push_pending(): send as many segments as there is room for. */
int mprun_push_copies(struct sock *sk, struct sock *ssk, struct mptcp_sendmsg_info *info)
{
	struct mptcp_subflow_context *subflow = mptcp_subflow_ctx(ssk);
	struct mptcp_sock *msk = mptcp_sk(sk);
	int left = mprun_room(ssk) * tcp_current_mss(ssk);
	int sent = 0;

	while (left > 0) {
		u64 next = next_of(msk, subflow);
		struct mptcp_data_frag *dfrag = fragment_at(msk, next);
		u32 offset, end;
		bool is_new;
		int ret;

		if (!dfrag)
			break;
		offset = next - dfrag->data_seq;
		is_new = dfrag == mptcp_send_head(sk) && offset == dfrag->already_sent;
		end = is_new ? dfrag->data_len : dfrag->already_sent;
		if (offset >= end)
			break;
		info->sent = offset;
		info->limit = min_t(u32, end, offset + left);
		ret = mptcp_sendmsg_frag(sk, ssk, dfrag, info);
		if (ret <= 0)
			return sent ?: ret;
		if (is_new) {
			mptcp_update_post_push(msk, dfrag, ret);
			if (dfrag->already_sent >= dfrag->data_len)
				msk->first_pending = mptcp_send_next(sk);
		} else {
			msk->bytes_retrans += ret;
		}
		subflow->mprun.next_seq = next + ret;
		subflow->mprun.begun = true;
		sent += ret;
		left -= ret;
	}
	if (sent)
		msk->last_data_sent = tcp_jiffies32;
	return sent;
}

static int redundant_get_send(struct mptcp_sock *msk)
{
	struct mptcp_subflow_context *subflow;
	enum mprun_tier wanted;
	int chosen = 0;

	wanted = mprun_best_tier(msk);
	mptcp_set_timeout((struct sock *)msk);
	mptcp_for_each_subflow(msk, subflow) {
		if (!mprun_usable(subflow, wanted) || !has_work(msk, subflow) ||
		    !mprun_room(mptcp_subflow_tcp_sock(subflow)))
			continue;
		mptcp_subflow_set_scheduled(subflow, true);
		chosen++;
	}
	return chosen ? 0 : -EINVAL;
}

static void redundant_init(struct mptcp_sock *msk)
{
	msk->mprun.push.copies = true;
}

MPRUN_SCHEDULER(mprun_redundant, redundant_get_send,
	.init		= redundant_init,
	.name		= "redundant");

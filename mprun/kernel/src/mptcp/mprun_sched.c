// SPDX-License-Identifier: GPL-2.0-only
/*
 * Packet schedulers of MPTCP in addition to mainline's: their common parts, and the two simplest.
 *
 * Mainline gives whole data fragments to a subflow, beyond its congestion window, and lets them wait
 * there. These schedulers give segments, and only as many as a subflow may send at once. If no subflow
 * has room, they wait for the next acknowledgement. Backups are used when no other subflow works. A
 * subflow whose retransmission timer has expired is used only when there is nothing better.
 *
 * lowest-rtt: the subflow with the lowest smoothed RTT that has room.
 * roundrobin: one subflow after the other, net.mptcp.roundrobin_segments each; subflows without room are skipped.
 */
#include <linux/minmax.h>
#include <linux/sysctl.h>
#include <net/netns/generic.h>

#include "mprun_sched.h"

/* The most segments at a time, as in mainline's bursts. */
#define MOST_SEGMENTS	44

static unsigned int settings_id;

const struct mprun_settings *mprun_settings(const struct mptcp_sock *msk)
{
	return net_generic(sock_net((const struct sock *)msk), settings_id);
}

u32 mprun_room(const struct sock *ssk)
{
	const struct tcp_sock *tp = tcp_sk(ssk);
	u32 window, used;

	if (!sk_stream_memory_free(ssk))
		return 0;
	window = tcp_snd_cwnd(tp);
	used = tcp_packets_in_flight(tp) +
	       DIV_ROUND_UP(READ_ONCE(tp->write_seq) - READ_ONCE(tp->snd_nxt), max(tp->mss_cache, 1U));
	return window > used ? window - used : 0;
}

u32 mprun_srtt(const struct sock *ssk)
{
	u32 srtt_eighths = READ_ONCE(tcp_sk(ssk)->srtt_us);

	/* in simulated time a path may have an RTT of zero */
	return srtt_eighths ? srtt_eighths >> 3 : U32_MAX;
}

static enum mprun_tier tier_of(struct mptcp_subflow_context *subflow)
{
	struct sock *ssk = mptcp_subflow_tcp_sock(subflow);

	if (!mptcp_subflow_active(subflow))
		return MPRUN_CANNOT_SEND;
	if (inet_csk(ssk)->icsk_ca_state == TCP_CA_Loss)
		return MPRUN_TIMER_EXPIRED;
	return subflow->backup || subflow->request_bkup ? MPRUN_BACKUP : MPRUN_FOR_USE;
}

enum mprun_tier mprun_best_tier(struct mptcp_sock *msk)
{
	struct mptcp_subflow_context *subflow;
	enum mprun_tier best = MPRUN_CANNOT_SEND;

	mptcp_for_each_subflow(msk, subflow)
		best = max(best, tier_of(subflow));
	return best;
}

bool mprun_usable(struct mptcp_subflow_context *subflow, enum mprun_tier wanted)
{
	return wanted != MPRUN_CANNOT_SEND && tier_of(subflow) == wanted;
}

struct mptcp_subflow_context *mprun_fastest(struct mptcp_sock *msk, bool with_room)
{
	struct mptcp_subflow_context *subflow, *best = NULL;
	enum mprun_tier wanted = mprun_best_tier(msk);

	mptcp_for_each_subflow(msk, subflow) {
		struct sock *ssk = mptcp_subflow_tcp_sock(subflow);

		if (!mprun_usable(subflow, wanted) || (with_room && !mprun_room(ssk)))
			continue;
		if (!best || mprun_srtt(ssk) < mprun_srtt(mptcp_subflow_tcp_sock(best)))
			best = subflow;
	}
	return best;
}

int mprun_choose(struct mptcp_sock *msk, struct mptcp_subflow_context *subflow, u32 segments)
{
	mptcp_set_timeout((struct sock *)msk);
	if (!subflow)
		return -EINVAL;
	msk->mprun.push.segments = clamp_t(u32, segments, 1, MOST_SEGMENTS);
	/* converted to bytes once the subflow is locked and its segment size is known */
	msk->snd_burst = 1;
	msk->mprun.last = subflow->subflow_id;
	mptcp_subflow_set_scheduled(subflow, true);
	return 0;
}

int mprun_reinject(struct mptcp_sock *msk)
{
	struct sock *ssk = mptcp_subflow_get_retrans(msk);

	if (!ssk)
		return -EINVAL;
	mptcp_subflow_set_scheduled(mptcp_subflow_ctx(ssk), true);
	return 0;
}

/* -- called by the push path */

void mprun_init_msk(struct mptcp_sock *msk)
{
	memset(&msk->mprun, 0, sizeof(msk->mprun));
	INIT_LIST_HEAD(&msk->mprun.coupled);
}

/* Return the end of this fragment's part that the subflow may send. After a fallback to TCP no scheduler is asked. */
int mprun_push_limit(struct mptcp_sock *msk, struct sock *ssk, const struct mptcp_data_frag *dfrag)
{
	struct mprun_push *push = &msk->mprun.push;

	if (!push->exact || __mptcp_check_fallback(msk))
		return dfrag->data_len;
	if (push->segments) {
		push->segment_bytes = tcp_current_mss(ssk);
		msk->snd_burst = push->segments * push->segment_bytes;
		push->segments = 0;
	}
	return min_t(int, dfrag->data_len, dfrag->already_sent + max(msk->snd_burst, 0));
}

/* -- lowest-rtt */

static void exact_init(struct mptcp_sock *msk)
{
	msk->mprun.push.exact = true;
}

static int lowest_rtt_get_send(struct mptcp_sock *msk)
{
	struct mptcp_subflow_context *best;

	best = mprun_fastest(msk, true);
	return mprun_choose(msk, best, best ? mprun_room(mptcp_subflow_tcp_sock(best)) : 0);
}

MPRUN_SCHEDULER(mprun_lowest_rtt, lowest_rtt_get_send,
	.init		= exact_init,
	.name		= "lowest-rtt");

/* -- roundrobin */

/* Return the whole segments that are left of the last subflow's turn. */
static u32 turn_left(const struct mptcp_sock *msk)
{
	return max(msk->snd_burst, 0) / max(msk->mprun.push.segment_bytes, 1U);
}

static int roundrobin_get_send(struct mptcp_sock *msk)
{
	struct mptcp_subflow_context *subflow, *next = NULL;
	u32 quota = mprun_settings(msk)->roundrobin_segments;
	u32 last = msk->mprun.last, segments = quota;
	enum mprun_tier wanted;

	wanted = mprun_best_tier(msk);
	mptcp_for_each_subflow(msk, subflow) {
		struct sock *ssk = mptcp_subflow_tcp_sock(subflow);

		if (!mprun_usable(subflow, wanted) || !mprun_room(ssk))
			continue;
		if (subflow->subflow_id == last && turn_left(msk)) {
			next = subflow;
			segments = turn_left(msk);
			break;
		}
		/* in the order of their numbers, starting after the last one */
		if (!next || subflow->subflow_id - last - 1 < next->subflow_id - last - 1)
			next = subflow;
	}
	if (next)
		segments = min(segments, mprun_room(mptcp_subflow_tcp_sock(next)));
	return mprun_choose(msk, next, segments);
}

MPRUN_SCHEDULER(mprun_roundrobin, roundrobin_get_send,
	.init		= exact_init,
	.name		= "roundrobin");

/* -- settings and registration */

static unsigned int most_percent = 50, most_segments = MOST_SEGMENTS;

static const struct ctl_table settings_table[] = {
	{
		.procname	= "roundrobin_segments",
		.maxlen		= sizeof(unsigned int),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ONE,
		.extra2		= &most_segments,
	},
	{
		.procname	= "balanced_epsilon",
		.maxlen		= sizeof(unsigned int),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ZERO,
		.extra2		= &most_percent,
	},
	{
		.procname	= "balanced_floor",
		.maxlen		= sizeof(unsigned int),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ZERO,
		.extra2		= SYSCTL_ONE,
	},
};

struct settings_of_net {
	struct mprun_settings values;	/* the first, for mprun_settings() */
	struct ctl_table_header *header;
	struct ctl_table table[ARRAY_SIZE(settings_table)];
};

static int __net_init settings_init(struct net *net)
{
	struct settings_of_net *here = net_generic(net, settings_id);

	here->values = (struct mprun_settings){ .roundrobin_segments = 1, .balanced_epsilon = 5 };
	memcpy(here->table, settings_table, sizeof(settings_table));
	here->table[0].data = &here->values.roundrobin_segments;
	here->table[1].data = &here->values.balanced_epsilon;
	here->table[2].data = &here->values.balanced_floor;
	here->header = register_net_sysctl_sz(net, "net/mptcp", here->table, ARRAY_SIZE(here->table));
	return here->header ? 0 : -ENOMEM;
}

static void __net_exit settings_exit(struct net *net)
{
	struct settings_of_net *here = net_generic(net, settings_id);

	unregister_net_sysctl_table(here->header);
}

static struct pernet_operations settings_ops = {
	.init	= settings_init,
	.exit	= settings_exit,
	.id	= &settings_id,
	.size	= sizeof(struct settings_of_net),
};

void mprun_register_schedulers(void)
{
	if (register_pernet_subsys(&settings_ops) < 0)
		panic("mprun: no settings of the schedulers\n");
	mptcp_register_scheduler(&mprun_lowest_rtt);
	mptcp_register_scheduler(&mprun_roundrobin);
	mptcp_register_scheduler(&mprun_redundant);
	mptcp_register_scheduler(&mprun_balanced);
	mptcp_register_scheduler(&mprun_blest);
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * A line that sends bit by bit. It replaces tbf's bucket if the bucket holds exactly one frame.
 *
 * tbf lets a frame pass at once when its bucket is full, and makes the next frame wait. A frame that
 * finds the link idle therefore takes no time on it, and every frame arrives early by the time of a
 * full bucket. On a line, a frame begins when the previous frame has been sent, or on its arrival if
 * the line is idle. It leaves when its last bit has been sent:
 *
 *   begin(n) = max(arrival(n), end(n - 1)),  end(n) = begin(n) + length(n) / rate
 *
 * The frame that is being sent is not in the queue below and does not count as waiting, like the frame
 * in the transmitter of a network card. The queue therefore has its full configured size.
 */
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/mprun.h>
#include <net/pkt_sched.h>
#include <net/sch_generic.h>

/*
 * Return true if a tbf is such a line. Its bucket must be exactly one frame. Its parent must be the
 * interface itself or netem, which do not depend on waiting frames.
 */
bool mprun_is_line(struct Qdisc *sch, u32 bucket, bool has_peak)
{
	struct Qdisc *parent;

	if (has_peak || bucket != psched_mtu(qdisc_dev(sch)))
		return false;
	if (sch->parent == TC_H_ROOT)
		return true;
	parent = qdisc_lookup(qdisc_dev(sch), TC_H_MAJ(sch->parent));
	return parent && !strcmp(parent->ops->id, "netem");
}

/* Return the frame whose last bit has been sent by now. If there is none, return NULL and set the watchdog. */
struct sk_buff *mprun_line_dequeue(struct mprun_line *line, struct Qdisc *sch, struct Qdisc *queue,
				   const struct psched_ratecfg *rate, struct qdisc_watchdog *watchdog)
{
	u64 now = ktime_get_ns();
	struct sk_buff *frame;

	if (!line->frame) {
		frame = qdisc_dequeue_peeked(queue);
		if (!frame) {
			line->is_busy = false;
			return NULL;
		}
		qdisc_qstats_backlog_dec(sch, frame);
		sch->q.qlen--;
		/* a frame behind another begins when that one ended, as timers are late by up to a step of the clock */
		if (!line->is_busy)
			line->end = now;
		line->end += psched_l2t_ns(rate, qdisc_pkt_len(frame));
		line->is_busy = true;
		line->frame = frame;
	}
	if (line->end > now) {
		qdisc_watchdog_schedule_ns(watchdog, line->end);
		qdisc_qstats_overlimit(sch);
		return NULL;
	}
	frame = line->frame;
	line->frame = NULL;
	qdisc_bstats_update(sch, frame);
	return frame;
}

/* The rest of the frame is sent at the new rate. */
void mprun_line_change(struct mprun_line *line, u64 old_bytes_per_s, u64 new_bytes_per_s)
{
	u64 now = ktime_get_ns();

	if (line->frame && line->end > now && new_bytes_per_s)
		line->end = now + mul_u64_u64_div_u64(line->end - now, old_bytes_per_s, new_bytes_per_s);
}

/* Make the line idle. The frame on it is lost. */
void mprun_line_reset(struct mprun_line *line)
{
	kfree_skb(line->frame);
	*line = (struct mprun_line){};
}

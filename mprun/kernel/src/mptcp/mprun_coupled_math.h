/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The increases and decreases of coupled congestion controls, in integers. This file uses only types
 * and division of the kernel, so that the formulas can be tested separately.
 *
 * Windows w are in segments, round-trip times in us, and results in MPRUN_ONE-ths of a segment for
 * each acknowledged segment. With s_r = sum over p of w_p * rtt_r / rtt_p,
 *
 * 	max_p(w_p / rtt_p^2) / (sum_p w_p / rtt_p)^2  =  w_b / s_b^2
 *
 * where b is the subflow with the maximum. The same holds for any other subflow. s is computed in
 * 1024ths, so that its square fits for windows up to 100000 segments.
 */
#ifndef __MPRUN_COUPLED_MATH_H
#define __MPRUN_COUPLED_MATH_H

#ifdef __KERNEL__
#include <linux/math64.h>
#include <linux/types.h>
#define mprun_div(a, b)	div64_u64(a, b)
#else
#define mprun_div(a, b)	((a) / (b))
#endif

#define MPRUN_SHIFT	24
#define MPRUN_ONE	(1LL << MPRUN_SHIFT)
#define MPRUN_S_SHIFT	10
/* the kernel's own limit of subflows is 8 in addition to the first */
#define MPRUN_MOST	16

struct mprun_path {
	u32 window;
	u32 rtt_us;
	/* segments between the last two losses, or since the last loss if these are more */
	u64 between_losses;
};

/* a / rtt_a^2 > b / rtt_b^2 */
static inline int mprun_is_more(u64 a, u32 rtt_a_us, u64 b, u32 rtt_b_us)
{
	return (unsigned __int128)a * ((u64)rtt_b_us * rtt_b_us) > (unsigned __int128)b * ((u64)rtt_a_us * rtt_a_us);
}

/* s_r, in 1024ths */
static inline u64 mprun_sum(const struct mprun_path *paths, int number, int r)
{
	u64 s = 0;
	int p;

	for (p = 0; p < number; p++)
		s += mprun_div(((u64)paths[p].window << MPRUN_S_SHIFT) * paths[r].rtt_us, paths[p].rtt_us);
	return s;
}

/* w_r / s_r^2, in MPRUN_ONE-ths */
static inline s64 mprun_share(const struct mprun_path *paths, int number, int r)
{
	u64 s = mprun_sum(paths, number, r);

	if (!s)
		return 0;
	return mprun_div((u64)paths[r].window << (MPRUN_SHIFT + 2 * MPRUN_S_SHIFT), s * s);
}

static inline s64 mprun_reno(const struct mprun_path *path)
{
	return mprun_div(MPRUN_ONE, path->window ? path->window : 1);
}

/* RFC 6356 section 3: min(alpha / w_total, 1 / w_r). */
static inline s64 mprun_lia(const struct mprun_path *paths, int number, int r)
{
	s64 coupled, alone = mprun_reno(&paths[r]);
	int p, b = 0;

	for (p = 1; p < number; p++) {
		if (mprun_is_more(paths[p].window, paths[p].rtt_us, paths[b].window, paths[b].rtt_us))
			b = p;
	}
	coupled = mprun_share(paths, number, b);
	return coupled < alone ? coupled : alone;
}

/*
 * draft-khalili-mptcp-congestion-control-05: w_r / rtt_r^2 / (sum w_p / rtt_p)^2 + alpha_r / w_r.
 * alpha moves window from the subflows with the largest window to the best subflows without the
 * largest window. The best have the most segments between two losses, divided by the square of the
 * RTT.
 */
static inline s64 mprun_olia(const struct mprun_path *paths, int number, int r)
{
	int p, best = 0, largest_number = 0, wanting = 0, is_best[MPRUN_MOST];
	u32 largest = 0;
	s64 alpha = 0;

	for (p = 0; p < number; p++) {
		if (paths[p].window > largest)
			largest = paths[p].window;
		if (mprun_is_more(paths[p].between_losses, paths[p].rtt_us,
				  paths[best].between_losses, paths[best].rtt_us))
			best = p;
	}
	for (p = 0; p < number; p++) {
		is_best[p] = p == best;
		if (paths[p].window == largest)
			largest_number++;
		else
			wanting += is_best[p];
	}
	if (wanting && is_best[r] && paths[r].window < largest)
		alpha = MPRUN_ONE / number / wanting;
	else if (wanting && paths[r].window == largest)
		alpha = -MPRUN_ONE / number / largest_number;
	return mprun_share(paths, number, r) + alpha / (s64)(paths[r].window ? paths[r].window : 1);
}

/* alpha_r = max_p(x_p) / x_r with x = w / rtt, in 1024ths */
static inline u64 mprun_balia_alpha(const struct mprun_path *paths, int number, int r)
{
	u64 own = mprun_div((u64)paths[r].window << 32, paths[r].rtt_us), most = own;
	int p;

	for (p = 0; p < number; p++) {
		u64 rate = mprun_div((u64)paths[p].window << 32, paths[p].rtt_us);

		most = rate > most ? rate : most;
	}
	return own ? mprun_div(most << 10, own) : 1024;
}

/*
 * draft-walid-mptcp-congestion-control-04: w_r / s_r^2 * (1 + alpha) / 2 * (4 + alpha) / 5, computed
 * as w_r / 10 * ((1 + alpha) / s_r) * ((4 + alpha) / s_r), because s_r may be as large as alpha.
 */
static inline s64 mprun_balia(const struct mprun_path *paths, int number, int r)
{
	u64 alpha = mprun_balia_alpha(paths, number, r), s = mprun_sum(paths, number, r);
	unsigned __int128 grown;

	if (!s)
		return 0;
	if (alpha > 1ULL << 30)
		alpha = 1ULL << 30;
	grown = (unsigned __int128)mprun_div((1024 + alpha) << 30, s) * mprun_div((4 * 1024 + alpha) << 30, s);
	grown = (grown * paths[r].window) >> (60 - MPRUN_SHIFT);
	/* at most one whole segment */
	return grown < 10 * MPRUN_ONE ? (s64)mprun_div((u64)grown, 10) : MPRUN_ONE;
}

/* The same draft: the window after a loss, w_r - w_r / 2 * min(alpha, 1.5). */
static inline u32 mprun_balia_after_loss(const struct mprun_path *paths, int number, int r)
{
	u64 alpha = mprun_balia_alpha(paths, number, r);

	if (alpha > 1536)
		alpha = 1536;
	return paths[r].window - (u32)(((u64)paths[r].window * alpha) >> 11);
}

#endif

// SPDX-License-Identifier: GPL-2.0-only
/*
 * Correlated random numbers for netem's delays, uniform over 32 bits.
 *
 * netem mixes each number with the previous one, which narrows the spread at large correlations. Then
 * it takes a remainder, which removes the correlation. Here a normal variable keeps the share rho of
 * itself from one packet to the next (AR(1)). The value of its distribution function is the number, so
 * the spread does not change.
 */
#include <linux/kernel.h>
#include <linux/math.h>
#include <linux/mprun.h>
#include <linux/prandom.h>

#define ONE (1 << 16)
#define MOST (6 * ONE)

/* The normal distribution function at 0, 1/16, 2/16 ... 6, times 2^32. */
static const u32 distribution[] = {
	0x80000000, 0x8661011e, 0x8cbba4f1, 0x9309a137, 0x9944d159, 0x9f67485d, 0xa56b61c0, 0xab4bd0ec,
	0xb103af12, 0xb68e870f, 0xbbe85f54, 0xc10dc188, 0xc5fbbff5, 0xcaaff89e, 0xcf289615, 0xd3644e2b,
	0xd7625e89, 0xdb22876e, 0xdea504be, 0xe1ea85a2, 0xe4f422ed, 0xe7c3549c, 0xea59e69c, 0xecb9ed31,
	0xeee5b927, 0xf0dfcc21, 0xf2aacd20, 0xf4497d8d, 0xf5beaedf, 0xf70d3906, 0xf837f1ac, 0xf941a473,
	0xfa2d0c1f, 0xfafcccca, 0xfbb36f12, 0xfc535c42, 0xfcdedb62, 0xfd580f2a, 0xfdc0f4bc, 0xfe1b6314,
	0xfe690b1b, 0xfeab7841, 0xfee41194, 0xff141b2a, 0xff3cb7de, 0xff5eeb43, 0xff7b9bb8, 0xff939499,
	0xffa78878, 0xffb8134d, 0xffc5bca1, 0xffd0f9a3, 0xffda2f20, 0xffe1b361, 0xffe7cfe4, 0xffecc2f5,
	0xfff0c122, 0xfff3f688, 0xfff68804, 0xfff8943f, 0xfffa349b, 0xfffb7dfe, 0xfffc8191, 0xfffd4d53,
	0xfffdeca5, 0xfffe68bc, 0xfffec901, 0xffff1368, 0xffff4cad, 0xffff7898, 0xffff9a23, 0xffffb3a8,
	0xffffc6ff, 0xffffd599, 0xffffe094, 0xffffe8cd, 0xffffeef0, 0xfffff37f, 0xfffff6df, 0xfffff95d,
	0xfffffb31, 0xfffffc87, 0xfffffd81, 0xfffffe36, 0xfffffeb9, 0xffffff18, 0xffffff5c, 0xffffff8c,
	0xffffffae, 0xffffffc7, 0xffffffd8, 0xffffffe4, 0xffffffed, 0xfffffff3, 0xfffffff7, 0xfffffffa,
	0xfffffffc,
};

/* Return a standard normal variable times 2^16: the sum of twelve uniform variables. */
static s32 draw_normal(struct rnd_state *random)
{
	s32 sum = -MOST;
	int i;

	for (i = 0; i < 6; i++) {
		u32 two = prandom_u32_state(random);

		sum += (two & 0xffff) + (two >> 16);
	}
	return sum;
}

/* Return the distribution function at z times 2^-16, times 2^32. */
static u32 spread(s32 z)
{
	u32 size = min_t(u32, abs(z), MOST - 1), step = size >> 12, rest = size & 0xfff;
	u32 value = distribution[step] + (((u64)(distribution[step + 1] - distribution[step]) * rest) >> 12);

	return z < 0 ? ~value : value;
}

u32 mprun_correlated(u32 rho, s32 *last, struct rnd_state *random)
{
	u32 keep = rho >> 16, renew = int_sqrt64((u64)ONE * ONE - (u64)keep * keep);

	/* netem starts with any number; begin with a normal one */
	if (abs(*last) > MOST)
		*last = draw_normal(random);
	*last = ((s64)keep * *last + (s64)renew * draw_normal(random)) >> 16;
	return spread(*last);
}

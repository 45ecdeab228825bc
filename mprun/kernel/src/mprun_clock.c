// SPDX-License-Identifier: GPL-2.0-only
/*
 * A clock that programs read without a system call.
 *
 * In time-travel=inf-cpu simulated time stands still while a program runs. A page with the time of each
 * clock is therefore exact until the program's next system call or fault. The kernel writes the page
 * before it resumes a program, and maps it below the vDSO of each process.
 *
 * A reading lets 256 ns pass, as the system call does, but not for the agent. The vDSO counts the readings
 * in the page and adds the step in the page for each of them. The kernel lets this time pass when the program stops next. A loop that only
 * reads the clock makes a system call after MPRUN_READINGS readings, so the rules for programs that poll
 * (see mprun_time.c) hold for it.
 *
 * One page serves all processes, because only one of them runs at a time. A program can write into the
 * page, but the kernel writes all of it again before another program runs.
 *
 * SIGXCPU stops a program at a moment that depends on the host. The kernel leaves the page as it is then.
 */
#include <linux/gfp.h>
#include <linux/init.h>
#include <linux/irqflags.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/mprun.h>
#include <linux/mprun_clock.h>
#include <linux/timekeeping.h>

static struct mprun_clock_page *page;
static struct page *pages[2];
/* The program that runs next needs a new page. */
static bool is_stale = true;

static int __init allocate(void)
{
	page = (void *)get_zeroed_page(GFP_KERNEL);
	if (!page)
		return -ENOMEM;
	pages[0] = virt_to_page(page);
	return 0;
}
subsys_initcall(allocate);

struct vm_area_struct *mprun_clock_map(struct mm_struct *mm, unsigned long address)
{
	static struct vm_special_mapping mapping = { .name = "[vvar]", .pages = pages };

	return _install_special_mapping(mm, address, PAGE_SIZE,
					VM_READ | VM_WRITE | VM_SHARED | VM_MAYREAD | VM_MAYWRITE | VM_MAYSHARE |
					VM_DONTEXPAND | VM_DONTDUMP, &mapping);
}

void mprun_clock_take(void)
{
	unsigned int readings;

	is_stale = true;
	readings = min_t(u64, READ_ONCE(page->readings), MPRUN_READINGS);
	if (!readings)
		return;
	page->readings = 0;
	mprun_clock_read(readings);
}

void mprun_clock_write(void)
{
	unsigned long flags;
	ktime_t monotonic;

	if (!is_stale)
		return;
	is_stale = false;
	/* with interrupts disabled, to read the clock does not advance it */
	local_irq_save(flags);
	monotonic = ktime_get();
	page->version++;
	page->readings = 0;
	page->step = mprun_is_observer() ? 0 : MPRUN_READING_NS;
	page->now[CLOCK_MONOTONIC] = monotonic;
	page->now[CLOCK_REALTIME] = ktime_mono_to_real(monotonic);
	page->now[CLOCK_BOOTTIME] = ktime_mono_to_any(monotonic, TK_OFFS_BOOT);
	page->now[CLOCK_MONOTONIC_RAW] = ktime_get_raw();
	page->now[CLOCK_MONOTONIC_COARSE] = ktime_get_coarse_ns();
	page->now[CLOCK_REALTIME_COARSE] = ktime_get_coarse_real_ns();
	local_irq_restore(flags);
}

/* Called in any context, and by the tracer itself: neither locks nor trace events are allowed. */
u64 notrace mprun_trace_ns(void)
{
	unsigned long flags;
	u64 now;

	/* with interrupts disabled, to read the clock does not advance it */
	raw_local_irq_save(flags);
	now = ktime_get_mono_fast_ns();
	raw_local_irq_restore(flags);
	return now;
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * Page faults of programs, several pages at once.
 *
 * A page fault is one of the most expensive stops of a program. Mainline maps several pages of a file
 * with one fault, but only one page of anonymous memory (a heap) unless it has huge pages, which
 * User-Mode Linux does not have. Here a write to a fresh page of anonymous memory also maps the rest of
 * its block of AROUND pages, as if the program wrote to them next. It does so only while much memory is
 * free, so it ends no program for lack of memory.
 */
#include <linux/mm.h>
#include <linux/mprun.h>
#include <linux/pgtable.h>
#include <linux/vmstat.h>

#define AROUND		16
#define BLOCK		(AROUND * PAGE_SIZE)
/* the part of all memory that must be free */
#define FREE_PART	4

static bool is_writable(struct mm_struct *mm, unsigned long address)
{
	pmd_t *pmd = pmd_off(mm, address);
	pte_t pte;

	if (!pmd_present(*pmd))
		return false;
	pte = ptep_get(pte_offset_kernel(pmd, address));
	return pte_present(pte) && pte_write(pte) && pte_dirty(pte);
}

/*
 * Memory whose pages may be mapped before the program writes to them: its own, and a ring that it shares
 * with the kernel (packet(7)). Pages of a shared file would be written back to it.
 */
static bool is_suited(struct vm_area_struct *vma)
{
	if (vma->vm_flags & VM_SHARED)
		return vma->vm_flags & VM_MIXEDMAP;
	return !(vma->vm_flags & VM_GROWSDOWN);
}

void mprun_fault_around(struct vm_area_struct *vma, unsigned long address, unsigned int flags)
{
	unsigned int wanted = FAULT_FLAG_USER | FAULT_FLAG_WRITE;
	unsigned long end = min(vma->vm_end, round_down(address, BLOCK) + BLOCK);

	if ((flags & wanted) != wanted || !is_suited(vma))
		return;
	if (global_zone_page_state(NR_FREE_PAGES) < totalram_pages() / FREE_PART)
		return;
	for (address = (address & PAGE_MASK) + PAGE_SIZE; address < end; address += PAGE_SIZE)
		/* without FAULT_FLAG_ALLOW_RETRY, the lock of the memory map is kept */
		if (is_writable(vma->vm_mm, address) || handle_mm_fault(vma, address, wanted, NULL) & VM_FAULT_ERROR)
			break;
}

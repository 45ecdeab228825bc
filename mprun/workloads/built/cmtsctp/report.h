// SPDX-License-Identifier: Apache-2.0
/* The report of one end, as JSON on standard output. */
#ifndef REPORT_H
#define REPORT_H

#include <stdint.h>

/* Print the beginning: the role and the options. */
void print_options(void);
/* Print an interval. Its times count from the association's beginning. */
void print_interval(int64_t start_ns, int64_t end_ns, uint64_t bytes, const char *separator);
/* Print the end: the totals. */
void print_end(int64_t length_ns, uint64_t bytes, uint64_t messages);

#endif

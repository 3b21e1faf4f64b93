/* SPDX-License-Identifier: Apache-2.0 */
#include "control.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CPUS 2
#define DATA_BYTES (64 * 4096) /* 16 bytes a sample, minutes at 99 Hz */
#define PERIOD_NS (1000000000 / 99)

static struct {
	int fd;
	struct perf_event_mmap_page *page;
} cpus[CPUS];

/* The ring's first page, and all of it. */
static size_t page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t ring_bytes(void)
{
	return page_bytes() + DATA_BYTES;
}

int control_begin(void)
{
	struct perf_event_attr a = { .size = sizeof(a),
				     .type = PERF_TYPE_SOFTWARE,
				     .config = PERF_COUNT_SW_CPU_CLOCK,
				     .sample_period = PERIOD_NS,
				     .sample_type = PERF_SAMPLE_TID,
				     .disabled = 1 };
	for (int i = 0; i < CPUS; i++) {
		cpus[i].fd = (int)syscall(SYS_perf_event_open, &a, -1, i, -1, PERF_FLAG_FD_CLOEXEC);
		if (cpus[i].fd < 0)
			return -errno;
		cpus[i].page =
			mmap(NULL, ring_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, cpus[i].fd, 0);
		if (cpus[i].page == MAP_FAILED || ioctl(cpus[i].fd, PERF_EVENT_IOC_ENABLE, 0))
			return -errno;
	}
	return 0;
}

/* Samples in the ring, which is never full. */
static unsigned came(const struct perf_event_mmap_page *page)
{
	const char *data = (const char *)page + page_bytes();
	unsigned n = 0;
	uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
	for (uint64_t at = 0; at < head && at < DATA_BYTES;) {
		struct perf_event_header h;
		/* Records are multiples of 8 and the ring has not wrapped */
		memcpy(&h, data + at, sizeof(h));
		if (!h.size)
			break;
		n += h.type == PERF_RECORD_SAMPLE;
		at += h.size;
	}
	return n;
}

double control_end(void)
{
	double late = 0;
	for (int i = 0; i < CPUS; i++) {
		uint64_t ns = 0;
		if (ioctl(cpus[i].fd, PERF_EVENT_IOC_DISABLE, 0) ||
		    read(cpus[i].fd, &ns, sizeof(ns)) != sizeof(ns))
			late = -1;
		if (late >= 0)
			late += (double)(ns / PERIOD_NS) - came(cpus[i].page);
		munmap(cpus[i].page, ring_bytes());
		close(cpus[i].fd);
	}
	return late;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * results.h - the figures of one run: what was measured, in which unit, what it means
 *
 * The lists make the struct, the table on the terminal, the JSON and `iomap-report list`.
 */
#ifndef REPORT_RESULTS_H
#define REPORT_RESULTS_H

#include <stdint.h>

#include <iomap/backing_dev.h>
#include <iomap/blkdev.h>
#include <iomap/page_cache.h>
#include <iomap/sim.h>

enum result_unit { UNIT_BYTES, UNIT_COUNT, UNIT_NS, UNIT_RATE };

/* X(name, unit, text): integers */
#define RESULT_COUNTS(X)                                                                           \
	X(user_bytes, UNIT_BYTES, "accepted by write calls")                                       \
	X(user_read_bytes, UNIT_BYTES, "given by read calls")                                      \
	X(dirtied_bytes, UNIT_BYTES, "blocks that went from clean to dirty")                       \
	X(data_bytes, UNIT_BYTES, "file data written to the device")                               \
	X(meta_bytes, UNIT_BYTES, "metadata written to the device")                                \
	X(journal_bytes, UNIT_BYTES, "log or journal written to the device")                       \
	X(gc_bytes, UNIT_BYTES, "data moved by cleaning")                                          \
	X(fill_bytes, UNIT_BYTES, "read to complete partly written blocks")                        \
	X(read_bytes, UNIT_BYTES, "read from the device, fill and all")                            \
	X(write_ios, UNIT_COUNT, "write requests of data")                                         \
	X(meta_ios, UNIT_COUNT, "write requests of metadata")                                      \
	X(journal_ios, UNIT_COUNT, "write requests of log or journal")                             \
	X(bandwidth_bytes_per_s, UNIT_RATE, "user_bytes over elapsed_ns")                          \
	X(read_bandwidth_bytes_per_s, UNIT_RATE, "user_read_bytes over elapsed_ns")                \
	X(elapsed_ns, UNIT_NS, "the measured phase")                                               \
	X(sync_ns, UNIT_NS, "the sync after it, whose requests count too")                         \
	X(throttled_ns, UNIT_NS, "sleep of writers for the dirty limits, all together")            \
	X(lock_wait_ns, UNIT_NS, "wait of contexts for allocator locks, all together")             \
	X(device_ios, UNIT_COUNT, "requests of a modelled device: cut at its longest, or merged")  \
	X(device_merged, UNIT_COUNT, "requests of the above two added to one that was there")      \
	X(device_seeks, UNIT_COUNT, "requests that did not begin where its head was")              \
	X(device_seek_ns, UNIT_NS, "of these: until the head was there")                           \
	X(media_bytes, UNIT_BYTES, "written by the medium of a modelled device, units and all")    \
	X(media_read_bytes, UNIT_BYTES, "read by that medium, units to be changed and all")        \
	X(device_queue_max, UNIT_COUNT, "the most requests in that device at a time")              \
	X(device_queue_ns, UNIT_NS, "wait of requests for its service, all together")              \
	X(device_busy_ns, UNIT_NS, "service of its channels, all together")                        \
	X(virtual_ns, UNIT_NS, "the whole simulated run, by its clock")                            \
	X(switches, UNIT_COUNT, "of tasks in it")                                                  \
	X(cpu_busy_ns, UNIT_NS, "work of its CPUs, all together")                                  \
	X(dirty_left_bytes, UNIT_BYTES, "dirty in the cache at the end")                           \
	X(writeback_left_bytes, UNIT_BYTES, "under writeback at the end")

/* X(name, text): ratios, NAN if there is nothing to divide by */
#define RESULT_RATIOS(X)                                                                           \
	X(cache_amplification, "data_bytes / dirtied_bytes")                                       \
	X(fs_amplification, "(data + meta + journal + gc) / user_bytes")

/* X(name, text): further members of "results" that are not one number */
#define RESULT_OTHERS(X)                                                                           \
	X(io_size_hist, "data writes by size: \"4096\" counts those of 4096 to 8191 bytes")        \
	X(folio_order_hist, "folios by order, since the cache was last empty")                     \
	X(contexts, "each writeback context: inodes, bytes, busy_ns, lock_wait_ns, ...")           \
	X(nr_wb_ctx, "writeback contexts")                                                         \
	X(extents, "of all files: merged as filefrag counts, unmerged as records")                 \
	X(cpu, "simulated: tasks and busy_ns of each kind of task")                                \
	X(lock_waits, "simulated: waits and wait_ns of each class of locks")                       \
	X(channels, "busy_ns of each channel of a modelled device")                                \
	X(more, "figures that only one experiment has")                                            \
	X(content_xxh3, "of all files' contents, where they are read back")

#define RESULT_MORE 16

struct results {
#define X(name, unit, text) uint64_t name;
	RESULT_COUNTS(X)
#undef X
#define X(name, text) double name;
	RESULT_RATIOS(X)
#undef X
	uint64_t write_hist[BLKDEV_HIST_BUCKETS]; /* bucket b: sizes in [2^b, 2^(b+1)) */
	uint64_t folios[PAGE_CACHE_ORDERS];
	struct wb_stats contexts[WB_CTX_MAX];
	unsigned int nr_wb_ctx;
	struct blkdev_model_stats model; /* channels: 0 if the device is none */
	unsigned int nr_kinds;
	struct env_sim_task_use kinds[ENV_SIM_MAX_KINDS];
	unsigned int nr_locks;
	struct env_sim_lock_use locks[ENV_SIM_MAX_KINDS];
	double more[RESULT_MORE]; /* what only its experiment knows the meaning of */
	unsigned int nr_more;
	uint64_t extents_merged;
	uint64_t extents_unmerged;
	uint64_t trace_hash; /* simulated: of all events, in their order */
	uint64_t content_xxh3; /* 0: not read back */
};

/* Fill in what follows from the other figures. */
void results_derive(struct results *results);

/* 0 if nothing was sent. */
static inline uint64_t results_mean_request(const struct results *results)
{
	return results->write_ios ? results->data_bytes / results->write_ios : 0;
}

#endif

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * model-profiles.c - real devices as data
 *
 * Write figures, the IOPS of small writes and the units are published or assumed by the
 * experiments that use the device (VC21).  Nobody published the rest: read figures are of the
 * order of a data sheet's; a device has as many channels as let one of them serve a small
 * write in 20 us; where no number of tags is known, the queue is too deep to be the limit.
 */
#include <iomap/blkdev.h>

#include <string.h>

#define KIB	 1024u
#define MB	 1000000ull /* as vendors count */
#define NS_IN_US 1000ull
#define NS_IN_MS 1000000ull

static const struct blkdev_profile profiles[] = {
	{
		/* Samsung PM1733a 3.84 TB: random writes at their sustained rate */
		.name = "pm1733a",
		.channels = 2,
		.queue_depth = 1024,
		.latency_ns = 40 * NS_IN_US,
		.read_bandwidth = 7000 * MB,
		.write_bandwidth = 6000 * MB,
		.read_iops = 1000000,
		.write_iops = 135000,
		.stripe = 64 * KIB,
	},
	{
		/* Samsung PM9A3: 4 KiB random writes 546k a second at 32 in flight */
		.name = "pm9a3",
		.channels = 8,
		.queue_depth = 1024,
		.latency_ns = 20 * NS_IN_US,
		.read_bandwidth = 6500 * MB,
		.write_bandwidth = 4000 * MB,
		.read_iops = 1000000,
		.write_iops = 546000,
		.stripe = 64 * KIB,
	},
	{
		/* Samsung BM1743, QLC: 4 KiB random writes 117k a second at 32 in flight */
		.name = "bm1743",
		.channels = 2,
		.queue_depth = 1024,
		.latency_ns = 40 * NS_IN_US,
		.read_bandwidth = 7000 * MB,
		.write_bandwidth = 2000 * MB,
		.read_iops = 1000000,
		.write_iops = 117000,
		.stripe = 64 * KIB,
		.unit = 16 * KIB,
	},
	{
		/* an NVMe drive of which nothing is known */
		.name = "nvme",
		.channels = 4,
		.queue_depth = 1024,
		.latency_ns = 40 * NS_IN_US,
		.read_bandwidth = 2000 * MB,
		.write_bandwidth = 2000 * MB,
		.read_iops = 200000,
		.write_iops = 200000,
		.stripe = 64 * KIB,
	},
	{
		/* the same with more requests a second */
		.name = "nvme-400k",
		.channels = 8,
		.queue_depth = 1024,
		.latency_ns = 40 * NS_IN_US,
		.read_bandwidth = 2000 * MB,
		.write_bandwidth = 2000 * MB,
		.read_iops = 400000,
		.write_iops = 400000,
		.stripe = 64 * KIB,
	},
	{
		/*
		 * The drive of T31: 448 and 452 MB/s reached it with pages and with blocks; 110k
		 * syncs a second of 8 jobs say that a flush has nothing to do.
		 */
		.name = "nvme-450m",
		.channels = 4,
		.queue_depth = 1024,
		.protected_cache = true,
		.latency_ns = 20 * NS_IN_US,
		.read_bandwidth = 2000 * MB,
		.write_bandwidth = 450 * MB,
		.read_iops = 200000,
		.write_iops = 200000,
		.stripe = 64 * KIB,
	},
	{
		/* 20 GB of a cloud, as a guest sees it */
		.name = "nvme-virtual",
		.channels = 1,
		.queue_depth = 256,
		.latency_ns = 100 * NS_IN_US,
		.read_bandwidth = 500 * MB,
		.write_bandwidth = 500 * MB,
		.read_iops = 50000,
		.write_iops = 50000,
		.stripe = 64 * KIB,
	},
	{
		/* persistent memory: 1.5 to 2 GB/s for each copying CPU */
		.name = "pmem",
		.channels = 1,
		.queue_depth = 1,
		.read_bandwidth = 8000 * MB,
		.write_bandwidth = 8000 * MB,
		.synchronous = true,
		.cpu_bandwidth = 1750 * MB,
	},
	{
		/* Samsung 990 Pro: sustained; bursts are written at 6900 MB/s */
		.name = "990pro",
		.channels = 8,
		.queue_depth = 1024,
		.latency_ns = 20 * NS_IN_US,
		.read_bandwidth = 7400 * MB,
		.write_bandwidth = 3600 * MB,
		.read_iops = 1000000,
		.write_iops = 1000000,
		.stripe = 64 * KIB,
	},
	{
		.name = "sata-ssd",
		.channels = 1,
		.queue_depth = 32,
		.latency_ns = 60 * NS_IN_US,
		.read_bandwidth = 350 * MB,
		.write_bandwidth = 350 * MB,
		.read_iops = 75000,
		.write_iops = 75000,
	},
	{
		/*
		 * 7200 rotations a minute.  The block layer before it makes requests of 1280 KiB
		 * at most, and its elevator holds as many as the disk has tags.
		 */
		.name = "disk",
		.channels = 1,
		.queue_depth = 32,
		.max_request = 1280 * KIB,
		.queue_requests = 32,
		.read_bandwidth = 160 * MB,
		.write_bandwidth = 160 * MB,
		.rotational = true,
		.seek_min_ns = NS_IN_MS / 2,
		.seek_max_ns = 8 * NS_IN_MS,
		.rotation_ns = 60000 * NS_IN_MS / 7200,
	},
	{
		/* UFS flash of a phone */
		.name = "phone",
		.channels = 2,
		.queue_depth = 32,
		.latency_ns = 80 * NS_IN_US,
		.read_bandwidth = 1600 * MB,
		.write_bandwidth = 1600 * MB,
		.read_iops = 100000,
		.write_iops = 100000,
		.stripe = 64 * KIB,
	},
};

#define NR_PROFILES (sizeof(profiles) / sizeof(profiles[0]))

const struct blkdev_profile *blkdev_profile_find(const char *name)
{
	for (unsigned int i = 0; i < NR_PROFILES; i++)
		if (strcmp(profiles[i].name, name) == 0)
			return &profiles[i];
	return NULL;
}

const char *blkdev_profile_name(unsigned int i)
{
	return i < NR_PROFILES ? profiles[i].name : NULL;
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_blkdev_requests.c - what a modelled device's requests are made of
 *
 * Bios are cut at the longest request, added to one that waits, and let in as there is room.
 */
#include <criterion/criterion.h>

#include <errno.h>
#include <string.h>

#include <iomap/blkdev.h>
#include <iomap/env.h>
#include <iomap/sim.h>

#include "blkdev/model.h"

#define KIB	  1024ull
#define MIB	  (1024 * KIB)
#define MS	  1000000ull
#define SECOND	  1000000000ull
#define DISK_SIZE (64 * MIB)
#define NR_OF(a)  (sizeof(a) / sizeof((a)[0]))

/* 1 byte a ns. */
static const struct blkdev_profile flash = {
	.channels = 1,
	.queue_depth = 4,
	.max_request = 4 * KIB,
	.read_bandwidth = SECOND,
	.write_bandwidth = SECOND,
};

/* The same, and a move takes 1000 ns. */
static const struct blkdev_profile disk = {
	.channels = 1,
	.queue_depth = 4,
	.max_request = 4 * KIB,
	.read_bandwidth = SECOND,
	.write_bandwidth = SECOND,
	.rotational = true,
	.seek_min_ns = 900,
	.seek_max_ns = 900,
	.rotation_ns = 200,
};

/* ---- a queue under given times ---- */

#define NR_BIOS 100

struct world {
	struct blkdev_profile profile;
	struct model_queue queue;
	struct bio bios[NR_BIOS];
	unsigned int nr_bios;
};

static struct world *world_of(const struct blkdev_profile *profile)
{
	static struct world world;

	world.profile = *profile;
	cr_assert_eq(model_check_profile(profile), 0);
	cr_assert_eq(model_queue_init(&world.queue, &world.profile, DISK_SIZE), 0);
	return &world;
}

static void world_end(struct world *world)
{
	cr_assert(model_queue_is_idle(&world->queue));
	cr_assert_eq(world->queue.nr_data, 0);
	cr_assert_eq(world->queue.data_bytes, 0);
	model_queue_uninit(&world->queue);
}

static struct bio *new_bio(struct world *world, enum bio_op op, enum bio_kind kind, uint64_t addr,
			   uint64_t len)
{
	struct bio *bio = &world->bios[world->nr_bios++];

	bio_init(bio, NULL, op, kind, addr);
	bio->len = len;
	return bio;
}

static void submit_bio(struct world *world, struct bio *bio, uint64_t now)
{
	struct model_io *io = model_io_create(&world->profile, bio);

	cr_assert_not_null(io);
	while (model_queue_submit(&world->queue, io, now))
		;
}

static struct bio *submit(struct world *world, enum bio_op op, enum bio_kind kind, uint64_t addr,
			  uint64_t len)
{
	struct bio *bio = new_bio(world, op, kind, addr, len);

	submit_bio(world, bio, 0);
	return bio;
}

static struct bio *submit_write(struct world *world, uint64_t addr, uint64_t len)
{
	return submit(world, BIO_WRITE, BIO_DATA, addr, len);
}

/* The next one to complete; there is one, and its time is *at. */
static struct bio *complete_one(struct world *world, uint64_t *at)
{
	static struct model_io *done; /* completed at the same time */
	static uint64_t done_at;
	struct model_io *io;
	struct bio *bio;

	while (!done) {
		done_at = model_queue_next(&world->queue);
		cr_assert_neq(done_at, UINT64_MAX);
		model_queue_advance(&world->queue, done_at);
		done = model_queue_take_done(&world->queue);
	}
	io = done;
	done = io->next;
	bio = io->bio;
	env_free(io);
	*at = done_at;
	return bio;
}

static void check_completes(struct world *world, const struct bio *bio, uint64_t expected)
{
	uint64_t at;

	cr_assert_eq(complete_one(world, &at), bio, "another one at %lu", at);
	cr_assert_eq(at, expected, "at %lu, not %lu", at, expected);
}

/* ---- the longest request ---- */

Test(blkdev_requests, a_long_bio_is_several_requests)
{
	struct world *world = world_of(&flash);
	struct bio *bio = submit_write(world, 0, 9 * KIB);

	check_completes(world, bio, 9 * KIB);
	cr_assert_eq(world->queue.stats.ios, 3);
	cr_assert_eq(world->queue.stats.media_written, 9 * KIB);
	world_end(world);
}

Test(blkdev_requests, a_bio_of_the_longest_is_one)
{
	struct world *world = world_of(&flash);
	struct bio *bio = submit_write(world, 0, 4 * KIB);

	check_completes(world, bio, 4 * KIB);
	cr_assert_eq(world->queue.stats.ios, 1);
	world_end(world);
}

Test(blkdev_requests, without_a_limit_nothing_is_cut)
{
	struct blkdev_profile profile = flash;
	struct world *world;

	profile.max_request = 0;
	world = world_of(&profile);
	check_completes(world, submit_write(world, 0, MIB), MIB);
	cr_assert_eq(world->queue.stats.ios, 1);
	world_end(world);
}

Test(blkdev_requests, only_the_disk_has_a_limit_by_itself)
{
	const char *name;

	for (unsigned int i = 0; (name = blkdev_profile_name(i)); i++)
		cr_assert_eq(blkdev_profile_find(name)->max_request,
			     strcmp(name, "disk") == 0 ? 1280 * KIB : 0, "%s", name);
}

Test(blkdev_requests, each_piece_costs_a_request)
{
	struct blkdev_profile profile = flash;
	struct world *world;

	profile.write_iops = 100000; /* 10 us each */
	world = world_of(&profile);
	check_completes(world, submit_write(world, 0, 8 * KIB), 20000);
	world_end(world);
}

Test(blkdev_requests, each_piece_has_a_tag)
{
	struct world *world = world_of(&flash);
	struct bio *bio = submit_write(world, 0, 24 * KIB);

	cr_assert_eq(world->queue.nr_flights, 4);
	cr_assert_eq(world->queue.nr_waiting, 2);
	cr_assert_eq(world->queue.stats.queue_max, 6);
	check_completes(world, bio, 24 * KIB);
	world_end(world);
}

Test(blkdev_requests, a_bio_completes_with_the_last_of_its_pieces)
{
	struct blkdev_profile profile = flash;
	struct bio *bio, *other;
	struct world *world;

	/* The last piece is done before the one ahead of it. */
	profile.channels = 2;
	profile.write_bandwidth = 2 * SECOND;
	world = world_of(&profile);
	bio = submit_write(world, 0, 4 * KIB + 512);
	other = submit_write(world, MIB, 512);
	check_completes(world, other, 1024);
	check_completes(world, bio, 4 * KIB);
	world_end(world);
}

Test(blkdev_requests, a_limit_is_whole_sectors)
{
	struct blkdev_profile profile = flash;

	profile.max_request = 1000;
	cr_assert_eq(model_check_profile(&profile), -EINVAL);
}

/* ---- on a disk ---- */

/* The head is busy until 4096, so that what follows waits. */
static struct bio *occupy(struct world *world)
{
	return submit(world, BIO_READ, BIO_DATA, 0, 4 * KIB);
}

Test(blkdev_requests, pieces_of_a_stream_need_no_seek)
{
	struct world *world = world_of(&disk);
	struct bio *bio = submit_write(world, 0, 64 * KIB);

	check_completes(world, bio, 64 * KIB);
	cr_assert_eq(world->queue.stats.ios, 16);
	cr_assert_eq(world->queue.stats.seeks, 0);
	world_end(world);
}

/* The window has room for two: the last piece of the lower stream comes after the higher. */
Test(blkdev_requests, streams_share_the_window)
{
	struct blkdev_profile profile = disk;
	struct bio *low, *high;
	struct world *world;
	struct model_io *ios[2];
	uint64_t at;

	profile.queue_depth = 2;
	world = world_of(&profile);
	low = new_bio(world, BIO_WRITE, BIO_DATA, 0, 12 * KIB);
	high = new_bio(world, BIO_WRITE, BIO_DATA, MIB, 12 * KIB);
	ios[0] = model_io_create(&profile, low);
	ios[1] = model_io_create(&profile, high);
	for (unsigned int i = 0; i < 6; i++)
		model_queue_submit(&world->queue, ios[i % 2], 0);
	cr_assert_eq(complete_one(world, &at), high);
	cr_assert_eq(complete_one(world, &at), low);
	cr_assert_eq(world->queue.stats.ios, 6);
	cr_assert_eq(world->queue.stats.seeks, 2, "one after the other would be one");
	world_end(world);
}

Test(blkdev_requests, seeks_and_their_time_are_counted)
{
	struct world *world = world_of(&disk);
	struct bio *a = submit_write(world, 0, 512);
	struct bio *b = submit_write(world, MIB, 512);
	struct bio *c = submit_write(world, 2 * MIB, 512);

	check_completes(world, a, 512);
	check_completes(world, b, 512 + 1512);
	check_completes(world, c, 512 + 2 * 1512);
	cr_assert_eq(world->queue.stats.seeks, 2);
	cr_assert_eq(world->queue.stats.seek_ns, 2000);
	world_end(world);
}

/* ---- merging ---- */

Test(blkdev_requests, what_continues_a_waiting_request_is_added)
{
	struct world *world = world_of(&disk);
	struct bio *first = occupy(world);
	struct bio *a = submit_write(world, MIB, 512);
	struct bio *b = submit_write(world, MIB + 512, 512);
	struct bio *c = submit_write(world, MIB + 1024, 512);

	cr_assert_eq(world->queue.nr_waiting, 1);
	check_completes(world, first, 4 * KIB);
	check_completes(world, a, 4 * KIB + 1000 + 1536);
	check_completes(world, b, 4 * KIB + 1000 + 1536);
	check_completes(world, c, 4 * KIB + 1000 + 1536);
	cr_assert_eq(world->queue.stats.merged, 2);
	cr_assert_eq(world->queue.stats.ios, 2);
	cr_assert_eq(world->queue.stats.media_written, 1536);
	world_end(world);
}

Test(blkdev_requests, the_last_piece_of_a_bio_can_be_continued)
{
	struct world *world = world_of(&disk);
	struct bio *first = occupy(world);
	struct bio *a = submit_write(world, MIB, 4 * KIB + 512);
	struct bio *b = submit_write(world, MIB + 4 * KIB + 512, 512);

	check_completes(world, first, 4 * KIB);
	check_completes(world, a, 4 * KIB + 1000 + 5 * KIB);
	check_completes(world, b, 4 * KIB + 1000 + 5 * KIB);
	cr_assert_eq(world->queue.stats.ios, 3);
	world_end(world);
}

Test(blkdev_requests, one_without_a_tag_can_be_continued)
{
	struct blkdev_profile profile = disk;
	struct bio *first, *a, *b;
	struct world *world;

	profile.queue_depth = 1;
	world = world_of(&profile);
	first = occupy(world);
	a = submit_write(world, MIB, 512);
	b = submit_write(world, MIB + 512, 512);
	check_completes(world, first, 4 * KIB);
	check_completes(world, a, 4 * KIB + 1000 + 1024);
	check_completes(world, b, 4 * KIB + 1000 + 1024);
	world_end(world);
}

static uint64_t nr_merged(const struct blkdev_profile *profile, enum bio_op op, enum bio_kind kind,
			  uint64_t addr, uint64_t len)
{
	struct world *world = world_of(profile);
	uint64_t merged, at;

	occupy(world);
	submit_write(world, MIB, 2 * KIB);
	submit(world, op, kind, addr, len);
	for (unsigned int i = 0; i < 3; i++)
		complete_one(world, &at);
	merged = world->queue.stats.merged;
	world_end(world);
	world->nr_bios = 0;
	return merged;
}

Test(blkdev_requests, only_the_like_are_merged)
{
	cr_assert_eq(nr_merged(&disk, BIO_WRITE, BIO_DATA, MIB + 2 * KIB, 512), 1);
	cr_assert_eq(nr_merged(&disk, BIO_WRITE, BIO_META, MIB + 2 * KIB, 512), 0);
	cr_assert_eq(nr_merged(&disk, BIO_READ, BIO_DATA, MIB + 2 * KIB, 512), 0);
	cr_assert_eq(nr_merged(&disk, BIO_WRITE, BIO_DATA, MIB + 3 * KIB, 512), 0);
	cr_assert_eq(nr_merged(&disk, BIO_FLUSH, BIO_DATA, MIB + 2 * KIB, 0), 0);
}

Test(blkdev_requests, merged_ones_are_no_longer_than_the_longest)
{
	cr_assert_eq(nr_merged(&disk, BIO_WRITE, BIO_DATA, MIB + 2 * KIB, 2 * KIB), 1);
	cr_assert_eq(nr_merged(&disk, BIO_WRITE, BIO_DATA, MIB + 2 * KIB, 2 * KIB + 512), 0);
}

Test(blkdev_requests, only_a_disk_with_a_limit_merges)
{
	struct blkdev_profile profile = disk;

	profile.max_request = 0;
	cr_assert_eq(nr_merged(&profile, BIO_WRITE, BIO_DATA, MIB + 2 * KIB, 512), 0);
	profile = flash;
	profile.queue_depth = 1;
	cr_assert_eq(nr_merged(&profile, BIO_WRITE, BIO_DATA, MIB + 2 * KIB, 512), 0);
}

/* ---- gaps ---- */

static uint64_t seek_ns(bool passes_gaps, uint64_t from, uint64_t to)
{
	struct blkdev_profile profile = *blkdev_profile_find("disk");

	profile.passes_gaps = passes_gaps;
	return model_seek_ns(&profile, 1ull << 40, BIO_WRITE, from, to);
}

/* 160 MB/s */
Test(blkdev_requests, a_short_gap_takes_as_long_as_its_bytes)
{
	cr_assert_eq(seek_ns(true, 0, 16000), 100000);
	cr_assert_eq(seek_ns(true, MIB, MIB + 160000), MS);
}

Test(blkdev_requests, a_long_gap_is_sooner_moved_over)
{
	cr_assert_eq(seek_ns(true, 0, MIB), seek_ns(false, 0, MIB));
	cr_assert_lt(seek_ns(true, 0, MIB), MIB * SECOND / 160000000);
}

Test(blkdev_requests, nothing_passes_backwards)
{
	cr_assert_eq(seek_ns(true, 16000, 0), seek_ns(false, 16000, 0));
}

Test(blkdev_requests, the_disk_moves_over_every_gap)
{
	const struct blkdev_profile *profile = blkdev_profile_find("disk");

	cr_assert_not(profile->passes_gaps);
	cr_assert_geq(seek_ns(false, 0, 512), profile->seek_min_ns + profile->rotation_ns / 2);
}

/* ---- room, on whole devices in a simulated world ---- */

static struct block_device *model_over_null(const struct blkdev_profile *profile)
{
	struct block_device *null, *model;

	cr_assert_eq(blkdev_null_create(&null, DISK_SIZE, 0), 0);
	cr_assert_eq(blkdev_model_create(&model, null, profile), 0);
	return model;
}

static void simulate(void (*fn)(void *arg), void *arg)
{
	struct env_sim_config config;
	struct env_sim_result result;

	env_sim_config_init(&config);
	cr_assert_eq(env_sim_run(&config, fn, arg, &result), 0, "%s", result.text);
}

static unsigned char memory[64 * KIB];

static void write_at(struct block_device *dev, struct bio *bio, uint64_t addr, uint64_t len,
		     void (*end_io)(struct bio *bio), void *arg)
{
	bio_init(bio, dev, BIO_WRITE, BIO_DATA, addr);
	cr_assert_eq(bio_add(bio, memory, len), 0);
	bio->end_io = end_io;
	bio->private_data = arg;
	bio_submit(bio);
}

static void count_end(struct bio *bio)
{
	__atomic_fetch_add((unsigned int *)bio->private_data, 1, __ATOMIC_RELAXED);
}

/* Four requests of a second each, of which two have room: the fourth enters after the second. */
static void submit_four_pieces(void *arg)
{
	struct blkdev_profile profile = {.channels = 1,
					 .queue_depth = 8,
					 .max_request = 4 * KIB,
					 .write_iops = 1,
					 .queue_requests = 2};
	struct block_device *dev = model_over_null(&profile);
	uint64_t start = env_clock_ns();
	unsigned int nr_done = 0;
	struct bio bio;

	(void)arg;
	write_at(dev, &bio, 0, 16 * KIB, count_end, &nr_done);
	cr_assert_geq(env_clock_ns() - start, 2 * SECOND);
	cr_assert_lt(env_clock_ns() - start, 3 * SECOND);
	cr_assert_eq(nr_done, 0);
	env_sleep_ns(3 * SECOND);
	cr_assert_eq(nr_done, 1);
	bio_uninit(&bio);
	blkdev_destroy(dev);
}

Test(blkdev_requests, pieces_enter_as_there_is_room)
{
	simulate(submit_four_pieces, NULL);
}

/* ---- two that share a device with room for one request ---- */

struct stream {
	struct block_device *dev;
	struct env_thread *thread;
	uint64_t len;
	uint64_t entered_ns; /* how long until all its requests were in the device */
	unsigned int nr_done;
};

static void stream_main(void *arg)
{
	struct stream *stream = arg;
	uint64_t start = env_clock_ns();
	struct bio bio;

	write_at(stream->dev, &bio, 0, stream->len, count_end, &stream->nr_done);
	stream->entered_ns = env_clock_ns() - start;
	while (!__atomic_load_n(&stream->nr_done, __ATOMIC_ACQUIRE))
		env_sleep_ns(SECOND);
	bio_uninit(&bio);
}

/* A long bio does not keep a short one out: the fifth request is the last of the short one. */
static void share(void *arg)
{
	struct blkdev_profile profile = {.channels = 1,
					 .queue_depth = 8,
					 .max_request = 4 * KIB,
					 .write_iops = 1,
					 .queue_requests = 1};
	struct block_device *dev = model_over_null(&profile);
	struct stream streams[] = {{.dev = dev, .len = 64 * KIB}, {.dev = dev, .len = 8 * KIB}};

	(void)arg;
	for (unsigned int i = 0; i < NR_OF(streams); i++)
		cr_assert_eq(
			env_thread_create(&streams[i].thread, "stream", stream_main, &streams[i]),
			0);
	for (unsigned int i = 0; i < NR_OF(streams); i++)
		env_thread_join(streams[i].thread);
	cr_assert_lt(streams[1].entered_ns, 5 * SECOND);
	cr_assert_geq(streams[0].entered_ns, 16 * SECOND);
	blkdev_destroy(dev);
}

Test(blkdev_requests, requests_enter_in_order_of_arrival)
{
	simulate(share, NULL);
}

static void read_beside_a_full_queue(void *arg)
{
	struct blkdev_profile profile = {
		.channels = 1, .queue_depth = 8, .write_iops = 1, .queue_requests = 1};
	struct block_device *dev = model_over_null(&profile);
	uint64_t start = env_clock_ns();
	struct bio write, read;
	unsigned int nr_done = 0;

	(void)arg;
	write_at(dev, &write, 0, 512, count_end, &nr_done);
	bio_init(&read, dev, BIO_READ, BIO_DATA, 0);
	cr_assert_eq(bio_add(&read, memory, 512), 0);
	read.end_io = count_end;
	read.private_data = &nr_done;
	bio_submit(&read);
	cr_assert_lt(env_clock_ns() - start, SECOND);
	env_sleep_ns(2 * SECOND);
	cr_assert_eq(nr_done, 2);
	bio_uninit(&read);
	bio_uninit(&write);
	blkdev_destroy(dev);
}

Test(blkdev_requests, only_data_waits_for_room)
{
	simulate(read_beside_a_full_queue, NULL);
}

/* ---- on the host ---- */

Test(blkdev_requests, without_memory_a_bio_fails)
{
	struct block_device *dev = model_over_null(&flash);
	struct bio bio;

	bio_init(&bio, dev, BIO_WRITE, BIO_DATA, 0);
	cr_assert_eq(bio_add(&bio, memory, sizeof(memory)), 0);
	env_alloc_fail(0, 1);
	cr_assert_eq(bio_submit_wait(&bio), -ENOMEM);
	env_alloc_fail(0, 0);
	cr_assert_eq(bio_submit_wait(&bio), 0);
	bio_uninit(&bio);
	blkdev_destroy(dev);
}

#define NR_THREADS    4
#define NR_PER_THREAD 50

static void write_often(void *arg)
{
	for (unsigned int i = 0; i < NR_PER_THREAD; i++) {
		struct bio bio;

		bio_init(&bio, arg, BIO_WRITE, BIO_DATA, i * MIB);
		cr_assert_eq(bio_add(&bio, memory, 10 * KIB), 0);
		cr_assert_eq(bio_submit_wait(&bio), 0);
		bio_uninit(&bio);
	}
}

Test(blkdev_requests, many_threads_find_room)
{
	struct blkdev_profile profile = disk;
	struct env_thread *threads[NR_THREADS];
	struct blkdev_model_stats stats;
	struct block_device *dev;

	profile.queue_requests = 2;
	profile.queue_bytes = 6 * KIB;
	dev = model_over_null(&profile);
	for (unsigned int i = 0; i < NR_THREADS; i++)
		cr_assert_eq(env_thread_create(&threads[i], "writer", write_often, dev), 0);
	for (unsigned int i = 0; i < NR_THREADS; i++)
		env_thread_join(threads[i]);
	blkdev_model_read(dev, &stats);
	cr_assert_eq(stats.ios + stats.merged, 3 * NR_THREADS * NR_PER_THREAD);
	cr_assert_eq(stats.media_written, NR_THREADS * NR_PER_THREAD * 10 * KIB);
	blkdev_destroy(dev);
}

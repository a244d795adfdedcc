/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_blkdev_model.c - devices that take the time of real ones
 *
 * Times are checked where they are arguments.  Whole devices run on the host's clock with tiny
 * times, and only order, counts and bytes are looked at.
 */
#include <criterion/criterion.h>

#include <errno.h>
#include <string.h>

#include <iomap/blkdev.h>
#include <iomap/env.h>

#include "blkdev/model.h"

#define KIB	 1024ull
#define MIB	 (1024 * KIB)
#define US	 1000ull
#define MS	 1000000ull
#define SECOND	 1000000000ull
#define NR_OF(a) (sizeof(a) / sizeof((a)[0]))

/* 1 byte a ns; nothing but bandwidth. */
static const struct blkdev_profile plain = {
	.name = "plain",
	.channels = 1,
	.queue_depth = 1000,
	.read_bandwidth = SECOND,
	.write_bandwidth = SECOND,
};

/* ---- the cost of one request ---- */

static uint64_t service_ns(const struct blkdev_profile *profile, enum bio_op op, uint64_t addr,
			   uint64_t len)
{
	return model_cost(profile, op, addr, len).service_ns;
}

Test(blkdev_model, long_requests_cost_bandwidth)
{
	struct blkdev_profile profile = plain;

	profile.read_bandwidth = 2 * SECOND;
	profile.write_iops = profile.read_iops = 100000;
	cr_assert_eq(service_ns(&profile, BIO_WRITE, 0, 64 * KIB), 65536);
	cr_assert_eq(service_ns(&profile, BIO_READ, 0, 64 * KIB), 32768);
}

Test(blkdev_model, short_requests_cost_iops)
{
	struct blkdev_profile profile = plain;

	profile.write_iops = 100000;
	profile.read_iops = 50000;
	cr_assert_eq(service_ns(&profile, BIO_WRITE, 0, 512), 10000);
	cr_assert_eq(service_ns(&profile, BIO_READ, 0, 512), 20000);
	cr_assert_eq(service_ns(&profile, BIO_FLUSH, 0, 0), 10000);
}

Test(blkdev_model, service_is_rounded_up)
{
	struct blkdev_profile profile = plain;

	profile.write_bandwidth = 3 * SECOND;
	cr_assert_eq(service_ns(&profile, BIO_WRITE, 0, 512), 171);
}

Test(blkdev_model, without_limits_service_takes_no_time)
{
	static const struct blkdev_profile profile = {.channels = 1, .queue_depth = 1};

	cr_assert_eq(service_ns(&profile, BIO_WRITE, 0, 1ull << 40), 0);
}

Test(blkdev_model, huge_requests_do_not_overflow)
{
	cr_assert_eq(service_ns(&plain, BIO_WRITE, 0, 1ull << 62), 1ull << 62);
}

/* ---- units ---- */

static const struct blkdev_profile units = {
	.channels = 1,
	.queue_depth = 32,
	.latency_ns = 7,
	.read_bandwidth = 2 * SECOND,
	.write_bandwidth = SECOND,
	.unit = 16 * KIB,
};

static void check_units(uint64_t addr, uint64_t len, uint64_t nr_partial, uint64_t written)
{
	struct model_cost cost = model_cost(&units, BIO_WRITE, addr, len);

	cr_assert_eq(cost.partial_units, nr_partial, "%lu+%lu", addr, len);
	cr_assert_eq(cost.media_written, written, "%lu+%lu", addr, len);
	cr_assert_eq(cost.media_read, nr_partial * units.unit, "%lu+%lu", addr, len);
}

Test(blkdev_model, whole_units_are_only_written)
{
	check_units(0, 16 * KIB, 0, 16 * KIB);
	check_units(32 * KIB, 48 * KIB, 0, 48 * KIB);
}

Test(blkdev_model, part_of_a_unit_is_read_once)
{
	check_units(0, 4 * KIB, 1, 16 * KIB);
	check_units(12 * KIB, 4 * KIB, 1, 16 * KIB);
	check_units(20 * KIB, 4 * KIB, 1, 16 * KIB);
}

Test(blkdev_model, both_ends_may_be_partial)
{
	check_units(12 * KIB, 8 * KIB, 2, 32 * KIB);
	check_units(4 * KIB, 32 * KIB, 2, 48 * KIB);
	check_units(0, 20 * KIB, 1, 32 * KIB);
	check_units(4 * KIB, 12 * KIB, 1, 16 * KIB);
	check_units(4 * KIB, 28 * KIB, 1, 32 * KIB);
}

Test(blkdev_model, slower_of_unit_read_and_unit_write_decides)
{
	struct blkdev_profile profile = units;

	cr_assert_eq(service_ns(&profile, BIO_WRITE, 0, 4 * KIB), 16384);
	profile.read_bandwidth = SECOND / 2;
	cr_assert_eq(service_ns(&profile, BIO_WRITE, 0, 4 * KIB), 32768);
}

Test(blkdev_model, partial_unit_costs_a_second_latency)
{
	cr_assert_eq(model_cost(&units, BIO_WRITE, 0, 4 * KIB).latency_ns, 14);
	cr_assert_eq(model_cost(&units, BIO_WRITE, 0, 16 * KIB).latency_ns, 7);
}

Test(blkdev_model, reads_know_no_units)
{
	struct model_cost cost = model_cost(&units, BIO_READ, 4 * KIB, 4 * KIB);

	cr_assert_eq(cost.media_read, 4 * KIB);
	cr_assert_eq(cost.media_written, 0);
	cr_assert_eq(cost.partial_units, 0);
}

/* ---- seeks ---- */

#define DISK_SIZE (1ull << 40)

static uint64_t seek_ns(uint64_t from, uint64_t to)
{
	return model_seek_ns(blkdev_profile_find("disk"), DISK_SIZE, BIO_WRITE, from, to);
}

#define HALF_ROTATION 4166666ull

Test(blkdev_model, continuing_costs_no_seek)
{
	cr_assert_eq(seek_ns(123 * KIB, 123 * KIB), 0);
}

Test(blkdev_model, seek_grows_with_the_root_of_the_distance)
{
	cr_assert_eq(seek_ns(0, 512), MS / 2 + HALF_ROTATION + 114);
	cr_assert_eq(seek_ns(0, DISK_SIZE / 4), MS / 2 + 7500 * US / 2 + HALF_ROTATION);
	cr_assert_eq(seek_ns(0, DISK_SIZE), 8 * MS + HALF_ROTATION);
}

Test(blkdev_model, seek_is_as_long_back)
{
	cr_assert_eq(seek_ns(DISK_SIZE / 3, DISK_SIZE / 2), seek_ns(DISK_SIZE / 2, DISK_SIZE / 3));
}

/* ---- memory ---- */

Test(blkdev_model, one_cpu_copies_at_its_own_rate)
{
	const struct blkdev_profile *pmem = blkdev_profile_find("pmem");

	cr_assert_eq(model_copy_ns(pmem, BIO_WRITE, 1750000, 1), MS);
	cr_assert_eq(model_copy_ns(pmem, BIO_WRITE, 1750000, 4), MS);
}

Test(blkdev_model, many_cpus_share_the_bandwidth)
{
	const struct blkdev_profile *pmem = blkdev_profile_find("pmem");

	cr_assert_eq(model_copy_ns(pmem, BIO_WRITE, 8000000, 12), 12 * MS);
	cr_assert_eq(model_copy_ns(pmem, BIO_READ, 8000000, 8), 8 * MS);
}

/* ---- a queue under given times ---- */

#define NR_BIOS 300

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
	model_queue_uninit(&world->queue);
}

static struct bio *submit(struct world *world, enum bio_op op, uint64_t addr, uint64_t len,
			  uint64_t now)
{
	struct bio *bio = &world->bios[world->nr_bios++];
	struct model_io *io;

	bio_init(bio, NULL, op, BIO_DATA, addr);
	bio->len = len;
	io = model_io_create(&world->profile, bio);
	cr_assert_not_null(io);
	while (model_queue_submit(&world->queue, io, now))
		;
	return bio;
}

static struct bio *submit_write(struct world *world, uint64_t addr, uint64_t len, uint64_t now)
{
	return submit(world, BIO_WRITE, addr, len, now);
}

/* The next one to complete; there is one, and its time is *at. */
static struct bio *complete_one(struct world *world, uint64_t *at)
{
	static struct model_io *done; /* completed at the same time */
	struct model_io *io;
	struct bio *bio;

	while (!done) {
		*at = model_queue_next(&world->queue);
		cr_assert_neq(*at, UINT64_MAX);
		model_queue_advance(&world->queue, *at);
		done = model_queue_take_done(&world->queue);
	}
	io = done;
	bio = io->bio;
	done = io->next;
	env_free(io);
	return bio;
}

static void check_completes(struct world *world, const struct bio *bio, uint64_t expected)
{
	static uint64_t at;

	cr_assert_eq(complete_one(world, &at), bio, "another one at %lu", at);
	cr_assert_eq(at, expected, "at %lu, not %lu", at, expected);
}

static void check_order(struct world *world, struct bio *const *bios, unsigned int nr)
{
	uint64_t at;

	for (unsigned int i = 0; i < nr; i++)
		cr_assert_eq(complete_one(world, &at), bios[i], "number %u", i);
}

Test(blkdev_model, latency_follows_service)
{
	struct blkdev_profile profile = plain;
	struct world *world;
	struct bio *bio;

	profile.latency_ns = 100;
	world = world_of(&profile);
	bio = submit_write(world, 0, 512, 1000);
	cr_assert_eq(model_queue_next(&world->queue), 1612);
	model_queue_advance(&world->queue, 1611);
	cr_assert_null(model_queue_take_done(&world->queue));
	check_completes(world, bio, 1612);
	cr_assert_eq(model_queue_next(&world->queue), UINT64_MAX);
	world_end(world);
}

Test(blkdev_model, latencies_overlap_services_do_not)
{
	struct blkdev_profile profile = plain;
	struct bio *a, *b;
	struct world *world;

	profile.latency_ns = 10000;
	world = world_of(&profile);
	a = submit_write(world, 0, 1024, 0);
	b = submit_write(world, 4096, 1024, 0);
	check_completes(world, a, 11024);
	check_completes(world, b, 12048);
	world_end(world);
}

Test(blkdev_model, channels_share_the_bandwidth)
{
	struct blkdev_profile profile = plain;
	struct bio *bios[3];
	struct world *world;

	profile.channels = 2;
	world = world_of(&profile);
	for (unsigned int i = 0; i < 3; i++)
		bios[i] = submit_write(world, i * KIB, 1024, 0);
	check_completes(world, bios[0], 2048);
	check_completes(world, bios[1], 2048);
	check_completes(world, bios[2], 4096);
	cr_assert_eq(world->queue.stats.busy_ns[0], 4096);
	cr_assert_eq(world->queue.stats.busy_ns[1], 2048);
	world_end(world);
}

Test(blkdev_model, long_requests_use_several_channels)
{
	struct blkdev_profile profile = plain;
	struct bio *a, *b, *c;
	struct world *world;

	profile.channels = 4;
	profile.stripe = 1024;
	world = world_of(&profile);
	a = submit_write(world, 0, 1024, 0);
	b = submit_write(world, 1024, 3072, 0);
	c = submit_write(world, 4096, 64 * KIB, 4096);
	check_completes(world, a, 4096);
	check_completes(world, b, 4096);
	check_completes(world, c, 4096 + 65536);
	world_end(world);
}

/* ---- what a trace sees ---- */

struct span {
	enum env_track track;
	unsigned int number;
	const char *name;
	uint64_t start_ns, end_ns, value;
};

static struct span spans[8];
static unsigned int nr_spans;

static void keep_span(enum env_track track, unsigned int number, const char *name,
		      uint64_t start_ns, uint64_t end_ns, uint64_t value)
{
	spans[nr_spans++] = (struct span){track, number, name, start_ns, end_ns, value};
}

static const struct env_world tracing_world = {.trace_span = keep_span};

static void check_span(unsigned int nr, unsigned int channel, const char *name, uint64_t start_ns,
		       uint64_t end_ns, uint64_t bytes)
{
	const struct span *span = &spans[nr];

	cr_assert_lt(nr, nr_spans);
	cr_assert_eq(span->track, ENV_TRACK_CHANNEL);
	cr_assert_eq(span->number, channel);
	cr_assert_str_eq(span->name, name);
	cr_assert_eq(span->start_ns, start_ns);
	cr_assert_eq(span->end_ns, end_ns);
	cr_assert_eq(span->value, bytes);
}

Test(blkdev_model, each_piece_of_service_is_a_span)
{
	struct blkdev_profile profile = plain;
	struct world *world;
	uint64_t at;

	profile.channels = 2;
	profile.stripe = 1024;
	profile.latency_ns = 77;
	world = world_of(&profile);
	env_world = &tracing_world;
	submit(world, BIO_WRITE, 0, 1536, 0);
	submit(world, BIO_READ, 4096, 512, 100);
	submit(world, BIO_FLUSH, 0, 0, 5000);
	env_world = NULL;
	check_span(0, 0, "write", 0, 1536, 768);
	check_span(1, 1, "write", 0, 1536, 768);
	check_span(2, 0, "read", 1536, 2560, 512);
	check_span(3, 1, "flush", 5000, 5000, 0);
	cr_assert_eq(nr_spans, 4);
	for (unsigned int i = 0; i < 3; i++)
		complete_one(world, &at);
	world_end(world);
}

/* ---- tags ---- */

/* All tags in use: each completion lets one begin, in order of submission. */
Test(blkdev_model, without_a_tag_requests_wait)
{
	struct blkdev_profile profile = plain;
	struct bio *bios[4];
	struct world *world;

	profile.latency_ns = 1000;
	profile.queue_depth = 2;
	world = world_of(&profile);
	for (unsigned int i = 0; i < 4; i++)
		bios[i] = submit_write(world, (4 - i) * KIB, 512, 0);
	cr_assert_eq(world->queue.nr_flights, 2);
	cr_assert_eq(world->queue.nr_waiting, 2);
	check_completes(world, bios[0], 1512);
	check_completes(world, bios[1], 2024);
	check_completes(world, bios[2], 1512 + 1512);
	check_completes(world, bios[3], 2024 + 1512);
	world_end(world);
}

Test(blkdev_model, queue_wait_and_length_are_counted)
{
	struct blkdev_profile profile = plain;
	struct bio *bios[3];
	struct world *world;

	profile.queue_depth = 2;
	world = world_of(&profile);
	for (unsigned int i = 0; i < 3; i++)
		bios[i] = submit_write(world, 0, 1000, 0);
	for (unsigned int i = 0; i < 3; i++)
		check_completes(world, bios[i], (i + 1) * 1000);
	/* the second for its channel; the third for its tag, then for its channel */
	cr_assert_eq(world->queue.stats.queue_wait_ns, 1000 + 2000);
	cr_assert_eq(world->queue.stats.queue_max, 3);
	cr_assert_eq(world->queue.stats.ios, 3);
	world_end(world);
}

/* Somebody who comes late finds what happened meanwhile at the times when it happened. */
Test(blkdev_model, lateness_changes_no_times)
{
	struct blkdev_profile profile = plain;
	struct bio *a, *b, *c;
	struct world *world;

	profile.queue_depth = 1;
	world = world_of(&profile);
	a = submit_write(world, 0, 1000, 0);
	b = submit_write(world, 0, 1000, 0);
	c = submit_write(world, 0, 1000, 2500);
	cr_assert_eq(model_queue_next(&world->queue), 2500, "two are done");
	check_completes(world, a, 2500);
	check_completes(world, b, 2500);
	check_completes(world, c, 3500);
	world_end(world);
}

Test(blkdev_model, time_does_not_go_back)
{
	struct world *world = world_of(&plain);
	struct bio *a, *b;

	a = submit_write(world, 0, 1000, 5000);
	b = submit_write(world, 0, 1000, 4000);
	check_completes(world, a, 6000);
	check_completes(world, b, 7000);
	world_end(world);
}

Test(blkdev_model, equal_times_complete_in_order_of_submission)
{
	static const struct blkdev_profile profile = {
		.channels = 1, .queue_depth = 100, .latency_ns = 10};
	struct world *world = world_of(&profile);
	struct bio *bios[100];

	for (unsigned int i = 0; i < 100; i++)
		bios[i] = submit_write(world, (100 - i) * KIB, 512, 0);
	check_order(world, bios, 100);
	world_end(world);
}

Test(blkdev_model, completions_come_by_time)
{
	struct blkdev_profile profile = plain;
	struct world *world;
	uint64_t last = 0;
	uint64_t at = 0;

	profile.channels = 7;
	world = world_of(&profile);
	for (unsigned int i = 0; i < NR_BIOS; i++)
		submit_write(world, 0, 512 * (1 + i * 37 % 101), i);
	for (unsigned int i = 0; i < NR_BIOS; i++) {
		complete_one(world, &at);
		cr_assert_geq(at, last);
		last = at;
	}
	world_end(world);
}

Test(blkdev_model, rate_is_that_of_the_profile)
{
	const struct blkdev_profile *profile = blkdev_profile_find("bm1743");
	struct world *world = world_of(profile);
	uint64_t at = 0;

	for (unsigned int i = 0; i < NR_BIOS; i++)
		submit_write(world, i * 64 * KIB, 4 * KIB, 0);
	for (unsigned int i = 0; i < NR_BIOS; i++)
		complete_one(world, &at);
	/* 117k a second, and two latencies for the last one */
	cr_assert_leq(at, NR_BIOS * SECOND / 117000 + 2 * profile->latency_ns + NR_BIOS);
	cr_assert_geq(at, NR_BIOS * SECOND / 117000);
	cr_assert_eq(world->queue.stats.partial_units, NR_BIOS);
	cr_assert_eq(world->queue.stats.media_written, NR_BIOS * 16 * KIB);
	cr_assert_eq(world->queue.stats.media_read, NR_BIOS * 16 * KIB);
	world_end(world);
}

/* ---- the elevator ---- */

/* A seek takes 1000 ns, a sector 512. */
static const struct blkdev_profile small_disk = {
	.channels = 1,
	.queue_depth = 4,
	.read_bandwidth = SECOND,
	.write_bandwidth = SECOND,
	.rotational = true,
	.seek_min_ns = 900,
	.seek_max_ns = 900,
	.rotation_ns = 200,
};

/* Keep the head busy from 0 on, so that what follows is there when it is free. */
static struct bio *occupy(struct world *world, uint64_t addr)
{
	return submit_write(world, addr, 4096, 0);
}

Test(blkdev_model, disk_streams_without_seeks)
{
	struct world *world = world_of(&small_disk);
	struct bio *bios[3];

	for (unsigned int i = 0; i < 3; i++)
		bios[i] = submit_write(world, i * 512, 512, 0);
	for (unsigned int i = 0; i < 3; i++)
		check_completes(world, bios[i], (i + 1) * 512);
	world_end(world);
}

Test(blkdev_model, head_stays_where_the_last_request_ended)
{
	struct world *world = world_of(&small_disk);

	check_completes(world, submit_write(world, 8192, 512, 0), 1512);
	check_completes(world, submit_write(world, 8704, 512, 5000), 5512);
	check_completes(world, submit_write(world, 8704, 512, 6000), 7512);
	world_end(world);
}

Test(blkdev_model, elevator_rises_then_starts_over)
{
	struct world *world = world_of(&small_disk);
	struct bio *first = occupy(world, 40 * KIB);
	struct bio *b = submit_write(world, 20 * KIB, 512, 0);
	struct bio *d = submit_write(world, 60 * KIB, 512, 0);
	struct bio *a = submit_write(world, 10 * KIB, 512, 0);
	struct bio *c = submit_write(world, 50 * KIB, 512, 0);

	check_order(world, (struct bio *[]){first, c, d, a, b}, 5);
	world_end(world);
}

Test(blkdev_model, elevator_sees_its_window_only)
{
	struct world *world = world_of(&small_disk);
	struct bio *first = occupy(world, 0);
	struct bio *bios[5];

	/* Four are in the window; the fifth, nearest to the head, enters when one has gone. */
	for (unsigned int i = 0; i < 4; i++)
		bios[i] = submit_write(world, (50 - i) * KIB, 512, 0);
	bios[4] = submit_write(world, 5 * KIB, 512, 0);
	check_order(world, (struct bio *[]){first, bios[3], bios[2], bios[1], bios[0], bios[4]}, 6);
	world_end(world);
}

Test(blkdev_model, window_of_the_disk_is_32)
{
	struct world *world = world_of(blkdev_profile_find("disk"));
	struct bio *order[34];

	order[0] = occupy(world, 0);
	for (unsigned int i = 0; i < 32; i++)
		order[32 - i] = submit_write(world, (100 - i) * MIB, 512, 0);
	order[33] = submit_write(world, 1 * MIB, 512, 0);
	check_order(world, order, 34);
	world_end(world);
}

Test(blkdev_model, newcomers_join_the_sweep)
{
	struct world *world = world_of(&small_disk);
	struct bio *first = occupy(world, 0);
	struct bio *far = submit_write(world, 100 * KIB, 512, 0);
	struct bio *near = submit_write(world, 50 * KIB, 512, 0);
	struct bio *late;

	check_completes(world, first, 4096);
	late = submit_write(world, 60 * KIB, 512, 4200);
	check_order(world, (struct bio *[]){near, late, far}, 3);
	world_end(world);
}

Test(blkdev_model, older_of_equal_addresses_goes_first)
{
	struct world *world = world_of(&small_disk);
	struct bio *first = occupy(world, 0);
	struct bio *a = submit_write(world, 8 * KIB, 512, 0);
	struct bio *b = submit_write(world, 8 * KIB, 512, 0);

	check_order(world, (struct bio *[]){first, a, b}, 3);
	world_end(world);
}

/* A stream at the head cannot keep it for ever: here for four windows of four. */
Test(blkdev_model, oldest_is_not_overtaken_for_ever)
{
	struct world *world = world_of(&small_disk);
	struct bio *first = occupy(world, 1 * MIB);
	struct bio *behind = submit_write(world, 0, 512, 0);
	unsigned int nr_overtakes = 0;
	uint64_t at = 0;
	struct bio *bio;

	for (unsigned int i = 0; i < 100; i++)
		submit_write(world, 1 * MIB + 4096 + i * 512, 512, 0);
	cr_assert_eq(complete_one(world, &at), first);
	while ((bio = complete_one(world, &at)) != behind)
		nr_overtakes++;
	cr_assert_eq(nr_overtakes, 16);
	for (unsigned int i = 0; i < 84; i++)
		complete_one(world, &at);
	world_end(world);
}

Test(blkdev_model, flush_moves_no_head)
{
	struct world *world = world_of(&small_disk);
	struct bio *first = occupy(world, 0);
	struct bio *a = submit_write(world, 4096, 512, 0);
	struct bio *flush = submit(world, BIO_FLUSH, 0, 0, 0);

	check_completes(world, first, 4096);
	check_completes(world, flush, 4096);
	check_completes(world, a, 4608);
	world_end(world);
}

/* ---- profiles ---- */

Test(blkdev_model, every_profile_is_found_by_its_name)
{
	static const char *const names[] = {"pm1733a", "pm9a3",	  "bm1743", "nvme",
					    "pmem",    "990pro",  "disk",   "nvme-virtual",
					    "phone",   "sata-ssd"};
	unsigned int nr = 0;

	for (unsigned int i = 0; i < NR_OF(names); i++)
		cr_assert_not_null(blkdev_profile_find(names[i]), "%s", names[i]);
	for (const char *name; (name = blkdev_profile_name(nr)); nr++) {
		const struct blkdev_profile *profile = blkdev_profile_find(name);

		cr_assert_str_eq(profile->name, name);
		cr_assert_eq(model_check_profile(profile), 0, "%s", name);
	}
	cr_assert_geq(nr, NR_OF(names));
	cr_assert_null(blkdev_profile_name(UINT32_MAX));
	cr_assert_null(blkdev_profile_find("nvm"));
}

Test(blkdev_model, impossible_profiles_are_refused)
{
	static const struct blkdev_profile profiles[] = {
		{.channels = 0, .queue_depth = 1},
		{.channels = BLKDEV_MODEL_CHANNELS_MAX + 1, .queue_depth = 1},
		{.channels = 1, .queue_depth = 0},
		{.channels = 1, .queue_depth = 65537},
		{.channels = 2, .queue_depth = 1, .rotational = true},
		{.channels = 1, .queue_depth = 1, .rotational = true, .synchronous = true},
		{.channels = 1, .queue_depth = 1, .rotational = true, .seek_min_ns = 1},
	};
	struct block_device *null, *model;

	cr_assert_eq(blkdev_null_create(&null, 64 * KIB, 0), 0);
	for (unsigned int i = 0; i < NR_OF(profiles); i++)
		cr_assert_eq(blkdev_model_create(&model, null, &profiles[i]), -EINVAL, "%u", i);
	blkdev_destroy(null);
}

/* ---- whole devices on the host's clock ---- */

/* A microsecond here and there. */
static const struct blkdev_profile quick = {
	.name = "quick",
	.channels = 3,
	.queue_depth = 4,
	.latency_ns = 1000,
	.read_bandwidth = 4 * SECOND,
	.write_bandwidth = 4 * SECOND,
	.write_iops = 1000000,
	.unit = 4096,
};

static struct block_device *model_over_ram(const struct blkdev_profile *profile)
{
	struct block_device *ram, *model;

	cr_assert_eq(blkdev_ram_create(&ram, MIB, 0), 0);
	cr_assert_eq(blkdev_model_create(&model, ram, profile), 0);
	return model;
}

static int transfer(struct block_device *bdev, enum bio_op op, uint64_t addr, void *memory,
		    size_t len)
{
	struct bio bio;
	int err;

	bio_init(&bio, bdev, op, BIO_DATA, addr);
	cr_assert_eq(bio_add(&bio, memory, len), 0);
	err = bio_submit_wait(&bio);
	bio_uninit(&bio);
	return err;
}

Test(blkdev_model, bytes_go_to_the_device_below)
{
	struct block_device *model = model_over_ram(&quick);
	struct blkdev_model_stats stats;
	char in[512], out[512];

	memset(out, 'x', sizeof(out));
	cr_assert_eq(transfer(model, BIO_WRITE, 4096, out, sizeof(out)), 0);
	cr_assert_eq(transfer(model->below, BIO_READ, 4096, in, sizeof(in)), 0);
	cr_assert_arr_eq(in, out, sizeof(in));
	memset(in, 0, sizeof(in));
	cr_assert_eq(transfer(model, BIO_READ, 4096, in, sizeof(in)), 0);
	cr_assert_arr_eq(in, out, sizeof(in));

	blkdev_model_read(model, &stats);
	cr_assert_eq(stats.ios, 2);
	cr_assert_eq(stats.media_written, 4096);
	cr_assert_eq(stats.media_read, 4096 + 512);
	cr_assert_eq(stats.partial_units, 1);
	cr_assert_eq(stats.queue_max, 1);
	cr_assert_eq(stats.channels, 3);
	blkdev_model_reset(model);
	blkdev_model_read(model, &stats);
	cr_assert_eq(stats.ios, 0);
	cr_assert_eq(stats.channels, 3);
	blkdev_destroy(model);
}

Test(blkdev_model, errors_of_the_device_below_are_the_request_s)
{
	static const struct blkdev_fault_rule rule = {
		.op = BIO_WRITE, .kind = -1, .count = 1, .error = -ENOSPC};
	struct block_device *null, *fault, *model;
	char memory[512] = {0};

	cr_assert_eq(blkdev_null_create(&null, MIB, 0), 0);
	cr_assert_eq(blkdev_fault_create(&fault, null), 0);
	cr_assert_eq(blkdev_fault_add(fault, &rule), 0);
	cr_assert_eq(blkdev_model_create(&model, fault, &quick), 0);
	cr_assert_eq(transfer(model, BIO_WRITE, 0, memory, sizeof(memory)), -ENOSPC);
	cr_assert_eq(transfer(model, BIO_WRITE, 0, memory, sizeof(memory)), 0);
	blkdev_destroy(model);
}

Test(blkdev_model, wrappers_stack_on_it)
{
	struct block_device *count;
	struct blkdev_count figures;
	char memory[512] = {0};

	cr_assert_eq(blkdev_count_create(&count, model_over_ram(&quick)), 0);
	cr_assert_eq(transfer(count, BIO_WRITE, 0, memory, sizeof(memory)), 0);
	blkdev_count_read(count, &figures);
	cr_assert_eq(figures.ios[BIO_WRITE][BIO_DATA], 1);
	blkdev_destroy(count);
}

Test(blkdev_model, only_disks_are_rotational)
{
	struct block_device *disk = model_over_ram(blkdev_profile_find("disk"));
	struct block_device *ssd = model_over_ram(blkdev_profile_find("nvme"));

	cr_assert(disk->rotational);
	cr_assert_not(ssd->rotational);
	blkdev_destroy(disk);
	blkdev_destroy(ssd);
}

/* What ended, in which order. */
struct ends {
	struct env_completion all;
	unsigned int nr;
	unsigned int nr_expected;
	uint64_t addrs[64];
};

static void note_end(struct bio *bio)
{
	struct ends *ends = bio->private_data;

	cr_assert_eq(bio->status, 0);
	ends->addrs[ends->nr++] = bio->addr;
	if (ends->nr == ends->nr_expected)
		env_complete(&ends->all);
}

static void submit_sector(struct block_device *bdev, struct bio *bio, uint64_t addr,
			  void (*end_io)(struct bio *bio), void *private_data)
{
	static char memory[512];

	bio_init(bio, bdev, BIO_READ, BIO_DATA, addr);
	/* Every read has the same zeroes to give. */
	cr_assert_eq(bio_add(bio, memory, sizeof(memory)), 0);
	bio->end_io = end_io;
	bio->private_data = private_data;
	bio_submit(bio);
}

Test(blkdev_model, one_tag_serves_in_order_of_submission)
{
	struct blkdev_profile profile = quick;
	struct ends ends = {.nr_expected = 64};
	struct blkdev_model_stats stats;
	struct block_device *model;
	struct bio bios[64];

	profile.queue_depth = 1;
	model = model_over_ram(&profile);
	env_completion_init(&ends.all);
	for (unsigned int i = 0; i < 64; i++)
		submit_sector(model, &bios[i], i * 37 % 64 * 512, note_end, &ends);
	env_completion_wait(&ends.all);
	for (unsigned int i = 0; i < 64; i++)
		cr_assert_eq(ends.addrs[i], i * 37 % 64 * 512, "number %u", i);
	blkdev_model_read(model, &stats);
	cr_assert_eq(stats.ios, 64);
	cr_assert_leq(stats.queue_max, 64);
	blkdev_destroy(model);
}

static void resubmit(struct bio *bio)
{
	struct ends *ends = bio->private_data;

	if (++ends->nr == ends->nr_expected)
		env_complete(&ends->all);
	else
		bio_submit(bio);
}

Test(blkdev_model, end_io_may_submit)
{
	struct block_device *model = model_over_ram(&quick);
	struct ends ends = {.nr_expected = 50};
	struct bio bio;

	env_completion_init(&ends.all);
	submit_sector(model, &bio, 0, resubmit, &ends);
	env_completion_wait(&ends.all);
	cr_assert_eq(ends.nr, 50);
	blkdev_destroy(model);
}

#define NR_THREADS    4
#define NR_PER_THREAD 100

struct submitter {
	struct env_thread *thread;
	struct block_device *bdev;
	uint64_t base; /* where its own addresses begin */
};

static void write_and_read_back(void *arg)
{
	const struct submitter *submitter = arg;
	struct block_device *bdev = submitter->bdev;
	char in[512], out[512];

	for (unsigned int i = 0; i < NR_PER_THREAD; i++) {
		uint64_t addr = submitter->base + i * 512;

		memset(out, (int)i, sizeof(out));
		cr_assert_eq(transfer(bdev, BIO_WRITE, addr, out, sizeof(out)), 0);
		cr_assert_eq(transfer(bdev, BIO_READ, addr, in, sizeof(in)), 0);
		cr_assert_arr_eq(in, out, sizeof(in));
	}
}

static void run_threads(const struct blkdev_profile *profile)
{
	struct block_device *model = model_over_ram(profile);
	struct submitter submitters[NR_THREADS];
	struct blkdev_model_stats stats;

	for (unsigned int i = 0; i < NR_THREADS; i++) {
		struct submitter *submitter = &submitters[i];

		*submitter = (struct submitter){.bdev = model, .base = i * 64 * KIB};
		cr_assert_eq(env_thread_create(&submitter->thread, "submitter", write_and_read_back,
					       submitter),
			     0);
	}
	for (unsigned int i = 0; i < NR_THREADS; i++)
		env_thread_join(submitters[i].thread);
	blkdev_model_read(model, &stats);
	cr_assert_eq(stats.ios, 2 * NR_THREADS * NR_PER_THREAD);
	blkdev_destroy(model);
}

Test(blkdev_model, many_threads_submit)
{
	run_threads(&quick);
}

Test(blkdev_model, many_threads_submit_to_a_disk)
{
	run_threads(&small_disk);
}

Test(blkdev_model, many_threads_copy)
{
	run_threads(blkdev_profile_find("pmem"));
}

Test(blkdev_model, every_profile_serves)
{
	char memory[4096] = {0};
	const char *name;

	for (unsigned int i = 0; (name = blkdev_profile_name(i)); i++) {
		struct block_device *model = model_over_ram(blkdev_profile_find(name));
		struct bio flush;

		cr_assert_eq(transfer(model, BIO_WRITE, 4096, memory, sizeof(memory)), 0);
		bio_init(&flush, model, BIO_FLUSH, BIO_DATA, 0);
		cr_assert_eq(bio_submit_wait(&flush), 0);
		blkdev_destroy(model);
	}
}

Test(blkdev_model, without_memory_nothing_is_created)
{
	struct block_device *null, *model;

	cr_assert_eq(blkdev_null_create(&null, MIB, 0), 0);
	for (unsigned int nr = 0; nr < 2; nr++) {
		env_alloc_fail(nr, 1);
		cr_assert_eq(blkdev_model_create(&model, null, &quick), -ENOMEM, "%u", nr);
		env_alloc_fail(0, 0);
	}
	blkdev_destroy(null);
}

/* ---- memory under another world's CPUs ---- */

static uint64_t charged_ns;

static void charge(uint64_t ns)
{
	charged_ns += ns;
}

static unsigned int two_cpus(void)
{
	return 2;
}

static void name_no_lock(const void *lock, const char *name)
{
	(void)lock;
	(void)name;
}

static void take_no_lock(struct env_mutex *mutex)
{
	(void)mutex;
}

static void wake_nobody(const uint32_t *addr, unsigned int nr)
{
	(void)addr;
	(void)nr;
}

/* One task, so that a lock is always free. */
static const struct env_world charging_world = {
	.lock_init = name_no_lock,
	.mutex_lock = take_no_lock,
	.mutex_unlock = take_no_lock,
	.futex_wake = wake_nobody,
	.nr_cpus = two_cpus,
	.cpu = charge,
};

static void count_end(struct bio *bio)
{
	++*(unsigned int *)bio->private_data;
}

Test(blkdev_model, submitter_pays_for_the_copy)
{
	static char memory[700 * KIB];
	struct blkdev_model_stats stats;
	unsigned int nr_ended = 0;
	struct block_device *model;
	struct bio bio;

	memset(memory, 1, sizeof(memory));
	env_world = &charging_world;
	model = model_over_ram(blkdev_profile_find("pmem"));
	bio_init(&bio, model, BIO_WRITE, BIO_DATA, 0);
	cr_assert_eq(bio_add(&bio, memory, sizeof(memory)), 0);
	bio.end_io = count_end;
	bio.private_data = &nr_ended;
	bio_submit(&bio);
	cr_assert_eq(nr_ended, 1, "before bio_submit() returns");
	/* 1.75 GB/s; each step is rounded up */
	cr_assert_geq(charged_ns, 409600);
	cr_assert_leq(charged_ns, 409600 + 11);
	blkdev_model_read(model, &stats);
	cr_assert_eq(stats.busy_ns[0], charged_ns);
	cr_assert_eq(stats.media_written, sizeof(memory));
	blkdev_destroy(model);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_report_pub_folio.c - published tables about folios, dirty blocks and CPU costs
 */
#include <criterion/criterion.h>
#include <iomap/cost.h>
#include <iomap/sim.h>

#include <string.h>

#include "blkdev/model.h"
#include "examples/report/published.h"

/* One seed; scale NULL: the table's own.  Returns what the program would exit with. */
static int run_table(const char *id, const char *scale, struct outcome *outcome)
{
	char err[ERR_MAX] = "";
	struct knobs knobs;
	int status;

	knobs_init(&knobs);
	cr_assert_eq(knobs_set(&knobs, "seed", "2", err), 0, "%s", err);
	if (scale)
		cr_assert_eq(knobs_set(&knobs, "scale", scale, err), 0, "%s", err);
	outcome_init(outcome, id);
	status = published_run(published_find(id), &knobs, outcome, err);
	cr_assert_str_empty(err, "%s", err);
	cr_assert_eq(status, outcome_misses(outcome) ? EXIT_MISS : EXIT_OK);
	return status;
}

static const struct fact *find_fact(const struct outcome *outcome, const char *what)
{
	for (unsigned int i = 0; i < outcome->nr_facts; i++)
		if (strncmp(outcome->facts[i].what, what, strlen(what)) == 0)
			return &outcome->facts[i];
	cr_assert_fail("no fact %s", what);
	return NULL;
}

static void check_inside(const struct outcome *outcome, const char *what)
{
	const struct fact *found = find_fact(outcome, what);

	cr_assert_eq(found->verdict, FACT_OK, "%s is %s", found->what, found->ours);
}

static void check_published(const char *id, unsigned int cell, double figure)
{
	cr_assert_eq(published_find(id)->cells[cell].published, figure);
}

Test(report_pub_folio, costs_of_calls_are_inside)
{
	struct outcome outcome;

	cr_assert_eq(run_table("A2", NULL, &outcome), EXIT_OK);
	cr_assert_eq(outcome.nr_facts, 8);
	check_published("A2", 0, 1700);
	outcome_destroy(&outcome);
}

Test(report_pub_folio, one_dirty_block_is_a_sixteenth_of_a_page)
{
	struct outcome outcome;

	cr_assert_eq(run_table("T31", "1/128", &outcome), EXIT_OK);
	check_inside(&outcome, "bits off: blocks");
	check_inside(&outcome, "bits on: blocks");
	check_published("T31", 0, 28);
	check_published("T31", 1, 452);
	outcome_destroy(&outcome);
}

Test(report_pub_folio, pages_are_written_as_often_as_they_become_dirty)
{
	struct outcome outcome;

	run_table("T7", NULL, &outcome);
	check_inside(&outcome, "xfs, dirty pages: 2g over 4g");
	check_inside(&outcome, "4g: xfs, dirty pages, over ext4");
	check_inside(&outcome, "8g: xfs, dirty pages, over ext4");
	check_inside(&outcome, "not dropped 4g: amplification");
	check_inside(&outcome, "not dropped 8g: amplification");
	check_published("T7", 3, 120);
	check_published("T7", 8, 290);
	outcome_destroy(&outcome);
}

static double amplification_of(const struct outcome *outcome, const char *label)
{
	const struct published *table = outcome->published;
	unsigned int cell = 0;

	while (cell < table->nr_cells && strcmp(table->cells[cell].label, label) != 0)
		cell++;
	cr_assert_lt(cell, table->nr_cells, "no cell %s", label);
	return published_run_of(outcome, 0, cell)->results.cache_amplification;
}

Test(report_pub_folio, pages_made_anew_hold_half_their_blocks_on_the_average)
{
	struct outcome outcome;

	run_table("T7", "1/256", &outcome);
	cr_assert_lt(amplification_of(&outcome, "xfs, dirty pages 8g"),
		     0.6 * amplification_of(&outcome, "xfs, dirty pages, not dropped 8g"));
	outcome_destroy(&outcome);
}

Test(report_pub_folio, the_speed_of_cpus_is_that_of_a_writer_whom_nothing_holds_up)
{
	struct outcome outcome;

	run_table("T7", "1/256", &outcome);
	check_inside(&outcome, "xfs, dirty pages 512m, MB/s");
	outcome_destroy(&outcome);
}

Test(report_pub_folio, with_dirty_pages_the_device_limits_and_else_the_writer)
{
	struct outcome outcome;

	run_table("T8", "1/128", &outcome);
	check_inside(&outcome, "xfs, dirty pages: amplification");
	check_inside(&outcome, "ext4: amplification");
	check_inside(&outcome, "xfs, dirty pages, over ext4");
	check_inside(&outcome, "CPU of the writer");
	check_published("T8", 0, 600);
	outcome_destroy(&outcome);
}

Test(report_pub_folio, a_disk_writes_random_blocks_slowly)
{
	struct outcome outcome;

	cr_assert_eq(run_table("T9", "1/256", &outcome), EXIT_OK);
	check_inside(&outcome, "the faster of the two");
	check_published("T9", 0, 8);
	outcome_destroy(&outcome);
}

Test(report_pub_folio, large_folios_do_not_slow_the_flusher_down)
{
	struct outcome outcome;

	run_table("T21", NULL, &outcome);
	cr_assert_geq(published_figure(&outcome, 1, false), published_figure(&outcome, 0, false));
	check_inside(&outcome, "no drive: CPU of the flusher");
	check_inside(&outcome, "no drive: large folios over single pages");
	check_published("T21", 0, 800);
	outcome_destroy(&outcome);
}

Test(report_pub_folio, the_order_hint_makes_256_times_fewer_folios)
{
	struct outcome outcome;

	run_table("T27", "1/128", &outcome);
	check_inside(&outcome, "hint on over off");
	check_inside(&outcome, "folios, hint off over on");
	check_published("T27", 1, 7655);
	outcome_destroy(&outcome);
}

/* ---- what they need ---- */

struct writer {
	struct block_device *dev;
	unsigned int nr_done;
	unsigned int done_when_third_was_taken;
};

static void count_done(struct bio *bio)
{
	__atomic_fetch_add((unsigned int *)bio->private_data, 1, __ATOMIC_RELAXED);
}

static void write_three(void *arg)
{
	static const struct blkdev_profile profile = {
		.channels = 1, .queue_depth = 8, .write_bandwidth = 1000000, .queue_bytes = 8192};
	static unsigned char memory[4096];
	struct writer *writer = arg;
	struct block_device *ram;
	struct bio bios[3];

	cr_assert_eq(blkdev_null_create(&ram, 1 << 20, 0), 0);
	cr_assert_eq(blkdev_model_create(&writer->dev, ram, &profile), 0);
	for (unsigned int i = 0; i < 3; i++) {
		bio_init(&bios[i], writer->dev, BIO_WRITE, BIO_DATA, i * 4096);
		cr_assert_eq(bio_add(&bios[i], memory, sizeof(memory)), 0);
		bios[i].end_io = count_done;
		bios[i].private_data = &writer->nr_done;
		bio_submit(&bios[i]);
	}
	writer->done_when_third_was_taken = __atomic_load_n(&writer->nr_done, __ATOMIC_RELAXED);
	env_sleep_ns(1000000000);
	cr_assert_eq(writer->nr_done, 3);
	for (unsigned int i = 0; i < 3; i++)
		bio_uninit(&bios[i]);
	blkdev_destroy(writer->dev);
}

Test(report_pub_folio, who_finds_the_queue_full_waits)
{
	struct writer writer = {0};
	struct env_sim_config config;
	struct env_sim_result result;

	env_sim_config_init(&config);
	cr_assert_eq(env_sim_run(&config, write_three, &writer, &result), 0, "%s", result.text);
	cr_assert_geq(writer.done_when_third_was_taken, 1);
}

static void flush_once(void *arg)
{
	static struct blkdev_profile profile = {
		.channels = 1, .queue_depth = 8, .latency_ns = 1000, .protected_cache = true};
	uint64_t *ns = arg;
	struct block_device *dev, *ram;
	struct bio bio;
	uint64_t start;

	cr_assert_eq(blkdev_null_create(&ram, 1 << 20, 0), 0);
	cr_assert_eq(blkdev_model_create(&dev, ram, &profile), 0);
	start = env_clock_ns();
	bio_init(&bio, dev, BIO_FLUSH, BIO_JOURNAL, 0);
	cr_assert_eq(bio_submit_wait(&bio), 0);
	*ns = env_clock_ns() - start;
	bio_uninit(&bio);
	blkdev_destroy(dev);
}

Test(report_pub_folio, a_protected_cache_needs_no_flush)
{
	struct env_sim_config config;
	struct env_sim_result result;
	uint64_t ns = 1;

	env_sim_config_init(&config);
	cr_assert_eq(env_sim_run(&config, flush_once, &ns, &result), 0, "%s", result.text);
	cr_assert_eq(ns, 0);
}

static void take_100_ns(void *arg)
{
	uint64_t start = env_clock_ns();

	env_cpu(100);
	*(uint64_t *)arg = env_clock_ns() - start;
}

Test(report_pub_folio, slow_cpus_take_so_many_times_as_long)
{
	struct env_sim_config config;
	struct env_sim_result result;
	uint64_t ns = 0;

	env_sim_config_init(&config);
	config.slow = 64;
	cr_assert_eq(env_sim_run(&config, take_100_ns, &ns, &result), 0, "%s", result.text);
	cr_assert_eq(ns, 6400);
}

/* ---- speed of CPUs ---- */

/* --cpu-speed of simulated CPUs; 0 if it is refused. */
static uint64_t slowness_at(const char *speed, const char *scale, const char *clock)
{
	struct knobs knobs;
	char err[ERR_MAX] = "";

	knobs_init(&knobs);
	cr_assert_eq(knobs_set(&knobs, "cpu-speed", speed, err), 0, "%s", err);
	cr_assert_eq(knobs_set(&knobs, "scale", scale, err), 0, "%s", err);
	cr_assert_eq(knobs_set(&knobs, "scale-rates", "on", err), 0, "%s", err);
	cr_assert_eq(knobs_set(&knobs, "clock", clock, err), 0, "%s", err);
	if (knobs_check(&knobs, "fio", err)) {
		cr_assert_neq(strstr(err, "--cpu-speed"), NULL, "%s", err);
		return 0;
	}
	return knobs_slowness(&knobs);
}

Test(report_pub_folio, the_speed_of_cpus_comes_on_top_of_the_scale)
{
	cr_assert_eq(slowness_at("1", "1/64", "virtual"), 64);
	cr_assert_eq(slowness_at("1/2", "1/64", "virtual"), 128);
	cr_assert_eq(slowness_at("7/11", "1/64", "virtual"), 101);
	cr_assert_eq(slowness_at("2", "1/64", "virtual"), 32);
	cr_assert_eq(slowness_at("1/3", "1", "virtual"), 3);
}

Test(report_pub_folio, a_speed_of_cpus_that_cannot_be_had_is_refused)
{
	cr_assert_eq(slowness_at("2/3", "1", "virtual"), 0);
	cr_assert_eq(slowness_at("2", "1", "virtual"), 0);
	cr_assert_eq(slowness_at("1/1000000", "1/64", "virtual"), 0);
	cr_assert_eq(slowness_at("1/2", "1", "real"), 0);
}

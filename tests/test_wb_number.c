/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_wb_number.c - how many contexts there are: automatic, asked for, refused (W8..W12, W32)
 */
#include <iomap/backing_dev.h>

#include <stdio.h>
#include "tests/test_wb_many.h"

/* ---- automatic (W8) ------------------------------------------------------------------ */

static unsigned int wanted;

static unsigned int want(const struct super_block *sb)
{
	(void)sb;
	return wanted;
}

static uint64_t shard_is_ino(const struct inode *inode)
{
	return inode->i_ino;
}

static const struct super_operations wanting = {
	.wb_parallelism = want,
	.wb_shard = shard_is_ino,
};

struct automatic {
	bool rotational;
	unsigned int nr_cpus;
	unsigned int nr;
};

static void automatic_program(void *arg)
{
	struct automatic *run = arg;
	struct flat_config config;
	struct bdi_stats stats;
	struct flat rig;

	flat_config_init(&config);
	config.nr_contexts = 0;
	config.rotational = run->rotational;
	config.super_ops = &wanting;
	flat_open(&rig, &config);
	flat_remove(flat_create(&rig, 1));
	run->nr = bdi_nr_contexts(rig.bdi);
	bdi_get_stats(rig.bdi, &stats);
	cr_assert_eq(stats.automatic, run->nr);
	cr_assert_eq(stats.nr_cpus, run->nr_cpus);
	cr_assert_eq(stats.parallelism, wanted);
	cr_assert_eq(stats.rotational, run->rotational);
	/* N5: what is chosen could be asked for. */
	cr_assert_eq(bdi_set_nr_contexts(rig.bdi, run->nr), 0);
	flat_close(&rig);
}

/* WT1, N5 */
Test(wb_number, automatic_number_by_device_cpus_and_groups)
{
	static const unsigned int cpus[] = {1, 2, 8, 128};
	static const unsigned int groups[] = {1, 4, 128, 1000000};

	for (unsigned int i = 0; i < 32; i++) {
		struct automatic run = {.rotational = i & 1, .nr_cpus = cpus[i / 2 % 4]};
		unsigned int expected = run.nr_cpus;

		wanted = groups[i / 8];
		if (wanted < expected)
			expected = wanted;
		if (run.rotational)
			expected = 1;
		wb_simulate(run.nr_cpus, 0, automatic_program, &run);
		cr_assert_eq(run.nr, expected);
	}
}

static void million_program(void *arg)
{
	struct page_cache_config config;
	struct inode *inodes;
	struct flat rig;

	(void)arg;
	wanted = 1000000;
	many_config(&config);
	wb_rig_open(&rig, &config, NULL, 0, WB_MAP_AUTO, &wanting);
	inodes = many_create(&rig, 0, 10000);
	cr_assert_eq(bdi_nr_contexts(rig.bdi), 8);
	many_dirty(inodes, 10000);
	for (unsigned int i = 0; i < 8; i++)
		cr_assert_eq(flat_wb_stats(&rig, i).nr_dirty_inodes, 10000 / 8);
	cr_assert_eq(super_sync(&rig.sb), 0);
	cr_assert_eq(flat_stats(&rig).nr_dirty, 0);
	many_remove(inodes, 10000);
	flat_close(&rig);
}

/* WT2, W11 */
Test(wb_number, a_million_groups_share_eight_contexts)
{
	static struct env_sim_result result;
	struct env_sim_config config;

	cr_assert_lt(sizeof(struct wb_ctx), 64 * KiB);
	env_sim_config_init(&config);
	config.nr_cpus = 8;
	cr_assert_eq(env_sim_run(&config, million_program, NULL, &result), 0, "%s", result.text);
	for (unsigned int i = 0; i < result.nr_kinds; i++)
		if (strcmp(result.kinds[i].name, "flush") == 0)
			cr_assert_eq(result.kinds[i].nr_tasks, 8);
}

/* ---- two file systems (W12) ----------------------------------------------------------- */

static unsigned int want_four(const struct super_block *sb)
{
	(void)sb;
	return 4;
}

static void two_program(void *arg)
{
	static const struct super_operations four = {.wb_parallelism = want_four};
	struct flat_file *ours[8], *theirs[8];
	struct flat_config config;
	struct super_block second;
	struct flat rig;

	(void)arg;
	wanted = 8;
	flat_config_init(&config);
	config.nr_contexts = 0;
	config.super_ops = &four;
	flat_open(&rig, &config);
	ours[0] = flat_create(&rig, 0);
	cr_assert_eq(bdi_nr_contexts(rig.bdi), 4);
	cr_assert_eq(super_init(&second, rig.cache, rig.bdi, PAGE, &wanting), 0);
	for (unsigned int i = 0; i < 8; i++) {
		if (i)
			ours[i] = flat_create(&rig, i);
		theirs[i] = flat_create_on(&rig, &second, 8 + i);
		flat_dirty_page(ours[i], 0, 1);
		flat_dirty_page(theirs[i], 0, 2);
	}
	cr_assert_eq(bdi_nr_contexts(rig.bdi), 8);
	for (unsigned int i = 0; i < 8; i++)
		flat_remove(theirs[i]);
	super_shutdown(&second);
	cr_assert_eq(bdi_nr_contexts(rig.bdi), 4);
	wb_assert_settled(&rig);
	wb_assert_balanced(&rig);
	for (unsigned int i = 0; i < 8; i++) {
		cr_assert_lt(wb_context_of(&ours[i]->inode), 4);
		flat_dirty_page(ours[i], 1, 1);
	}
	cr_assert_eq(super_sync(&rig.sb), 0);
	for (unsigned int i = 0; i < 8; i++) {
		cr_assert(ours[i]->written[0] && ours[i]->written[1]);
		flat_remove(ours[i]);
	}
	flat_close(&rig);
}

/* WT8, N8, N12 */
Test(wb_number, the_number_follows_mounts_and_unmounts)
{
	wb_simulate(8, 0, two_program, NULL);
	for (uint64_t seed = 1; seed <= 20; seed++)
		wb_simulate(8, seed, two_program, NULL);
}

/* ---- asked for (W10, W36) ------------------------------------------------------------- */

static struct flat flat;

static void open_flat(unsigned int nr)
{
	struct flat_config config;

	flat_config_init(&config);
	config.nr_contexts = nr;
	flat_open(&flat, &config);
}

static void close_flat(void)
{
	flat_close(&flat);
}

TestSuite(wb_asked, .fini = close_flat);

/* N6: the range is 1 .. 256, and 0 is automatic. */
Test(wb_asked, the_accepted_range_is_the_documented_one)
{
	open_flat(3);
	cr_assert_eq(bdi_set_nr_contexts(flat.bdi, WB_CTX_MAX + 1), -EINVAL);
	cr_assert_eq(bdi_nr_contexts(flat.bdi), 3);
	cr_assert_eq(bdi_set_nr_contexts(flat.bdi, WB_CTX_MAX), 0);
	cr_assert_eq(bdi_nr_contexts(flat.bdi), WB_CTX_MAX);
	cr_assert_eq(bdi_set_nr_contexts(flat.bdi, 1), 0);
	cr_assert_eq(bdi_nr_contexts(flat.bdi), 1);
	cr_assert_eq(bdi_set_nr_contexts(flat.bdi, 7), 0);
	cr_assert_eq(bdi_set_nr_contexts(flat.bdi, 0), 0);
	cr_assert_eq(bdi_nr_contexts(flat.bdi), 1);
	wb_assert_settled(&flat);
}

Test(wb_asked, asking_for_what_there_is_changes_nothing)
{
	struct bdi_stats before, after;

	open_flat(3);
	bdi_get_stats(flat.bdi, &before);
	cr_assert_eq(bdi_set_nr_contexts(flat.bdi, 3), 0);
	bdi_get_stats(flat.bdi, &after);
	cr_assert_eq(before.resizes, after.resizes);
	cr_assert_eq(after.nr_slots, 3);
}

/* N15, W36 */
Test(wb_asked, the_text_setter_consumes_all_or_refuses)
{
	static const char *const bad[] = {"", " ", "x", "1x", "-1", "257", "99999999999", "1 2"};
	static const char text[] = "4\n";
	size_t consumed = 0;
	unsigned int calls = 0;

	open_flat(1);
	while (consumed < 2) {
		ssize_t n = bdi_store_nr(flat.bdi, &text[consumed], 2 - consumed);

		cr_assert_gt(n, 0);
		consumed += (size_t)n;
		calls++;
	}
	cr_assert_eq(calls, 1);
	cr_assert_eq(bdi_nr_contexts(flat.bdi), 4);
	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_assert_eq(bdi_store_nr(flat.bdi, bad[i], strlen(bad[i])), -EINVAL);
	cr_assert_eq(bdi_nr_contexts(flat.bdi), 4);
	cr_assert_eq(bdi_store_nr(flat.bdi, " 0 ", 3), 3);
	cr_assert_eq(bdi_nr_contexts(flat.bdi), 1);
}

/* WT10, N11 */
Test(wb_asked, a_failing_grow_changes_nothing)
{
	struct flat_file *file;
	unsigned int failures = 0;
	int err;

	open_flat(2);
	file = flat_create(&flat, 1);
	do {
		struct bdi_stats stats;

		env_alloc_fail(failures, 1);
		err = bdi_set_nr_contexts(flat.bdi, 6);
		if (!env_alloc_fail(0, 0))
			break;
		cr_assert_eq(err, -ENOMEM);
		failures++;
		bdi_get_stats(flat.bdi, &stats);
		cr_assert_eq(stats.nr_live, 2);
		cr_assert_eq(stats.nr_slots, 2);
		cr_assert_eq(stats.user_nr, 2);
		cr_assert_eq(stats.resizes, 0);
		flat_dirty_page(file, failures, 1);
	} while (failures < 100);
	cr_assert_eq(err, 0);
	cr_assert_geq(failures, 4); /* at least each of the new contexts */
	cr_assert_eq(bdi_nr_contexts(flat.bdi), 6);
	cr_assert_eq(super_sync(&flat.sb), 0);
	flat_remove(file);
}

/* W25: more and fewer workers while something is written. */
Test(wb_asked, the_number_of_workers_can_be_changed_at_any_time)
{
	struct bdi_tuning tuning;
	struct flat_file *file;

	open_flat(2);
	file = flat_create(&flat, 1);
	bdi_get_tuning(flat.bdi, &tuning);
	cr_assert_eq(tuning.workers_per_ctx, 1);
	for (unsigned int i = 0; i < 50; i++) {
		flat_dirty_pages(file, 0, 10, 1);
		bdi_start_writeback(flat.bdi, INT64_MAX);
		tuning.workers_per_ctx = 1 + i * 7 % WB_WORKERS_MAX;
		cr_assert_eq(bdi_set_tuning(flat.bdi, &tuning), 0);
		if (i % 10 == 0)
			cr_assert_eq(bdi_set_nr_contexts(flat.bdi, 1 + i / 10), 0);
	}
	cr_assert_eq(super_sync(&flat.sb), 0);
	flat_remove(file);
}

Test(wb_asked, tuning_out_of_range_is_refused)
{
	struct bdi_tuning good, bad;

	open_flat(1);
	bdi_get_tuning(flat.bdi, &good);
#define REFUSED(member, value)                                                                     \
	do {                                                                                       \
		bad = good;                                                                        \
		bad.member = (value);                                                              \
		cr_assert_eq(bdi_set_tuning(flat.bdi, &bad), -EINVAL);                             \
	} while (0)
	REFUSED(map, (enum wb_map)(WB_MAP_INDEX + 1));
	REFUSED(throttle_share, (enum wb_share)(WB_SHARE_POSTED + 1));
	REFUSED(workers_per_ctx, 0);
	REFUSED(workers_per_ctx, WB_WORKERS_MAX + 1);
	REFUSED(min_slice, PAGE - 1);
	REFUSED(max_ratio, 101);
	REFUSED(min_ratio, 101);
#undef REFUSED
	cr_assert_eq(bdi_set_tuning(flat.bdi, &good), 0);
}

/* N20, W62 */
Test(wb_asked, the_text_has_a_line_for_each_context)
{
	char text[16384], small[10];
	ssize_t len;
	char *line;

	open_flat(5);
	cr_assert_eq(bdi_set_nr_contexts(flat.bdi, 3), 0);
	len = bdi_show(flat.bdi, text, sizeof(text));
	cr_assert_eq((size_t)len, strlen(text));
	line = strchr(text, '\n') + 1;
	for (unsigned int i = 0; i < 5; i++) {
		char start[16];

		snprintf(start, sizeof(start), "%u %s ", i, i < 3 ? "live" : "idle");
		cr_assert_eq(strncmp(line, start, strlen(start)), 0, "%s", line);
		line = strchr(line, '\n') + 1;
	}
	cr_assert_str_empty(line);
	cr_assert_eq(bdi_show(flat.bdi, small, sizeof(small)), len);
	cr_assert_eq(strlen(small), sizeof(small) - 1);
	cr_assert_eq(bdi_show(flat.bdi, NULL, 0), len);
}

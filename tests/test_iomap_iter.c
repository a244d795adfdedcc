/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_iomap_iter.c - begin, body, end: the protocol between the library and a file system
 */
#include "world.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

static struct world world;
static struct world_file *file;

static void open_world(struct world_config config)
{
	world_open(&world, &config);
	file = world.file;
}

static void close_world(void)
{
	world_check(&world);
	world_close(&world);
}

TestSuite(iomap_iter, .fini = close_world);

/* Each begin that worked has its end, with the same flags, and `written` is the advance. */
static void check_log(uint64_t pos, uint64_t len)
{
	const struct world_call *call = file->calls;

	for (unsigned int i = 0; i < file->nr_calls; i++, call++) {
		uint64_t next;

		cr_assert_not(call->is_end);
		cr_assert_eq(call->pos, pos);
		cr_assert_eq(call->len, len); /* M4 */
		cr_assert_gt(call->len, 0);
		if (call->result)
			return;
		call++;
		i++;
		cr_assert(call->is_end); /* M2 */
		cr_assert_eq(call->pos, pos);
		cr_assert_eq(call->flags, call[-1].flags);
		cr_assert_leq(call->written, call->len);
		next = i + 1 < file->nr_calls ? call[1].pos : pos + call->written;
		cr_assert_eq(call->written, next - pos);
		len -= next - pos;
		pos = next;
	}
}

Test(iomap_iter, each_begin_has_one_end_that_tells_the_advance) /* M2 M4 */
{
	open_world((struct world_config){.block_size = 1024, .max_map = 3072});
	world_fill(file, 0, 100, 1);
	file->nr_calls = 0;
	world_fill(file, 50, 20000, 1);
	cr_assert_geq(file->nr_calls, 12);
	check_log(50, 20000);
	cr_assert_eq(file->nr_begins, file->nr_ends);
}

Test(iomap_iter, reads_and_zeroing_follow_the_same_protocol) /* M2 M4 */
{
	open_world((struct world_config){.block_size = 1024, .max_map = 2048});
	world_set(file, 0, 65536, IOMAP_MAPPED);
	cr_assert_eq(world_zero(file, 100, 30000, NULL), 0);
	check_log(100, 30000);
	for (unsigned int i = 0; i < file->nr_calls; i++)
		cr_assert_eq(file->calls[i].flags, IOMAP_ZERO);
	world_drop(&world);
	file->nr_calls = 0;
	cr_assert(world_reads_as(file, 40000, 100, 0));
	for (unsigned int i = 0; i < file->nr_calls; i++)
		cr_assert_eq(file->calls[i].flags, 0);
	cr_assert_eq(file->nr_begins, file->nr_ends);
}

Test(iomap_iter, failed_begin_gets_no_end_and_its_error_is_returned) /* M3 */
{
	open_world((struct world_config){0});
	file->begin_error = -ENOSPC;
	cr_assert_eq(world_write(file, 0, "x", 1), -ENOSPC);
	cr_assert_eq(file->nr_begins, 1);
	cr_assert_eq(file->nr_ends, 0);
	cr_assert_eq(inode_size_read(&file->inode), 0);
}

Test(iomap_iter, begin_that_fails_later_makes_a_short_write) /* M3 M31 */
{
	static char memory[16384];

	open_world((struct world_config){.max_map = 4096});
	file->begin_error = -ENOSPC;
	file->begin_error_after = 2;
	cr_assert_eq(world_write(file, 0, memory, sizeof(memory)), 8192);
	cr_assert_eq(file->nr_begins, 3);
	cr_assert_eq(file->nr_ends, 2);
	cr_assert_eq(inode_size_read(&file->inode), 8192);
}

Test(iomap_iter, nothing_to_do_asks_nothing) /* M4 */
{
	struct iomap_iter iter = {0};

	open_world((struct world_config){0});
	cr_assert_eq(world_write(file, 0, "", 0), 0);
	cr_assert_eq(world_zero(file, 0, 0, NULL), 0);
	iter.inode = &file->inode;
	cr_assert_eq(iomap_iter(&iter, &world_ops), 0);
	cr_assert_eq(file->nr_begins, 0);
}

/* ---- maps that break the contract (M5) ---- */

enum bad { EMPTY, TOO_LATE, ENDS_AT_POS, ENDS_BEFORE, SOURCE_EMPTY, SOURCE_LATE, NR_BAD };

static int spoil(struct world_file *f, uint64_t pos, uint64_t len, unsigned int flags,
		 struct iomap *map, struct iomap *src)
{
	(void)len;
	(void)flags;
	switch (*(enum bad *)f->arg) {
	case EMPTY:
		map->length = 0;
		break;
	case TOO_LATE:
		map->offset = pos + 4096;
		break;
	case ENDS_AT_POS:
		map->offset = 0;
		map->length = pos;
		break;
	case ENDS_BEFORE:
		map->offset = 0;
		map->length = pos - 4096;
		break;
	case SOURCE_EMPTY:
		*src = *map;
		src->type = IOMAP_MAPPED;
		src->length = 0;
		break;
	case SOURCE_LATE:
		*src = *map;
		src->type = IOMAP_MAPPED;
		src->offset = pos + 1;
		break;
	case NR_BAD:
		break;
	}
	return 0;
}

Test(iomap_iter, unusable_map_fails_and_the_cache_stays_as_it_is) /* M5 */
{
	enum bad bad;
	char byte;

	open_world((struct world_config){0});
	world_set(file, 0, 65536, IOMAP_MAPPED);
	file->on_begin = spoil;
	file->arg = &bad;
	for (bad = 0; bad < NR_BAD; bad++) {
		cr_assert_eq(world_write(file, 16384, "x", 1), -EIO, "write, %u", bad);
		cr_assert_eq(world_zero(file, 16384, 100, NULL), -EIO, "zero, %u", bad);
		cr_assert_eq(file->inode.i_mapping.nr_pages, 0);
		cr_assert_eq(world_read(file, 16384, &byte, 1), -EIO, "read, %u", bad);
		world_drop(&world);
	}
	cr_assert_eq(file->nr_begins, file->nr_ends);
	file->on_begin = NULL;
	cr_assert(world_reads_as(file, 0, 65536, 0));
}

static int say_hole(struct world_file *f, uint64_t pos, uint64_t len, unsigned int flags,
		    struct iomap *map, struct iomap *src)
{
	(void)f;
	(void)pos;
	(void)len;
	(void)flags;
	(void)src;
	map->type = IOMAP_HOLE;
	map->flags = 0;
	return 0;
}

Test(iomap_iter, hole_is_no_map_for_a_write) /* M5, A5 */
{
	open_world((struct world_config){0});
	world_set(file, 0, 8192, IOMAP_MAPPED);
	file->on_begin = say_hole;
	cr_assert_eq(world_write(file, 0, "x", 1), -EIO);
	cr_assert_eq(file->inode.i_mapping.nr_pages, 0);
}

/* ---- the iterator alone ---- */

static struct iomap_iter start(uint64_t pos, uint64_t len)
{
	struct iomap_iter iter = {.inode = &file->inode, .pos = pos, .len = len};

	cr_assert_eq(iomap_iter(&iter, &world_ops), 1);
	return iter;
}

Test(iomap_iter, advance_beyond_what_is_usable_moves_nothing) /* M7 */
{
	struct iomap_iter iter;

	open_world((struct world_config){.max_map = 8192});
	world_set(file, 0, 65536, IOMAP_MAPPED);
	iter = start(1000, 20000);
	cr_assert_eq(iomap_length(&iter), 8192 - 1000);
	cr_assert_eq(iomap_iter_advance(&iter, 8192 - 1000 + 1), -EIO);
	cr_assert_eq(iter.pos, 1000);
	cr_assert_eq(iter.len, 20000);
	cr_assert_eq(iomap_iter_advance(&iter, 0), 0);
	cr_assert_eq(iomap_iter_advance(&iter, 192), 0);
	cr_assert_eq(iomap_iter_advance(&iter, 7000), 0);
	cr_assert_eq(iomap_length(&iter), 0);
	cr_assert_eq(iomap_iter(&iter, &world_ops), 1);
	cr_assert_eq(iter.pos, 8192);
	cr_assert_eq(iter.iter_start_pos, 8192);
	cr_assert_eq(iomap_iter_advance(&iter, 8192), 0);
	cr_assert_eq(iomap_iter(&iter, &world_ops), 1);
	/* Less is asked for than is mapped. */
	cr_assert_eq(iomap_length(&iter), 20000 - (16384 - 1000));
	cr_assert_eq(iomap_iter_advance(&iter, iomap_length(&iter)), 0);
	cr_assert_eq(iomap_iter(&iter, &world_ops), 0);
	check_log(1000, 20000);
}

Test(iomap_iter, body_without_progress_ends_the_loop)
{
	struct iomap_iter iter;

	open_world((struct world_config){0});
	world_set(file, 0, 8192, IOMAP_MAPPED);
	iter = start(0, 8192);
	cr_assert_eq(iomap_iter(&iter, &world_ops), 0);
	cr_assert_eq(file->nr_ends, 1);
}

Test(iomap_iter, stale_map_is_asked_for_again_without_progress)
{
	struct iomap_iter iter;

	open_world((struct world_config){0});
	world_set(file, 0, 8192, IOMAP_MAPPED);
	iter = start(0, 8192);
	for (unsigned int i = 0; i < 3; i++) {
		iter.iomap.flags |= IOMAP_F_STALE;
		cr_assert_eq(iomap_iter(&iter, &world_ops), 1);
		cr_assert_eq(iter.iomap.flags & IOMAP_F_STALE, 0);
	}
	cr_assert_eq(iomap_iter(&iter, &world_ops), 0);
	cr_assert_eq(file->nr_begins, 4);
	cr_assert_eq(file->nr_ends, 4);
}

Test(iomap_iter, error_of_the_body_is_returned_after_end)
{
	struct iomap_iter iter;

	open_world((struct world_config){0});
	world_set(file, 0, 8192, IOMAP_MAPPED);
	iter = start(0, 8192);
	cr_assert_eq(iomap_iter_advance(&iter, 100), 0);
	iter.status = -ENODATA;
	cr_assert_eq(iomap_iter(&iter, &world_ops), -ENODATA);
	cr_assert_eq(file->calls[1].written, 100);
	iter = start(0, 8192);
	iter.status = 5; /* no body may say that */
	cr_assert_eq(iomap_iter(&iter, &world_ops), -EIO);
	cr_assert_eq(file->nr_begins, file->nr_ends);
}

static int short_source(struct world_file *f, uint64_t pos, uint64_t len, unsigned int flags,
			struct iomap *map, struct iomap *src)
{
	(void)f;
	(void)pos;
	(void)len;
	(void)flags;
	*src = *map;
	src->length = 4096;
	return 0;
}

Test(iomap_iter, source_map_limits_what_is_usable)
{
	struct iomap_iter iter;

	open_world((struct world_config){0});
	world_set(file, 0, 65536, IOMAP_MAPPED);
	file->on_begin = short_source;
	iter = start(1000, 60000);
	cr_assert_eq(iomap_length(&iter), 3096);
	cr_assert_eq(iomap_iter_advance(&iter, 3097), -EIO);
	cr_assert_eq(iomap_iter_advance(&iter, 3096), 0);
	file->on_begin = NULL;
	cr_assert_eq(iomap_iter(&iter, &world_ops), 1);
	cr_assert_eq(file->calls[1].len, 3096); /* of end: what could have been done */
	cr_assert_eq(iomap_iter(&iter, &world_ops), 0);
}

/* ---- errors of end (M10) ---- */

Test(iomap_iter, error_of_end_is_dropped_after_progress) /* M10 */
{
	open_world((struct world_config){0});
	file->end_error = -EDQUOT;
	cr_assert_eq(world_write(file, 0, "abc", 3), 3);
	cr_assert_eq(inode_size_read(&file->inode), 3);
}

Test(iomap_iter, error_of_end_is_returned_without_progress) /* M10 */
{
	struct world_source source;

	open_world((struct world_config){0});
	file->end_error = -EDQUOT;
	world_source_init(&source, "abc", 3);
	source.bad_at = 0;
	cr_assert_eq(world_write_from(file, 0, &source.iter, 0), -EDQUOT);
	cr_assert_eq(inode_size_read(&file->inode), 0);
}

/* ---- staleness ---- */

Test(iomap_iter, map_out_of_date_k_times_costs_k_begins) /* M8 */
{
	open_world((struct world_config){.block_size = 512});
	world_set(file, 0, 65536, IOMAP_MAPPED);
	for (unsigned int k = 0; k < 5; k++) {
		file->stale_left = k;
		file->nr_begins = 0;
		world_fill(file, 1000 * k, 700, k);
		cr_assert_eq(file->nr_begins, k + 1);
		cr_assert(world_reads_as(file, 1000 * k, 700, k));
	}
}

Test(iomap_iter, map_longer_than_the_request_changes_nothing_outside) /* M6 */
{
	open_world((struct world_config){.block_size = 512});
	world_set(file, 0, 65536, IOMAP_MAPPED);
	world_fill(file, 20000, 1000, 3);
	cr_assert_eq(file->calls[0].pos, 20000);
	cr_assert(world_reads_as(file, 0, 20000, 0));
	cr_assert(world_reads_as(file, 20000, 1000, 3));
	cr_assert(world_reads_as(file, 21000, 65536 - 21000, 0));
	cr_assert_eq(world_zero(file, 30000, 10, NULL), 0);
	cr_assert(world_reads_as(file, 21000, 9000, 0));
	cr_assert(world_reads_zero(file, 30000, 10));
	cr_assert(world_reads_as(file, 30010, 65536 - 30010, 0));
}

Test(iomap_iter, error_after_progress_in_a_map_asks_once_more) /* B10, M29 */
{
	static char memory[8192];
	struct world_source source;

	open_world((struct world_config){.max_folio = 4096});
	world_source_init(&source, memory, sizeof(memory));
	source.bad_at = 5000;
	cr_assert_eq(world_write_from(file, 0, &source.iter, 0), 5000);
	cr_assert_eq(file->nr_begins, 2);
	cr_assert_eq(file->calls[1].written, 5000);
	cr_assert_eq(file->calls[2].pos, 5000);
	cr_assert_eq(file->calls[3].written, 0);
	check_log(0, 8192);
}

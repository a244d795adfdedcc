/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_folio_orders.c - the folios that Linux makes for the same writes and reads
 *
 * folio-orders.json says, for each case, which folios Linux 6.18 XFS put into its page cache,
 * in order; the library must put the same ones there (J3..J10, J14).
 */
#include <iomap/fsbackend.h>

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <iomap/backing_dev.h>
#include <iomap/blkdev.h>
#include <iomap/page_cache.h>

#define MiB (1ull << 20)

struct one_folio {
	uint64_t index;
	unsigned int order;
};

/* What page_cache_trace_insert() saw of one inode. */
struct trace {
	const struct inode *inode;
	size_t nr;
	struct one_folio folios[4096];
};

struct replay {
	struct block_device *dev;
	struct page_cache *cache;
	struct backing_dev *bdi;
	struct fs *fs;
	struct trace *trace;
	json_t *data;
	unsigned char *buffer;
};

/* As large as the longest single write or read of the data. */
#define BUFFER_BYTES (16 * MiB)

static void note_insert(void *arg, const struct inode *inode, uint64_t index, unsigned int order)
{
	struct trace *trace = arg;

	if (inode != trace->inode)
		return;
	cr_assert_lt(trace->nr, sizeof(trace->folios) / sizeof(trace->folios[0]));
	trace->folios[trace->nr++] = (struct one_folio){index, order};
}

static void replay_open(struct replay *replay, uint32_t readahead_bytes)
{
	struct fs_config fs_config = {.type = "xfs", .block_size = 4096};
	struct page_cache_config config;
	char error[256];
	json_error_t json_error;
	int err;

	page_cache_config_init(&config);
	config.capacity = 256 * MiB;
	config.page_size = 4096;
	config.max_folio = 2 * MiB;
	config.prefault = false;
	config.writeback_interval_ns = 0;
	config.readahead_bytes = readahead_bytes;
	cr_assert_eq(page_cache_create(&replay->cache, &config), 0);
	cr_assert_eq(blkdev_ram_create(&replay->dev, 1024 * MiB, 0), 0);
	cr_assert_eq(bdi_create(&replay->bdi, replay->cache, replay->dev, 1, WB_MAP_AUTO), 0);
	err = fs_mount(&replay->fs, replay->cache, replay->bdi, replay->dev, &fs_config, error,
		       sizeof(error));
	cr_assert_eq(err, 0, "%s", error);
	replay->trace = calloc(1, sizeof(*replay->trace));
	replay->buffer = calloc(1, BUFFER_BYTES);
	cr_assert(replay->trace && replay->buffer);
	replay->data = json_load_file(IOMAP_TEST_DATA "/folio-orders.json", 0, &json_error);
	cr_assert(replay->data, "line %d: %s", json_error.line, json_error.text);
}

static void replay_close(struct replay *replay)
{
	json_decref(replay->data);
	free(replay->buffer);
	free(replay->trace);
	cr_assert_eq(fs_unmount(replay->fs), 0);
	bdi_destroy(replay->bdi);
	page_cache_destroy(replay->cache);
	blkdev_destroy(replay->dev);
}

static struct file *case_open(struct replay *replay, const char *name)
{
	struct file *file;

	cr_assert_eq(fs_open(replay->fs, "/case", FS_OPEN_CREATE | FS_OPEN_EXCLUSIVE, &file), 0,
		     "%s", name);
	return file;
}

static void case_close(struct replay *replay, struct file *file)
{
	cr_assert_eq(fs_close(file), 0);
	cr_assert_eq(fs_unlink(replay->fs, "/case"), 0);
}

static void trace_start(struct replay *replay, struct file *file)
{
	replay->trace->inode = fs_inode_of(file);
	replay->trace->nr = 0;
	page_cache_trace_insert(replay->cache, note_insert, replay->trace);
}

static uint64_t number_at(const json_t *array, size_t i)
{
	const json_t *value = json_array_get(array, i);

	cr_assert(json_is_integer(value));
	return (uint64_t)json_integer_value(value);
}

/* Index and order of the folios as one line, as many as fit. */
static void print_folios(char *text, size_t size, const struct one_folio *folios, size_t nr)
{
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < nr && used < size; i++)
		used += (size_t)snprintf(text + used, size - used, "[%llu,%u] ",
					 (unsigned long long)folios[i].index, folios[i].order);
}

static void compare(const struct trace *trace, const json_t *one_case)
{
	const json_t *expected = json_object_get(one_case, "folios");
	const char *name = json_string_value(json_object_get(one_case, "name"));
	size_t nr = json_array_size(expected);
	bool same = nr == trace->nr;
	char text[2000];

	cr_assert_gt(nr, 0);
	for (size_t i = 0; same && i < nr; i++) {
		const json_t *folio = json_array_get(expected, i);

		same = number_at(folio, 0) == trace->folios[i].index &&
		       number_at(folio, 1) == trace->folios[i].order;
	}
	print_folios(text, sizeof(text), trace->folios, trace->nr);
	cr_expect(same, "%s: %zu folios, not the %zu expected: %s", name, trace->nr, nr, text);
}

static void replay_writes(struct replay *replay, const json_t *one_case)
{
	const char *name = json_string_value(json_object_get(one_case, "name"));
	const json_t *writes = json_object_get(one_case, "writes");
	struct file *file = case_open(replay, name);

	trace_start(replay, file);
	for (size_t i = 0; i < json_array_size(writes); i++) {
		const json_t *write = json_array_get(writes, i);
		uint64_t len = number_at(write, 1);

		cr_assert_leq(len, BUFFER_BYTES);
		cr_assert_eq(fs_write(file, replay->buffer, len, number_at(write, 0)), (ssize_t)len,
			     "%s", name);
	}
	compare(replay->trace, one_case);
	page_cache_trace_insert(replay->cache, NULL, NULL);
	case_close(replay, file);
}

static void replay_reads(struct replay *replay, const json_t *one_case)
{
	const char *name = json_string_value(json_object_get(one_case, "name"));
	const json_t *reads = json_object_get(one_case, "reads");
	uint64_t size = (uint64_t)json_integer_value(json_object_get(one_case, "file_bytes"));
	struct file *file = case_open(replay, name);

	cr_assert_leq(size, BUFFER_BYTES);
	cr_assert_eq(fs_write(file, replay->buffer, size, 0), (ssize_t)size);
	cr_assert_eq(fs_fsync(file, false), 0);
	page_cache_drop(replay->cache);
	cr_assert_eq(fs_close(file), 0);
	/* Another open file, with readahead state of its own. */
	cr_assert_eq(fs_open(replay->fs, "/case", 0, &file), 0);
	trace_start(replay, file);
	for (size_t i = 0; i < json_array_size(reads); i++) {
		const json_t *read = json_array_get(reads, i);
		uint64_t len = number_at(read, 1);

		cr_assert_eq(fs_read(file, replay->buffer, len, number_at(read, 0)), (ssize_t)len,
			     "%s", name);
	}
	compare(replay->trace, one_case);
	page_cache_trace_insert(replay->cache, NULL, NULL);
	case_close(replay, file);
}

Test(folio_orders, every_write_case_makes_the_folios_of_linux)
{
	struct replay replay;
	json_t *one_case;
	json_t *cases;
	size_t i;

	replay_open(&replay, 128 << 10);
	cases = json_object_get(replay.data, "writes");
	cr_assert_eq(json_array_size(cases), 55);
	json_array_foreach(cases, i, one_case) replay_writes(&replay, one_case);
	replay_close(&replay);
}

Test(folio_orders, every_read_case_makes_the_folios_of_linux)
{
	struct replay replay;
	json_t *one_case;
	json_t *cases;
	size_t i;

	replay_open(&replay, 128 << 10);
	cases = json_object_get(replay.data, "reads");
	cr_assert_eq(json_array_size(cases), 3);
	json_array_foreach(cases, i, one_case)
	{
		cr_assert_eq(json_integer_value(json_object_get(one_case, "read_ahead_kb")), 128);
		replay_reads(&replay, one_case);
	}
	replay_close(&replay);
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_fs_base.c - what all back ends share: options, names, the file layer, extent counts
 */
#include "env/lockdep.h"
#include "fsbackends/base/base.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MiB (1ull << 20)

/* ---- a mounted file system ------------------------------------------------------------------ */

struct world {
	struct block_device *fault; /* over memory */
	struct block_device *dev; /* counts what goes to fault */
	struct page_cache *cache;
	struct backing_dev *bdi;
	struct fs *fs;
};

/* Everything under the file system; it itself is not mounted. */
static void world_build(struct world *world)
{
	struct page_cache_config config;
	struct block_device *ram;

	memset(world, 0, sizeof(*world));
	page_cache_config_init(&config);
	config.capacity = 16 * MiB;
	cr_assert_eq(page_cache_create(&world->cache, &config), 0);
	cr_assert_eq(blkdev_ram_create(&ram, 512 * MiB, 0), 0);
	blkdev_ram_poison(ram, 0xAA);
	cr_assert_eq(blkdev_fault_create(&world->fault, ram), 0);
	cr_assert_eq(blkdev_count_create(&world->dev, world->fault), 0);
	cr_assert_eq(bdi_create(&world->bdi, world->cache, world->dev, 1, WB_MAP_AUTO), 0);
}

static void world_destroy(struct world *world)
{
	bdi_destroy(world->bdi);
	blkdev_destroy(world->dev);
	page_cache_destroy(world->cache);
}

static void world_open(struct world *world, const char *type)
{
	struct fs_config config = {.type = type};
	char error[256];
	int err;

	world_build(world);
	err = fs_mount(&world->fs, world->cache, world->bdi, world->dev, &config, error,
		       sizeof(error));
	cr_assert_eq(err, 0, "%s", error);
}

static void world_close(struct world *world)
{
	cr_assert_eq(fs_unmount(world->fs), 0);
	world_destroy(world);
}

/* The fact holds on every back end. */
static void on_each_type(void (*fact)(struct world *world))
{
	for (unsigned int i = 0; fs_backend_name(i); i++) {
		struct world world;

		world_open(&world, fs_backend_name(i));
		fact(&world);
		world_close(&world);
	}
}

#define FACT(name)                                                                                 \
	static void name(struct world *world);                                                     \
	Test(fs_base, name)                                                                        \
	{                                                                                          \
		on_each_type(name);                                                                \
	}                                                                                          \
	static void name(struct world *world)

static struct file *open_file(struct world *world, const char *path, unsigned int flags)
{
	struct file *file = NULL;

	cr_assert_eq(fs_open(world->fs, path, flags, &file), 0);
	return file;
}

static int open_error(struct world *world, const char *path, unsigned int flags)
{
	struct file *file;
	int err = fs_open(world->fs, path, flags, &file);

	if (!err)
		fs_close(file);
	return err;
}

static bool exists(struct world *world, const char *path)
{
	uint64_t size;
	bool is_dir;

	return fs_stat(world->fs, path, &size, &is_dir) == 0;
}

static void fill(unsigned char *memory, size_t len, unsigned int salt)
{
	for (size_t i = 0; i < len; i++)
		memory[i] = (unsigned char)(1 + (i * 7 + salt) % 255);
}

static bool all_zero(const unsigned char *memory, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (memory[i])
			return false;
	return true;
}

/* ---- options -------------------------------------------------------------------------------- */

static const struct fs_option toy_options[] = {
	{"groups", "0", "number of groups, 0: automatic"},
	{"delalloc", "on", "place blocks at writeback"},
	{"search", "near", "near or first"},
	{NULL, NULL, NULL},
};

static const struct fs_backend toy = {.name = "toy", .options = toy_options};
static const char *const toy_searches[] = {"first", "near", NULL};

static void check_refused(const char *options, const char *line)
{
	char error[256] = "";

	cr_expect_eq(fs_options_check(&toy, options, error, sizeof(error)), -EINVAL);
	cr_expect_str_eq(error, line);
}

Test(fs_base, good_options_are_accepted)
{
	char error[256] = "";

	cr_expect_eq(fs_options_check(&toy, NULL, error, sizeof(error)), 0);
	cr_expect_eq(fs_options_check(&toy, "", error, sizeof(error)), 0);
	cr_expect_eq(fs_options_check(&toy, "groups=4", error, sizeof(error)), 0);
	cr_expect_eq(fs_options_check(&toy, "delalloc=off,groups=4", error, sizeof(error)), 0);
	cr_expect_str_eq(error, "");
}

Test(fs_base, bad_options_are_refused_with_what_would_be_right)
{
	check_refused("group=4", "toy has no option 'group'; it has: groups, delalloc, search");
	check_refused("groups", "toy option 'groups': should be name=value");
	check_refused("groups=", "toy option 'groups=': should be name=value");
	check_refused("=4", "toy option '=4': should be name=value");
	check_refused("groups=4,,delalloc=on", "toy option '': should be name=value");
	check_refused("groups=4,delalloc=on,groups=5",
		      "toy option 'groups' is given twice; give it once");
}

Test(fs_base, an_option_that_is_not_given_has_its_default)
{
	uint64_t groups = 99;
	bool delalloc = false;
	unsigned int search = 99;
	char error[256] = "";

	cr_expect_eq(fs_option_u64(&toy, NULL, "groups", 1, 9, &groups, error, sizeof(error)), 0);
	cr_expect_eq(groups, 0);
	cr_expect_eq(fs_option_bool(&toy, NULL, "delalloc", &delalloc, error, sizeof(error)), 0);
	cr_expect(delalloc);
	cr_expect_eq(fs_option_word(&toy, "groups=1", "search", toy_searches, &search, error,
				    sizeof(error)),
		     0);
	cr_expect_eq(search, 1);
}

Test(fs_base, a_given_option_wins)
{
	const char *options = "groups=7,delalloc=off,search=first";
	uint64_t groups = 99;
	bool delalloc = true;
	unsigned int search = 99;
	char error[256] = "";

	cr_expect_eq(fs_option_u64(&toy, options, "groups", 1, 9, &groups, error, sizeof(error)),
		     0);
	cr_expect_eq(groups, 7);
	cr_expect_eq(fs_option_bool(&toy, options, "delalloc", &delalloc, error, sizeof(error)), 0);
	cr_expect_not(delalloc);
	cr_expect_eq(fs_option_word(&toy, options, "search", toy_searches, &search, error,
				    sizeof(error)),
		     0);
	cr_expect_eq(search, 0);
}

Test(fs_base, a_number_may_have_a_unit)
{
	uint64_t value = 0;
	char error[256] = "";

	cr_expect_eq(fs_option_u64(&toy, "groups=64k", "groups", 1, UINT64_MAX, &value, error,
				   sizeof(error)),
		     0);
	cr_expect_eq(value, 65536);
	cr_expect_eq(fs_option_u64(&toy, "groups=16777216T", "groups", 1, UINT64_MAX, &value, error,
				   sizeof(error)),
		     -EINVAL);
}

Test(fs_base, bad_values_are_refused_with_what_would_be_right)
{
	const char *options = "groups=10,delalloc=maybe,search=far";
	uint64_t groups;
	bool delalloc;
	unsigned int search;
	char error[256] = "";

	cr_expect_eq(fs_option_u64(&toy, options, "groups", 1, 9, &groups, error, sizeof(error)),
		     -EINVAL);
	cr_expect_str_eq(error, "toy option groups=10: should be a number from 1 to 9");
	cr_expect_eq(fs_option_bool(&toy, options, "delalloc", &delalloc, error, sizeof(error)),
		     -EINVAL);
	cr_expect_str_eq(error, "toy option delalloc=maybe: should be on or off");
	cr_expect_eq(fs_option_word(&toy, options, "search", toy_searches, &search, error,
				    sizeof(error)),
		     -EINVAL);
	cr_expect_str_eq(error, "toy option search=far: should be one of first, near");
}

/* ---- counting extents ----------------------------------------------------------------------- */

/* A file whose records are an array, in units of 4096 bytes. */
static struct {
	unsigned int nr;
	struct fs_extent extents[8];
} listed;

static int listed_next(struct fs_inode *inode, uint64_t pos, struct fs_extent *extent)
{
	(void)inode;
	for (unsigned int i = 0; i < listed.nr; i++)
		if (listed.extents[i].pos + listed.extents[i].len > pos) {
			*extent = listed.extents[i];
			return 0;
		}
	return -ENOENT;
}

static void list_extent(uint64_t block, uint64_t nr_blocks, uint64_t addr_block)
{
	struct fs_extent *extent = &listed.extents[listed.nr++];

	extent->pos = block * 4096;
	extent->len = nr_blocks * 4096;
	extent->addr = addr_block * 4096;
	extent->delayed = addr_block == 0;
}

static struct fs_extent_counts count_listed(void)
{
	static const struct fs_backend backend = {.name = "list", .next_extent = listed_next};
	struct fs_extent_counts counts = {99, 99};
	struct fs_inode node;
	struct file file;
	struct fs fs;

	memset(&fs, 0, sizeof(fs));
	memset(&node, 0, sizeof(node));
	memset(&file, 0, sizeof(file));
	fs.backend = &backend;
	node.inode.i_sb = &fs.sb;
	file.f_inode = &node.inode;
	cr_assert_eq(fs_count_extents(&file, &counts), 0);
	return counts;
}

Test(fs_base, an_empty_file_has_no_extent)
{
	struct fs_extent_counts counts = count_listed();

	cr_expect_eq(counts.merged, 0);
	cr_expect_eq(counts.unmerged, 0);
}

/* EC1, EC3 */
Test(fs_base, neighbours_on_the_device_count_once)
{
	struct fs_extent_counts counts;

	list_extent(0, 4, 100);
	list_extent(4, 4, 104);
	counts = count_listed();
	cr_expect_eq(counts.merged, 1);
	cr_expect_eq(counts.unmerged, 2);
}

/* EC1 */
Test(fs_base, a_hole_that_the_device_mirrors_is_no_break)
{
	list_extent(0, 4, 100);
	list_extent(10, 4, 110);
	cr_expect_eq(count_listed().merged, 1);
}

/* EC1 */
Test(fs_base, another_place_on_the_device_is_a_break)
{
	list_extent(0, 4, 100);
	list_extent(4, 4, 200);
	list_extent(8, 4, 150);
	cr_expect_eq(count_listed().merged, 3);
}

/* EC1: the walk begins as if behind an extent of length 0 at 0. */
Test(fs_base, a_first_extent_behind_a_hole_counts_once)
{
	list_extent(5, 4, 100);
	cr_expect_eq(count_listed().merged, 1);
}

/* EC2 */
Test(fs_base, a_delayed_run_inside_allocated_space_adds_two)
{
	list_extent(0, 4, 100);
	list_extent(4, 1, 0);
	list_extent(5, 4, 105);
	cr_expect_eq(count_listed().merged, 3);
}

/* EC2 */
Test(fs_base, a_delayed_run_at_the_end_adds_one)
{
	list_extent(0, 4, 100);
	list_extent(4, 1, 0);
	list_extent(5, 1, 0);
	cr_expect_eq(count_listed().merged, 3);
}

/* ---- mounting ------------------------------------------------------------------------------- */

static int mount_error(const struct fs_config *config, char *error, size_t error_size)
{
	struct world world;
	int err;

	world_build(&world);
	err = fs_mount(&world.fs, world.cache, world.bdi, world.dev, config, error, error_size);
	if (!err)
		cr_assert_eq(fs_unmount(world.fs), 0);
	world_destroy(&world);
	return err;
}

Test(fs_base, an_unknown_type_is_refused_with_the_known_ones)
{
	struct fs_config config = {.type = "zfs"};
	char error[256];

	cr_expect_eq(mount_error(&config, error, sizeof(error)), -EINVAL);
	cr_expect_str_eq(error, "no file system type 'zfs'; there are: xfs, ext4");
}

Test(fs_base, an_unknown_option_is_refused)
{
	for (unsigned int i = 0; fs_backend_name(i); i++) {
		struct fs_config config = {.type = fs_backend_name(i), .options = "colour=red"};
		char error[256];

		cr_expect_eq(mount_error(&config, error, sizeof(error)), -EINVAL);
		cr_expect(strstr(error, "has no option 'colour'"), "%s", error);
	}
}

Test(fs_base, a_bad_block_size_is_refused)
{
	const uint32_t sizes[] = {256, 3000, 131072};

	for (unsigned int i = 0; fs_backend_name(i); i++)
		for (size_t j = 0; j < 3; j++) {
			struct fs_config config = {.type = fs_backend_name(i),
						   .block_size = sizes[j]};
			char error[256];

			cr_expect_eq(mount_error(&config, error, sizeof(error)), -EINVAL);
			cr_expect(strstr(error, "block size"), "%s", error);
		}
}

Test(fs_base, every_default_is_a_value_that_can_be_given)
{
	for (unsigned int i = 0; fs_backend_name(i); i++) {
		const char *type = fs_backend_name(i);
		const char *name, *value, *text;

		for (unsigned int j = 0; (name = fs_backend_option(type, j, &value, &text)); j++) {
			cr_expect_gt(strlen(value), 0, "%s %s", type, name);
			cr_expect_gt(strlen(text), 0, "%s %s", type, name);
		}
	}
	cr_expect_null(fs_backend_option("zfs", 0, NULL, NULL));
}

Test(fs_base, a_mount_without_memory_fails_and_leaks_nothing)
{
	for (unsigned int i = 0; fs_backend_name(i); i++) {
		unsigned int nr_failed = 1;

		for (unsigned int after = 0; nr_failed; after++) {
			struct fs_config config = {.type = fs_backend_name(i)};
			struct world world;
			char error[256];
			int err;

			world_build(&world);
			env_alloc_fail(after, 1);
			err = fs_mount(&world.fs, world.cache, world.bdi, world.dev, &config, error,
				       sizeof(error));
			nr_failed = env_alloc_fail(0, 0);
			if (err)
				cr_expect_gt(strlen(error), 0);
			else
				cr_assert_eq(fs_unmount(world.fs), 0);
			cr_expect(err || !nr_failed || after > 0);
			world_destroy(&world);
		}
	}
}

/* ---- names ---------------------------------------------------------------------------------- */

FACT(a_file_is_there_only_after_its_creation)
{
	cr_expect_eq(open_error(world, "/a", 0), -ENOENT);
	cr_expect_eq(open_error(world, "/a", FS_OPEN_CREATE), 0);
	cr_expect_eq(open_error(world, "/a", 0), 0);
	cr_expect_eq(open_error(world, "/a", FS_OPEN_CREATE), 0);
	cr_expect_eq(open_error(world, "/a", FS_OPEN_CREATE | FS_OPEN_EXCLUSIVE), -EEXIST);
}

FACT(a_directory_must_exist_before_what_is_in_it)
{
	cr_expect_eq(fs_mkdir(world->fs, "/a/b"), -ENOENT);
	cr_expect_eq(fs_mkdir(world->fs, "/a"), 0);
	cr_expect_eq(fs_mkdir(world->fs, "/a"), -EEXIST);
	cr_expect_eq(fs_mkdir(world->fs, "/"), -EEXIST);
	cr_expect_eq(fs_mkdir(world->fs, "/a/b"), 0);
	cr_expect_eq(open_error(world, "/a/b/f", FS_OPEN_CREATE), 0);
	cr_expect_eq(open_error(world, "/a/c/f", FS_OPEN_CREATE), -ENOENT);
}

FACT(a_file_is_not_a_directory)
{
	cr_expect_eq(open_error(world, "/f", FS_OPEN_CREATE), 0);
	cr_expect_eq(open_error(world, "/f/g", FS_OPEN_CREATE), -ENOTDIR);
	cr_expect_eq(open_error(world, "/f/g/h", 0), -ENOTDIR);
	cr_expect_eq(fs_mkdir(world->fs, "/f"), -EEXIST);
	cr_expect_eq(fs_mkdir(world->fs, "/f/d"), -ENOTDIR);
	cr_expect_eq(fs_mkdir_parents(world->fs, "/f/d/e"), -ENOTDIR);
	cr_expect_eq(fs_mkdir_parents(world->fs, "/f"), -EEXIST);
}

FACT(a_directory_is_not_a_file)
{
	cr_expect_eq(fs_mkdir(world->fs, "/d"), 0);
	cr_expect_eq(open_error(world, "/d", 0), -EISDIR);
	cr_expect_eq(open_error(world, "/", FS_OPEN_CREATE), -EISDIR);
	cr_expect_eq(fs_unlink(world->fs, "/d"), -EISDIR);
	cr_expect_eq(fs_unlink(world->fs, "/"), -EISDIR);
}

FACT(mkdir_parents_makes_what_is_missing)
{
	cr_expect_eq(fs_mkdir_parents(world->fs, "/a/b/c"), 0);
	cr_expect_eq(fs_mkdir_parents(world->fs, "/a/b/c"), 0);
	cr_expect_eq(fs_mkdir_parents(world->fs, "//a//x//"), 0);
	cr_expect_eq(fs_mkdir_parents(world->fs, "/"), 0);
	cr_expect(exists(world, "/a/b/c"));
	cr_expect(exists(world, "/a/x"));
}

FACT(impossible_paths_are_refused)
{
	char path[5000];

	cr_expect_eq(open_error(world, "a", FS_OPEN_CREATE), -EINVAL);
	cr_expect_eq(open_error(world, "", FS_OPEN_CREATE), -EINVAL);
	cr_expect_eq(open_error(world, "/a/../b", FS_OPEN_CREATE), -ENOENT);
	cr_expect_eq(open_error(world, "/..", FS_OPEN_CREATE), -EINVAL);
	cr_expect_eq(open_error(world, "/.", FS_OPEN_CREATE), -EINVAL);
	cr_expect_eq(open_error(world, "/...", FS_OPEN_CREATE), 0);
	memset(path, 'n', sizeof(path));
	path[0] = '/';
	path[257] = '\0';
	cr_expect_eq(open_error(world, path, FS_OPEN_CREATE), -ENAMETOOLONG);
	path[256] = '\0';
	cr_expect_eq(open_error(world, path, FS_OPEN_CREATE), 0);
	for (size_t i = 0; i < sizeof(path); i++)
		path[i] = i % 2 ? 'n' : '/';
	path[4999] = '\0';
	cr_expect_eq(fs_mkdir_parents(world->fs, path), -ENAMETOOLONG);
}

FACT(the_deepest_tree_is_freed)
{
	char path[4096];

	for (size_t i = 0; i < sizeof(path); i++)
		path[i] = i % 2 ? 'n' : '/';
	path[1000] = '\0';
	cr_expect_eq(fs_mkdir_parents(world->fs, path), 0);
	cr_expect(exists(world, path));
}

FACT(a_big_directory_finds_each_of_its_names)
{
	char path[32];

	for (unsigned int i = 0; i < 1000; i++) {
		snprintf(path, sizeof(path), "/%u", i);
		cr_assert_eq(open_error(world, path, FS_OPEN_CREATE | FS_OPEN_EXCLUSIVE), 0);
	}
	for (unsigned int i = 0; i < 1000; i += 3) {
		snprintf(path, sizeof(path), "/%u", i);
		cr_assert_eq(fs_unlink(world->fs, path), 0);
	}
	for (unsigned int i = 0; i < 1000; i++) {
		snprintf(path, sizeof(path), "/%u", i);
		cr_expect_eq(exists(world, path), i % 3 != 0);
	}
}

FACT(an_unlinked_file_lives_until_its_last_close)
{
	struct file *a = open_file(world, "/f", FS_OPEN_CREATE);
	struct file *b = open_file(world, "/f", 0);
	char memory[4] = "";

	cr_assert_eq(fs_write(a, "abcd", 4, 0), 4);
	cr_expect_eq(fs_unlink(world->fs, "/f"), 0);
	cr_expect_eq(fs_unlink(world->fs, "/f"), -ENOENT);
	cr_expect_not(exists(world, "/f"));
	fs_close(a);
	cr_expect_eq(fs_read(b, memory, 4, 0), 4);
	cr_expect_eq(memcmp(memory, "abcd", 4), 0);
	fs_close(b);
}

FACT(the_name_of_an_unlinked_open_file_is_free)
{
	struct file *old = open_file(world, "/f", FS_OPEN_CREATE);
	struct file *new;

	cr_expect_eq(fs_unlink(world->fs, "/f"), 0);
	new = open_file(world, "/f", FS_OPEN_CREATE | FS_OPEN_EXCLUSIVE);
	cr_expect_neq(fs_inode_of(old), fs_inode_of(new));
	cr_assert_eq(fs_write(old, "abcd", 4, 0), 4);
	cr_expect_eq(fs_size(new), 0);
	fs_close(old);
	fs_close(new);
}

FACT(unlinking_gives_the_space_back)
{
	struct file *file = open_file(world, "/f", FS_OPEN_CREATE);
	static unsigned char memory[MiB];
	struct fs_space before, after;

	fs_get_space(world->fs, &before);
	for (unsigned int i = 0; i < 4; i++)
		cr_assert_eq(fs_write(file, memory, MiB, i * MiB), (ssize_t)MiB);
	cr_assert_eq(fs_fsync(file, false), 0);
	fs_close(file);
	fs_get_space(world->fs, &after);
	cr_expect_leq(after.free, before.free - 4 * MiB);
	cr_expect_eq(fs_unlink(world->fs, "/f"), 0);
	cr_expect_eq(fs_sync(world->fs), 0);
	fs_get_space(world->fs, &after);
	cr_expect_eq(after.free, before.free);
	cr_expect_eq(after.reserved, 0);
}

FACT(stat_tells_size_and_kind)
{
	struct file *file = open_file(world, "/f", FS_OPEN_CREATE);
	uint64_t size = 99;
	bool is_dir = true;

	cr_assert_eq(fs_write(file, "abcd", 4, 100), 4);
	cr_expect_eq(fs_stat(world->fs, "/f", &size, &is_dir), 0);
	cr_expect_eq(size, 104);
	cr_expect_not(is_dir);
	cr_expect_eq(fs_stat(world->fs, "/", &size, &is_dir), 0);
	cr_expect(is_dir);
	cr_expect_eq(fs_stat(world->fs, "/g", &size, &is_dir), -ENOENT);
	fs_close(file);
}

FACT(a_creation_without_memory_leaves_nothing)
{
	unsigned int nr_failed = 1;

	for (unsigned int after = 0; nr_failed; after++) {
		struct file *file;
		int err;

		env_alloc_fail(after, 1);
		err = fs_open(world->fs, "/f", FS_OPEN_CREATE | FS_OPEN_EXCLUSIVE, &file);
		nr_failed = env_alloc_fail(0, 0);
		if (err) {
			cr_expect_eq(err, -ENOMEM);
			cr_expect_not(exists(world, "/f"));
			continue;
		}
		fs_close(file);
		cr_expect_eq(fs_unlink(world->fs, "/f"), 0);
	}
}

struct names_thread {
	struct env_thread *thread;
	struct fs *fs;
	uint64_t seed;
};

static void use_names(void *arg)
{
	struct names_thread *self = arg;
	struct env_rng rng;

	env_rng_seed(&rng, self->seed);
	for (unsigned int i = 0; i < 300; i++) {
		struct file *file;
		char path[16];

		snprintf(path, sizeof(path), "/%u", (unsigned int)env_rng_below(&rng, 4));
		if (env_rng_below(&rng, 3) == 0) {
			fs_unlink(self->fs, path);
			continue;
		}
		if (fs_open(self->fs, path, FS_OPEN_CREATE, &file))
			continue;
		cr_assert_eq(fs_write(file, path, 2, env_rng_below(&rng, 10000)), 2);
		fs_close(file);
	}
}

FACT(names_may_come_and_go_in_parallel)
{
	struct names_thread threads[4];
	struct fs_space before, after;
	char path[16];

	fs_get_space(world->fs, &before);
	for (unsigned int i = 0; i < 4; i++) {
		threads[i] = (struct names_thread){.fs = world->fs, .seed = i};
		cr_assert_eq(env_thread_create(&threads[i].thread, "names", use_names, &threads[i]),
			     0);
	}
	for (unsigned int i = 0; i < 4; i++)
		env_thread_join(threads[i].thread);
	for (unsigned int i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "/%u", i);
		fs_unlink(world->fs, path);
	}
	cr_expect_eq(fs_sync(world->fs), 0);
	fs_get_space(world->fs, &after);
	cr_expect_eq(after.free, before.free);
}

/* ---- files ---------------------------------------------------------------------------------- */

FACT(what_is_written_is_read)
{
	struct file *file = open_file(world, "/f", FS_OPEN_CREATE);
	static unsigned char in[100000], out[100000];

	fill(in, sizeof(in), 1);
	cr_expect_eq(fs_write(file, in, sizeof(in), 0), (ssize_t)sizeof(in));
	cr_expect_eq(fs_size(file), sizeof(in));
	cr_expect_eq(fs_read(file, out, sizeof(out), 0), (ssize_t)sizeof(out));
	cr_expect_eq(memcmp(in, out, sizeof(in)), 0);
	cr_expect_eq(fs_read(file, out, 10, sizeof(in) - 4), 4);
	cr_expect_eq(fs_read(file, out, 10, sizeof(in)), 0);
	fs_close(file);
}

FACT(what_was_written_back_is_read_from_the_device)
{
	struct file *file = open_file(world, "/f", FS_OPEN_CREATE);
	static unsigned char in[300000], out[300000];

	fill(in, sizeof(in), 1);
	cr_expect_eq(fs_write(file, in, sizeof(in), 12345), (ssize_t)sizeof(in));
	cr_expect_eq(fs_fsync(file, false), 0);
	page_cache_drop(world->cache);
	cr_expect_eq(fs_read(file, out, sizeof(out), 12345), (ssize_t)sizeof(out));
	cr_expect_eq(memcmp(in, out, sizeof(in)), 0);
	fs_close(file);
}

FACT(a_write_of_nothing_does_nothing)
{
	struct file *file = open_file(world, "/f", FS_OPEN_CREATE);

	cr_expect_eq(fs_write(file, "", 0, 5000), 0);
	cr_expect_eq(fs_size(file), 0);
	fs_close(file);
}

FACT(a_file_has_a_largest_size)
{
	struct file *file = open_file(world, "/f", FS_OPEN_CREATE);

	cr_expect_eq(fs_write(file, "a", 1, 1ull << 62), -EFBIG);
	cr_expect_eq(fs_write(file, "a", 1, UINT64_MAX), -EFBIG);
	cr_expect_eq(fs_truncate(file, (1ull << 62) + 1), -EFBIG);
	cr_expect_eq(fs_fallocate(file, 0, 1ull << 62, 1), -EFBIG);
	cr_expect_eq(fs_size(file), 0);
	fs_close(file);
}

FACT(a_readonly_file_is_not_changed)
{
	struct file *file = open_file(world, "/f", FS_OPEN_CREATE | FS_OPEN_READONLY);

	cr_expect_eq(fs_write(file, "a", 1, 0), -EBADF);
	cr_expect_eq(fs_truncate(file, 10), -EBADF);
	cr_expect_eq(fs_fallocate(file, 0, 0, 10), -EBADF);
	cr_expect_eq(fs_size(file), 0);
	fs_close(file);
}

/* D2 */
FACT(the_gap_before_a_write_reads_as_zeroes)
{
	struct file *file = open_file(world, "/f", FS_OPEN_CREATE);
	static unsigned char memory[50000];

	cr_assert_eq(fs_write(file, "abc", 3, 0), 3);
	cr_assert_eq(fs_write(file, "xyz", 3, 49000), 3);
	for (unsigned int i = 0; i < 2; i++) {
		cr_expect_eq(fs_read(file, memory, sizeof(memory), 0), 49003);
		cr_expect_eq(memcmp(memory, "abc", 3), 0);
		cr_expect(all_zero(memory + 3, 48997));
		cr_expect_eq(memcmp(memory + 49000, "xyz", 3), 0);
		cr_assert_eq(fs_fsync(file, false), 0);
		page_cache_drop(world->cache);
	}
	fs_close(file);
}

/* G8 */
FACT(what_was_cut_off_does_not_come_back)
{
	static unsigned char in[50000], out[50000];

	for (unsigned int flush = 0; flush < 2; flush++) {
		struct file *file = open_file(world, "/f", FS_OPEN_CREATE | FS_OPEN_TRUNCATE);

		fill(in, sizeof(in), flush);
		cr_assert_eq(fs_write(file, in, sizeof(in), 0), (ssize_t)sizeof(in));
		if (flush)
			cr_assert_eq(fs_fsync(file, false), 0);
		cr_assert_eq(fs_truncate(file, 10001), 0);
		cr_expect_eq(fs_size(file), 10001);
		cr_assert_eq(fs_truncate(file, 50000), 0);
		for (unsigned int i = 0; i < 2; i++) {
			cr_expect_eq(fs_read(file, out, sizeof(out), 0), (ssize_t)sizeof(out));
			cr_expect_eq(memcmp(in, out, 10001), 0);
			cr_expect(all_zero(out + 10001, 39999));
			cr_assert_eq(fs_fsync(file, false), 0);
			page_cache_drop(world->cache);
		}
		fs_close(file);
	}
}

FACT(open_can_truncate)
{
	struct file *file = open_file(world, "/f", FS_OPEN_CREATE);

	cr_assert_eq(fs_write(file, "abcd", 4, 0), 4);
	fs_close(file);
	cr_expect_eq(open_error(world, "/f", FS_OPEN_TRUNCATE | FS_OPEN_READONLY), -EINVAL);
	file = open_file(world, "/f", FS_OPEN_TRUNCATE);
	cr_expect_eq(fs_size(file), 0);
	fs_close(file);
}

FACT(fallocate_makes_space_that_reads_as_zeroes)
{
	struct file *file = open_file(world, "/f", FS_OPEN_CREATE);
	static unsigned char memory[100000];
	struct fs_extent extent;

	cr_assert_eq(fs_fallocate(file, 0, 1000, 99000), 0);
	cr_expect_eq(fs_size(file), 100000);
	cr_expect_eq(fs_next_extent(file, 0, &extent), 0);
	cr_expect_eq(extent.pos, 0);
	cr_expect(extent.unwritten);
	cr_expect_not(extent.delayed);
	cr_expect_eq(fs_read(file, memory, sizeof(memory), 0), (ssize_t)sizeof(memory));
	cr_expect(all_zero(memory, sizeof(memory)));
	fs_close(file);
}

FACT(fallocate_can_keep_the_size)
{
	struct file *file = open_file(world, "/f", FS_OPEN_CREATE);
	struct fs_extent extent;

	cr_assert_eq(fs_fallocate(file, FS_FALLOC_KEEP_SIZE, 0, 100000), 0);
	cr_expect_eq(fs_size(file), 0);
	cr_expect_eq(fs_next_extent(file, 0, &extent), 0);
	cr_assert_eq(fs_truncate(file, 0), 0);
	cr_expect_eq(fs_next_extent(file, 0, &extent), -ENOENT);
	fs_close(file);
}

FACT(a_file_that_grows_keeps_what_is_behind_its_end)
{
	struct file *file = open_file(world, "/f", FS_OPEN_CREATE);
	struct fs_extent extent;

	cr_assert_eq(fs_fallocate(file, FS_FALLOC_KEEP_SIZE, 0, MiB), 0);
	cr_assert_eq(fs_truncate(file, 10000), 0);
	cr_expect_eq(fs_next_extent(file, MiB - 1, &extent), 0);
	cr_assert_eq(fs_write(file, "abcd", 4, 20000), 4);
	cr_expect_eq(fs_next_extent(file, MiB - 1, &extent), 0);
	cr_assert_eq(fs_fallocate(file, 0, 30000, 10960), 0);
	cr_expect_eq(fs_next_extent(file, MiB - 1, &extent), 0);
	cr_assert_eq(fs_truncate(file, fs_size(file)), 0);
	cr_expect_eq(fs_next_extent(file, fs_size(file), &extent), -ENOENT);
	cr_expect_eq(fs_next_extent(file, fs_size(file) - 1, &extent), 0);
	fs_close(file);
}

FACT(fallocate_refuses_what_it_does_not_know)
{
	struct file *file = open_file(world, "/f", FS_OPEN_CREATE);

	cr_expect_eq(fs_fallocate(file, 2, 0, 1), -EOPNOTSUPP);
	cr_expect_eq(fs_fallocate(file, 0, 0, 0), -EINVAL);
	cr_expect_eq(fs_fallocate(file, 0, 0, 1ull << 40), -ENOSPC);
	cr_expect_eq(fs_size(file), 0);
	fs_close(file);
}

static uint64_t data_written(struct world *world)
{
	struct blkdev_count count;

	blkdev_count_read(world->dev, &count);
	return count.bytes[BIO_WRITE][BIO_DATA];
}

/* D38 */
FACT(a_sync_write_is_on_the_device)
{
	struct file *plain = open_file(world, "/f", FS_OPEN_CREATE);
	struct file *sync = open_file(world, "/f", FS_OPEN_SYNC);
	struct file *dsync = open_file(world, "/f", FS_OPEN_DSYNC);

	cr_assert_eq(fs_write(plain, "abcd", 4, 0), 4);
	cr_expect_eq(data_written(world), 0);
	cr_assert_eq(fs_write(sync, "abcd", 4, 8192), 4);
	cr_expect_eq(data_written(world), 4096);
	cr_assert_eq(fs_write(dsync, "abcd", 4, 8192), 4);
	cr_expect_eq(data_written(world), 8192);
	cr_assert_eq(fs_fsync(plain, false), 0);
	cr_expect_eq(data_written(world), 12288);
	fs_close(plain);
	fs_close(sync);
	fs_close(dsync);
}

FACT(a_range_can_be_synced_alone)
{
	struct file *file = open_file(world, "/f", FS_OPEN_CREATE);
	static unsigned char memory[65536];

	cr_assert_eq(fs_write(file, memory, sizeof(memory), 0), (ssize_t)sizeof(memory));
	cr_assert_eq(fs_fsync(file, false), 0);
	cr_assert_eq(fs_write(file, "a", 1, 0), 1);
	cr_assert_eq(fs_write(file, "a", 1, 60000), 1);
	blkdev_count_reset(world->dev);
	cr_expect_eq(fs_sync_range(file, 0, 4096, true), 0);
	cr_expect_geq(data_written(world), 4096);
	cr_expect_eq(fs_sync_range(file, 0, 0, true), 0);
	cr_expect_eq(data_written(world), 8192);
	fs_close(file);
}

FACT(dontneed_evicts_what_is_clean)
{
	struct file *file = open_file(world, "/f", FS_OPEN_CREATE);
	static unsigned char memory[65536];
	struct page_cache_stats stats;

	cr_assert_eq(fs_write(file, memory, sizeof(memory), 0), (ssize_t)sizeof(memory));
	cr_assert_eq(fs_fsync(file, false), 0);
	cr_expect_eq(fs_advise(file, 0, 0, FS_ADVICE_DONTNEED), 0);
	page_cache_get_stats(world->cache, &stats);
	cr_expect_eq(stats.nr_cached, 0);
	cr_expect_eq(fs_advise(file, 0, 0, FS_ADVICE_RANDOM), 0);
	cr_expect_eq(file->f_flags, FILE_RANDOM);
	cr_expect_eq(fs_advise(file, 0, 0, FS_ADVICE_SEQUENTIAL), 0);
	cr_expect_eq(file->f_flags, FILE_SEQUENTIAL);
	cr_expect_eq(fs_advise(file, 0, 0, FS_ADVICE_NORMAL), 0);
	cr_expect_eq(file->f_flags, 0);
	cr_expect_eq(fs_advise(file, 0, 0, (enum fs_advice)99), -EINVAL);
	fs_close(file);
}

/* ---- a file against an array ---------------------------------------------------------------- */

#define MODEL_SIZE (256u << 10)

struct model {
	struct file *file;
	struct world *world;
	uint64_t size;
	unsigned char bytes[MODEL_SIZE];
};

static void model_resize(struct model *model, uint64_t size)
{
	if (size < model->size)
		memset(model->bytes + size, 0, model->size - size);
	model->size = size;
}

static void model_step(struct model *model, struct env_rng *rng)
{
	static unsigned char memory[MODEL_SIZE];
	uint64_t pos = env_rng_below(rng, MODEL_SIZE);
	uint64_t len = 1 + env_rng_below(rng, env_rng_below(rng, 2) ? 60000 : 300);
	struct file *file = model->file;

	if (len > MODEL_SIZE - pos)
		len = MODEL_SIZE - pos;
	switch (env_rng_below(rng, 10)) {
	case 0:
		cr_assert_eq(fs_truncate(file, pos), 0);
		model_resize(model, pos);
		break;
	case 1:
		cr_assert_eq(fs_fallocate(file, 0, pos, len), 0);
		if (pos + len > model->size)
			model->size = pos + len;
		break;
	case 2:
		cr_assert_eq(fs_fallocate(file, FS_FALLOC_KEEP_SIZE, pos, len), 0);
		break;
	case 3:
		cr_assert_eq(fs_fsync(file, false), 0);
		break;
	case 4:
		cr_assert_eq(fs_sync_range(file, pos, len, pos % 2), 0);
		page_cache_drop(model->world->cache);
		break;
	default:
		fill(memory, len, (unsigned int)pos);
		cr_assert_eq(fs_write(file, memory, len, pos), (ssize_t)len);
		memcpy(model->bytes + pos, memory, len);
		if (pos + len > model->size)
			model->size = pos + len;
	}
}

static void model_check(struct model *model)
{
	static unsigned char memory[MODEL_SIZE];

	cr_assert_eq(fs_size(model->file), model->size);
	cr_assert_eq(fs_read(model->file, memory, MODEL_SIZE, 0), (ssize_t)model->size);
	cr_assert_eq(memcmp(memory, model->bytes, model->size), 0);
}

FACT(a_file_is_an_array_of_bytes)
{
	static struct model model;
	struct env_rng rng;

	memset(&model, 0, sizeof(model));
	model.world = world;
	model.file = open_file(world, "/f", FS_OPEN_CREATE);
	env_rng_seed(&rng, 1);
	for (unsigned int i = 0; i < 1500; i++) {
		model_step(&model, &rng);
		if (i % 4 == 0)
			model_check(&model);
	}
	cr_assert_eq(fs_fsync(model.file, false), 0);
	page_cache_drop(world->cache);
	model_check(&model);
	fs_close(model.file);
}

/* ---- parallel use of one file --------------------------------------------------------------- */

#define STRIPE	     3000u
#define NR_STRIPES   64u
#define NR_STRIPERS  4u
#define STRIPE_ROUND (STRIPE * NR_STRIPERS)

struct striper {
	struct env_thread *thread;
	struct file *file;
	unsigned int nr;
};

/* Write every NR_STRIPERS-th stripe twice and read it back. */
static void write_stripes(void *arg)
{
	struct striper *self = arg;
	unsigned char in[STRIPE], out[STRIPE];

	for (unsigned int round = 0; round < 2; round++)
		for (unsigned int i = 0; i < NR_STRIPES; i++) {
			uint64_t pos = (uint64_t)i * STRIPE_ROUND + self->nr * STRIPE;

			fill(in, STRIPE, i + self->nr + round);
			cr_assert_eq(fs_write(self->file, in, STRIPE, pos), STRIPE);
			cr_assert_eq(fs_read(self->file, out, STRIPE, pos), STRIPE);
			cr_assert_eq(memcmp(in, out, STRIPE), 0);
			if (i % 16 == self->nr)
				cr_assert_eq(fs_fsync(self->file, true), 0);
		}
}

FACT(threads_may_write_one_file_in_parallel)
{
	struct striper stripers[NR_STRIPERS];
	struct file *file = open_file(world, "/f", FS_OPEN_CREATE);
	unsigned char in[STRIPE], out[STRIPE];

	/* Else the device may read bytes while they change, which is right but a data race. */
	fs_inode_of(file)->i_mapping.stable_writes = true;
	for (unsigned int i = 0; i < NR_STRIPERS; i++) {
		stripers[i] = (struct striper){.file = file, .nr = i};
		cr_assert_eq(env_thread_create(&stripers[i].thread, "striper", write_stripes,
					       &stripers[i]),
			     0);
	}
	for (unsigned int i = 0; i < NR_STRIPERS; i++)
		env_thread_join(stripers[i].thread);
	cr_assert_eq(fs_size(file), (uint64_t)STRIPE_ROUND * NR_STRIPES);
	cr_assert_eq(fs_fsync(file, false), 0);
	page_cache_drop(world->cache);
	for (unsigned int i = 0; i < NR_STRIPES * NR_STRIPERS; i++) {
		fill(in, STRIPE, i / NR_STRIPERS + i % NR_STRIPERS + 1);
		cr_assert_eq(fs_read(file, out, STRIPE, (uint64_t)i * STRIPE), STRIPE);
		cr_assert_eq(memcmp(in, out, STRIPE), 0);
	}
	fs_close(file);
}

/* ---- who may make space --------------------------------------------------------------------- */

#define BLOCK 4096u

/* Leave less than a block. */
static struct file *fill_device(struct world *world)
{
	struct file *file = open_file(world, "/filler", FS_OPEN_CREATE);
	uint64_t pos = 0;

	for (uint64_t len = 256 * MiB; len >= BLOCK; len /= 2)
		while (fs_fallocate(file, 0, pos, len) == 0)
			pos += len;
	return file;
}

FACT(a_write_over_space_and_holes_counts_both)
{
	struct file *file = open_file(world, "/f", FS_OPEN_CREATE);
	unsigned char in[5 * BLOCK], out[5 * BLOCK];

	fill(in, sizeof(in), 1);
	cr_assert_eq(fs_truncate(file, MiB), 0);
	cr_expect_eq(fs_write(file, in + BLOCK, BLOCK, BLOCK), BLOCK);
	cr_expect_eq(fs_write(file, in + 3 * BLOCK, BLOCK, 3 * BLOCK), BLOCK);
	fill(in, sizeof(in), 2);
	cr_expect_eq(fs_write(file, in + BLOCK + 1, 3 * BLOCK, BLOCK + 1), 3 * BLOCK);
	cr_expect_eq(fs_write(file, in, BLOCK + 2, 0), BLOCK + 2);
	cr_assert_eq(fs_fsync(file, false), 0);
	page_cache_drop(world->cache);
	cr_expect_eq(fs_read(file, out, sizeof(out), 0), (ssize_t)sizeof(out));
	cr_expect_eq(memcmp(in, out, 4 * BLOCK + 1), 0);
	cr_expect(all_zero(out + 4 * BLOCK + 1, BLOCK - 1));
	fs_close(file);
}

FACT(a_write_that_finds_no_space_counts_what_it_wrote_before)
{
	struct file *file = open_file(world, "/f", FS_OPEN_CREATE);
	struct file *filler;
	unsigned char memory[2 * BLOCK];

	fill(memory, sizeof(memory), 1);
	cr_assert_eq(fs_truncate(file, MiB), 0);
	cr_assert_eq(fs_write(file, memory, BLOCK, 0), BLOCK);
	cr_assert_eq(fs_fsync(file, false), 0);
	filler = fill_device(world);
	cr_expect_eq(fs_write(file, memory, 2 * BLOCK, 0), BLOCK);
	cr_expect_eq(fs_write(file, memory, BLOCK, BLOCK), -ENOSPC);
	fs_close(filler);
	fs_close(file);
}

/* The back end under test, and the same with a look at each begin of a write. */
static const struct fs_backend *real;
static unsigned int nr_shared, nr_refused, nr_alone;

static int watch_write(struct inode *inode, uint64_t pos, uint64_t len, unsigned int flags,
		       struct iomap *iomap, struct iomap *srcmap)
{
	cr_assert(env_rwsem_is_write_locked(&inode->i_rwsem));
	nr_alone++;
	return real->write_ops->iomap_begin(inode, pos, len, flags, iomap, srcmap);
}

static bool is_hole(struct inode *inode, uint64_t pos)
{
	struct fs_extent extent;

	return real->next_extent(fs_inode_from(inode), pos, &extent) != 0 || extent.pos > pos;
}

static int watch_overwrite(struct inode *inode, uint64_t pos, uint64_t len, unsigned int flags,
			   struct iomap *iomap, struct iomap *srcmap)
{
	bool hole = is_hole(inode, pos);
	int err = real->overwrite_ops->iomap_begin(inode, pos, len, flags, iomap, srcmap);

	cr_assert_eq(err, hole ? -EAGAIN : 0);
	cr_assert_eq(is_hole(inode, pos), hole);
	cr_assert_not(iomap->flags & IOMAP_F_NEW);
	if (hole)
		nr_refused++;
	else
		nr_shared++;
	return err;
}

FACT(space_is_made_only_by_a_writer_that_is_alone)
{
	static struct iomap_ops write_ops, overwrite_ops;
	static struct fs_backend watched;
	static struct model model;
	struct env_rng rng;

	real = world->fs->backend;
	watched = *real;
	write_ops = *real->write_ops;
	write_ops.iomap_begin = watch_write;
	watched.write_ops = &write_ops;
	overwrite_ops = *real->overwrite_ops;
	overwrite_ops.iomap_begin = watch_overwrite;
	watched.overwrite_ops = &overwrite_ops;
	world->fs->backend = &watched;
	nr_shared = nr_refused = nr_alone = 0;

	memset(&model, 0, sizeof(model));
	model.world = world;
	model.file = open_file(world, "/f", FS_OPEN_CREATE);
	env_rng_seed(&rng, 2);
	for (unsigned int i = 0; i < 500; i++)
		model_step(&model, &rng);
	model_check(&model);
	cr_expect_gt(nr_shared, 0);
	cr_expect_gt(nr_refused, 0);
	cr_expect_gt(nr_alone, 0);
	fs_close(model.file);
	world->fs->backend = real;
}

/*
 * D33: one thread is promised space, fails, and gives the space back; another one writes to the
 * same block when the first is about to take a lock of the back end for the `when`th time.
 */
static struct {
	struct file *file;
	struct inode *inode; /* NULL: do not look at locks */
	unsigned int when;
	unsigned int nr_locked;
	struct env_thread *second;
	struct env_completion second_goes_on; /* is done, or waits for the first */
	ssize_t result;
} race;
static __thread bool is_first, is_second;

static void write_second(void *arg)
{
	unsigned char memory[BLOCK];

	(void)arg;
	is_second = true;
	memset(memory, 2, sizeof(memory));
	race.result = fs_write(race.file, memory, sizeof(memory), 0);
	env_complete(&race.second_goes_on);
}

static void race_read_lock(struct env_rwsem *sem)
{
	if (is_second && env_rwsem_is_write_locked(sem))
		env_complete(&race.second_goes_on);
	env_lockdep_world.rwsem_read_lock(sem);
}

static void race_write_lock(struct env_rwsem *sem)
{
	if (is_second && env_rwsem_is_write_locked(sem))
		env_complete(&race.second_goes_on);
	if (is_first && race.inode && sem != &race.inode->i_rwsem &&
	    sem != &race.inode->i_mapping.invalidate_lock && race.nr_locked++ == race.when) {
		cr_assert_eq(env_thread_create(&race.second, "second", write_second, NULL), 0);
		env_completion_wait(&race.second_goes_on);
	}
	env_lockdep_world.rwsem_write_lock(sem);
}

static void write_first(void *arg)
{
	static unsigned char memory[16 * BLOCK];

	is_first = true;
	env_task_self.local[ENV_LOCAL_CANCELLED] = 1;
	*(ssize_t *)arg = fs_write(race.file, memory, sizeof(memory), 0);
}

/* Returns whether there was such a moment. */
static bool race_run(struct world *world, unsigned int when)
{
	struct env_thread *first;
	unsigned char byte = 0;
	ssize_t result;

	memset(&race, 0, sizeof(race));
	race.when = when;
	env_completion_init(&race.second_goes_on);
	race.file = open_file(world, "/f", FS_OPEN_CREATE | FS_OPEN_TRUNCATE);
	cr_assert_eq(fs_truncate(race.file, MiB), 0);
	race.inode = fs_inode_of(race.file);
	cr_assert_eq(env_thread_create(&first, "first", write_first, &result), 0);
	env_thread_join(first);
	race.inode = NULL;
	cr_assert_eq(result, -EINTR);
	if (race.second) {
		env_thread_join(race.second);
		cr_assert_eq(race.result, BLOCK);
		cr_assert_eq(fs_fsync(race.file, false), 0);
		page_cache_drop(world->cache);
		cr_assert_eq(fs_read(race.file, &byte, 1, 0), 1);
		cr_assert_eq(byte, 2, "lost at lock %u", when);
	}
	fs_close(race.file);
	return race.second != NULL;
}

Test(fs_base, a_write_that_fails_takes_no_space_from_another)
{
	static struct env_world race_world;

	race_world = env_lockdep_world;
	race_world.rwsem_read_lock = race_read_lock;
	race_world.rwsem_write_lock = race_write_lock;
	env_world = &race_world;
	for (unsigned int i = 0; fs_backend_name(i); i++) {
		struct world world;
		unsigned int when = 0;

		world_open(&world, fs_backend_name(i));
		while (race_run(&world, when))
			when++;
		cr_assert_geq(when, 2);
		world_close(&world);
	}
	cr_assert_not(env_lockdep_found());
}

/* ---- errors of data ------------------------------------------------------------------------- */

static void fail_next_data(struct world *world)
{
	struct blkdev_fault_rule rule = {
		.op = BIO_WRITE, .kind = BIO_DATA, .count = 1, .error = -EIO};

	cr_assert_eq(blkdev_fault_add(world->fault, &rule), 0);
}

/* K27 */
FACT(an_error_of_data_is_told_by_sync_once)
{
	struct file *file = open_file(world, "/f", FS_OPEN_CREATE);

	for (unsigned int i = 0; i < 2; i++) {
		cr_assert_eq(fs_write(file, "abcd", 4, 0), 4);
		fail_next_data(world);
		cr_expect_eq(fs_sync(world->fs), -EIO);
		cr_expect_eq(fs_sync(world->fs), 0);
	}
	fs_close(file);
}

FACT(an_error_that_fsync_told_is_told_by_sync_too)
{
	struct file *file = open_file(world, "/f", FS_OPEN_CREATE);

	cr_assert_eq(fs_write(file, "abcd", 4, 0), 4);
	fail_next_data(world);
	cr_expect_eq(fs_fsync(file, false), -EIO);
	cr_expect_eq(fs_sync(world->fs), -EIO);
	cr_expect_eq(fs_sync(world->fs), 0);
	cr_expect_eq(fs_fsync(file, false), 0);
	fs_close(file);
}

/* What unmount returns if the data fails when it is written, by unmount or by sync before. */
static int unmount_after_error(const char *type, bool sync)
{
	struct world world;
	struct file *file;
	int err;

	world_open(&world, type);
	file = open_file(&world, "/f", FS_OPEN_CREATE);
	cr_assert_eq(fs_write(file, "abcd", 4, 0), 4);
	fs_close(file);
	fail_next_data(&world);
	if (sync)
		cr_expect_eq(fs_sync(world.fs), -EIO);
	err = fs_unmount(world.fs);
	world_destroy(&world);
	return err;
}

Test(fs_base, an_error_of_data_is_told_by_unmount_unless_sync_did)
{
	for (unsigned int i = 0; fs_backend_name(i); i++) {
		cr_expect_eq(unmount_after_error(fs_backend_name(i), false), -EIO);
		cr_expect_eq(unmount_after_error(fs_backend_name(i), true), 0);
	}
}

/* ---- no memory ------------------------------------------------------------------------------ */

#define NR_BLOCKS 200u

/* What a flush has to do for a file of NR_BLOCKS blocks. */
enum flush {
	FLUSH_HOLES, /* a hole behind each block: place them one by one */
	FLUSH_UNWRITTEN, /* unwritten space behind each: convert them one by one */
	FLUSH_CUT, /* also, the last record that its piece of the extent map has room for is cut */
	NR_FLUSHES,
};

/* As FLUSH_CUT wants it; the run crosses a multiple of 8 MiB, where ext4 begins anew (EX10). */
#define CUT_BLOCK 127u

static uint64_t pos_of(enum flush flush, unsigned int block)
{
	if (flush == FLUSH_CUT && block >= CUT_BLOCK)
		return 8 * MiB - BLOCK + (uint64_t)(block - CUT_BLOCK) * BLOCK;
	return 2ull * block * BLOCK;
}

/* Leave free blocks for the file, no two of them together: any run is cut. */
static struct file *break_up_space(struct world *world)
{
	struct file *filler, *file;
	char path[16];

	for (unsigned int i = 0; i < 4 * NR_BLOCKS; i++) {
		snprintf(path, sizeof(path), "/%u", i);
		file = open_file(world, path, FS_OPEN_CREATE);
		cr_assert_eq(fs_fallocate(file, 0, 0, BLOCK), 0);
		fs_close(file);
	}
	filler = fill_device(world);
	for (unsigned int i = 0; i < 4 * NR_BLOCKS; i += 2) {
		snprintf(path, sizeof(path), "/%u", i);
		cr_assert_eq(fs_unlink(world->fs, path), 0);
	}
	return filler;
}

/* The flush succeeds although nr allocations from `after` on fail; false if none did. */
static bool flush_without_memory(const char *type, enum flush flush, unsigned int after,
				 unsigned int nr)
{
	unsigned char memory[BLOCK], expected[BLOCK];
	struct file *filler = NULL;
	unsigned int nr_failed;
	struct world world;
	struct file *file;

	world_open(&world, type);
	file = open_file(&world, "/f", FS_OPEN_CREATE);
	if (flush == FLUSH_UNWRITTEN)
		cr_assert_eq(fs_fallocate(file, 0, 0, 8 * MiB), 0);
	if (flush == FLUSH_CUT)
		filler = break_up_space(&world);
	for (unsigned int i = 0; i < NR_BLOCKS; i++) {
		fill(memory, BLOCK, i);
		cr_assert_eq(fs_write(file, memory, BLOCK, pos_of(flush, i)), BLOCK);
	}
	env_alloc_fail(after, nr);
	cr_expect_eq(fs_fsync(file, false), 0, "%s: flush %d, allocation %u", type, flush, after);
	nr_failed = env_alloc_fail(0, 0);
	page_cache_drop(world.cache);
	for (unsigned int i = 0; i < NR_BLOCKS; i++) {
		fill(expected, BLOCK, i);
		cr_assert_eq(fs_read(file, memory, BLOCK, pos_of(flush, i)), BLOCK);
		cr_assert_eq(memcmp(memory, expected, BLOCK), 0,
			     "%s: flush %d, allocation %u, block %u", type, flush, after, i);
	}
	if (filler)
		fs_close(filler);
	fs_close(file);
	world_close(&world);
	return nr_failed > 0;
}

Test(fs_base, a_flush_with_a_failing_allocation_loses_nothing)
{
	for (unsigned int i = 0; fs_backend_name(i); i++)
		for (enum flush flush = 0; flush < NR_FLUSHES; flush++) {
			unsigned int after = 0;

			while (flush_without_memory(fs_backend_name(i), flush, after, 1))
				after++;
			cr_expect_gt(after, 0);
		}
}

/* K17.  More allocations fail than a flush makes, so each place that asks again has to. */
Test(fs_base, a_flush_that_has_no_memory_for_a_while_loses_nothing)
{
	for (unsigned int i = 0; fs_backend_name(i); i++)
		for (enum flush flush = 0; flush < NR_FLUSHES; flush++)
			cr_expect(flush_without_memory(fs_backend_name(i), flush, 0, 600));
}

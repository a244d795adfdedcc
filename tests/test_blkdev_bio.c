/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_blkdev_bio.c - bios, and the checks in front of every device
 */
#include <criterion/criterion.h>

#include <errno.h>
#include <string.h>

#include <iomap/blkdev.h>
#include <iomap/env.h>

#define KIB 1024

/* ---- the vector ---- */

Test(blkdev_bio, adjacent_memory_is_one_piece)
{
	char memory[1024];
	struct bio bio;

	bio_init(&bio, NULL, BIO_WRITE, BIO_DATA, 0);
	cr_assert_eq(bio_add(&bio, memory, 512), 0);
	cr_assert_eq(bio_add(&bio, memory + 512, 512), 0);
	cr_assert_eq(bio.nr_vecs, 1);
	cr_assert_eq(bio.vecs[0].len, 1024);
	cr_assert_eq(bio.len, 1024);
	bio_uninit(&bio);
}

Test(blkdev_bio, vector_grows)
{
	static char memory[2 * 100 * 512];
	struct bio bio;

	bio_init(&bio, NULL, BIO_WRITE, BIO_DATA, 0);
	for (unsigned int i = 0; i < 100; i++)
		cr_assert_eq(bio_add(&bio, memory + i * 1024, 512), 0);
	cr_assert_eq(bio.nr_vecs, 100);
	cr_assert_eq(bio.len, 100 * 512);
	for (unsigned int i = 0; i < 100; i++)
		cr_assert_eq(bio.vecs[i].base, memory + i * 1024);
	bio_uninit(&bio);
}

Test(blkdev_bio, failed_add_changes_nothing)
{
	char memory[2 * BIO_INLINE_VECS + 1];
	struct bio bio;

	bio_init(&bio, NULL, BIO_WRITE, BIO_DATA, 0);
	for (unsigned int i = 0; i < BIO_INLINE_VECS; i++)
		cr_assert_eq(bio_add(&bio, &memory[2 * i], 1), 0);
	env_alloc_fail(0, 1);
	cr_assert_eq(bio_add(&bio, &memory[2 * BIO_INLINE_VECS], 1), -ENOMEM);
	env_alloc_fail(0, 0);
	cr_assert_eq(bio.nr_vecs, BIO_INLINE_VECS);
	cr_assert_eq(bio.len, BIO_INLINE_VECS);
	cr_assert_eq(bio_add(&bio, &memory[2 * BIO_INLINE_VECS], 1), 0);
	cr_assert_eq(bio.len, BIO_INLINE_VECS + 1);
	bio_uninit(&bio);
}

Test(blkdev_bio, adding_nothing_is_nothing)
{
	char memory;
	struct bio bio;

	bio_init(&bio, NULL, BIO_WRITE, BIO_DATA, 0);
	cr_assert_eq(bio_add(&bio, &memory, 0), 0);
	cr_assert_eq(bio.nr_vecs, 0);
	bio_uninit(&bio);
}

/* ---- the checks ---- */

static int submit(struct block_device *bdev, enum bio_op op, int kind, uint64_t addr, size_t len)
{
	static char memory[64 * KIB];
	struct bio bio;
	int err;

	bio_init(&bio, bdev, op, (enum bio_kind)kind, addr);
	cr_assert_eq(bio_add(&bio, memory, len), 0);
	err = bio_submit_wait(&bio);
	bio_uninit(&bio);
	return err;
}

static uint64_t nr_counted(struct block_device *count)
{
	struct blkdev_count figures;
	uint64_t nr = 0;

	blkdev_count_read(count, &figures);
	for (int op = 0; op < BIO_NR_OPS; op++)
		for (int kind = 0; kind < BIO_NR_KINDS; kind++)
			nr += figures.ios[op][kind];
	return nr;
}

struct impossible {
	const char *what;
	int op, kind;
	uint64_t addr;
	size_t len;
	int err;
};

Test(blkdev_bio, impossible_requests_do_not_reach_the_device)
{
	static const struct impossible cases[] = {
		{"address not a sector", BIO_WRITE, BIO_DATA, 100, 512, -EINVAL},
		{"length not a sector", BIO_WRITE, BIO_DATA, 512, 100, -EINVAL},
		{"nothing", BIO_READ, BIO_DATA, 0, 0, -EINVAL},
		{"flush of something", BIO_FLUSH, BIO_DATA, 0, 512, -EINVAL},
		{"no such op", BIO_NR_OPS, BIO_DATA, 0, 512, -EINVAL},
		{"no such kind", BIO_WRITE, BIO_NR_KINDS, 0, 512, -EINVAL},
		{"behind the end", BIO_READ, BIO_DATA, 16 * KIB, 512, -EIO},
		{"across the end", BIO_WRITE, BIO_DATA, 15 * KIB, 2 * KIB, -EIO},
		{"longer than all", BIO_WRITE, BIO_DATA, 0, 17 * KIB, -EIO},
		{"end overflows", BIO_WRITE, BIO_DATA, UINT64_MAX - 511, 512, -EIO},
	};
	struct block_device *ram, *dev;

	cr_assert_eq(blkdev_ram_create(&ram, 16 * KIB, 0), 0);
	cr_assert_eq(blkdev_count_create(&dev, ram), 0);
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct impossible *c = &cases[i];

		cr_assert_eq(submit(dev, (enum bio_op)c->op, c->kind, c->addr, c->len), c->err,
			     "%s", c->what);
	}
	cr_assert_eq(nr_counted(dev), 0);
	cr_assert_eq(submit(dev, BIO_WRITE, BIO_DATA, 0, 16 * KIB), 0);
	cr_assert_eq(nr_counted(dev), 1);
	blkdev_destroy(dev);
}

Test(blkdev_bio, impossible_devices_are_refused)
{
	static const uint64_t sizes[] = {0, 511, 513, UINT64_MAX, 1ull << 63};
	struct block_device *dev;

	for (unsigned int i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		cr_assert_eq(blkdev_ram_create(&dev, sizes[i], 0), -EINVAL);
		cr_assert_eq(blkdev_null_create(&dev, sizes[i], 0), -EINVAL);
		cr_assert_eq(blkdev_file_open(&dev, "never", sizes[i], 1), -EINVAL);
	}
	cr_assert_eq(blkdev_file_open(&dev, "never", 512, 0), -EINVAL);
}

Test(blkdev_bio, destroying_nothing_is_nothing)
{
	blkdev_destroy(NULL);
}

/* ---- properties ---- */

Test(blkdev_bio, wrappers_have_the_properties_of_what_is_below)
{
	struct block_device *ram, *count, *fault;

	cr_assert_eq(blkdev_ram_create(&ram, 16 * KIB, 0), 0);
	ram->io_max = 4096;
	ram->rotational = true;
	ram->stable_writes = true;
	cr_assert_eq(blkdev_count_create(&count, ram), 0);
	cr_assert_eq(blkdev_fault_create(&fault, count), 0);
	cr_assert_eq(fault->below, count);
	cr_assert_eq(count->below, ram);
	cr_assert_null(ram->below);
	cr_assert_eq(fault->size, 16 * KIB);
	cr_assert_eq(fault->logical_block, 512);
	cr_assert_eq(fault->io_max, 4096);
	cr_assert(fault->rotational);
	cr_assert(fault->stable_writes);
	cr_assert_str_eq(fault->name, "fault");
	cr_assert_str_eq(count->name, "count");
	cr_assert_str_eq(ram->name, "ram");
	blkdev_destroy(fault);
}

/* Whichever allocation fails, nothing is left behind. */
Test(blkdev_bio, creation_survives_failing_allocations)
{
	struct block_device *ram, *dev;
	int err = -1;

	for (unsigned int n = 0; err; n++) {
		env_alloc_fail(n, 1);
		err = blkdev_ram_create(&ram, 16 * KIB, 2);
		env_alloc_fail(0, 0);
		cr_assert(err == 0 || err == -ENOMEM);
	}
	err = -1;
	for (unsigned int n = 0; err; n++) {
		env_alloc_fail(n, 1);
		err = blkdev_count_create(&dev, ram);
		env_alloc_fail(0, 0);
		cr_assert(err == 0 || err == -ENOMEM);
	}
	blkdev_destroy(dev);
}

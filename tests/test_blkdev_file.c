/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_blkdev_file.c - a host file as a device
 */
#include <criterion/criterion.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <iomap/blkdev.h>
#include <iomap/env.h>

#define KIB 1024ull

static char path[64];

static void file_setup(void)
{
	int fd;

	strcpy(path, "/tmp/iomap-test-XXXXXX");
	fd = mkstemp(path);
	cr_assert_geq(fd, 0);
	close(fd);
}

static void file_teardown(void)
{
	unlink(path);
}

static struct block_device *open_file(uint64_t size, unsigned int workers)
{
	struct block_device *bdev;

	cr_assert_eq(blkdev_file_open(&bdev, path, size, workers), 0);
	return bdev;
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

/* What the host has in the file. */
static void host_read(uint64_t addr, void *memory, size_t len)
{
	int fd = open(path, O_RDONLY);

	cr_assert_eq(pread(fd, memory, len, (off_t)addr), (ssize_t)len);
	close(fd);
}

static off_t host_size(void)
{
	struct stat st;

	cr_assert_eq(stat(path, &st), 0);
	return st.st_size;
}

static void pattern(char *memory, size_t len, unsigned int seed)
{
	struct env_rng rng;

	env_rng_seed(&rng, seed);
	for (size_t i = 0; i < len; i++)
		memory[i] = (char)env_rng_u64(&rng);
}

TestSuite(blkdev_file, .init = file_setup, .fini = file_teardown, .timeout = 60);

Test(blkdev_file, grows_a_shorter_file)
{
	struct block_device *bdev = open_file(64 * KIB, 1);

	cr_assert_eq(bdev->size, 64 * KIB);
	cr_assert_eq(host_size(), 64 * KIB);
	blkdev_destroy(bdev);
}

Test(blkdev_file, never_cuts_a_longer_file)
{
	blkdev_destroy(open_file(64 * KIB, 1));
	blkdev_destroy(open_file(16 * KIB, 1));
	cr_assert_eq(host_size(), 64 * KIB);
}

Test(blkdev_file, creates_a_file)
{
	unlink(path);
	blkdev_destroy(open_file(64 * KIB, 1));
	cr_assert_eq(host_size(), 64 * KIB);
}

Test(blkdev_file, host_errors_come_back)
{
	struct block_device *bdev;

	cr_assert_eq(blkdev_file_open(&bdev, "/tmp", 64 * KIB, 1), -EISDIR);
	cr_assert_eq(blkdev_file_open(&bdev, "/nowhere/at/all", 64 * KIB, 1), -ENOENT);
	cr_assert_eq(blkdev_file_open(&bdev, "/dev/null", 64 * KIB, 1), -EINVAL);
}

/* Whole pages in aligned memory (direct I/O where the host has it), and the odd rest. */
Test(blkdev_file, keeps_what_is_written)
{
	static _Alignas(4096) char memory[32 * KIB], seen[32 * KIB];
	static const struct {
		size_t off;
		uint64_t addr;
		size_t len;
	} cases[] = {
		{0, 0, 32 * KIB},	{0, 8 * KIB, 4 * KIB},	  {0, 512, 512},
		{1, 16 * KIB, 8 * KIB}, {512, 4 * KIB, 12 * KIB}, {3, 1536, 5 * KIB + 512},
	};
	struct block_device *bdev = open_file(64 * KIB, 1);

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t len = cases[i].len;
		char *from = memory + cases[i].off;

		pattern(memory, sizeof(memory), i);
		cr_assert_eq(transfer(bdev, BIO_WRITE, cases[i].addr, from, len), 0);
		host_read(cases[i].addr, seen, len);
		cr_assert_eq(memcmp(from, seen, len), 0, "case %u", i);
		memset(seen, 0, sizeof(seen));
		cr_assert_eq(transfer(bdev, BIO_READ, cases[i].addr, seen + cases[i].off, len), 0);
		cr_assert_eq(memcmp(from, seen + cases[i].off, len), 0, "case %u", i);
	}
	blkdev_destroy(bdev);
}

static void many_pieces(size_t piece, unsigned int nr)
{
	char *memory = env_arena_map(piece * 2 * nr, 4096, false);
	char *seen = env_arena_map(piece * nr, 4096, false);
	struct block_device *bdev = open_file(piece * nr, 1);
	struct bio bio;

	pattern(memory, piece * 2 * nr, 1);
	bio_init(&bio, bdev, BIO_WRITE, BIO_DATA, 0);
	for (unsigned int i = 0; i < nr; i++)
		cr_assert_eq(bio_add(&bio, memory + i * 2 * piece, piece), 0);
	cr_assert_eq(bio.nr_vecs, nr);
	cr_assert_eq(bio_submit_wait(&bio), 0);

	host_read(0, seen, piece * nr);
	for (unsigned int i = 0; i < nr; i++)
		cr_assert_eq(memcmp(seen + i * piece, memory + i * 2 * piece, piece), 0);
	memset(memory, 0, piece * 2 * nr);
	bio.op = BIO_READ;
	cr_assert_eq(bio_submit_wait(&bio), 0);
	for (unsigned int i = 0; i < nr; i++)
		cr_assert_eq(memcmp(seen + i * piece, memory + i * 2 * piece, piece), 0);

	bio_uninit(&bio);
	blkdev_destroy(bdev);
	env_arena_unmap(seen, piece * nr);
	env_arena_unmap(memory, piece * 2 * nr);
}

Test(blkdev_file, more_pieces_than_a_system_call_takes)
{
	many_pieces(512, 3000);
}

Test(blkdev_file, more_pages_than_a_system_call_takes)
{
	many_pieces(4096, 1025);
}

Test(blkdev_file, flush_reaches_the_host)
{
	struct block_device *bdev = open_file(64 * KIB, 1);

	cr_assert_eq(transfer(bdev, BIO_FLUSH, 0, NULL, 0), 0);
	blkdev_destroy(bdev);
}

/* Somebody else cuts the file: an error, not an endless loop. */
Test(blkdev_file, read_behind_the_end_of_a_cut_file)
{
	static _Alignas(4096) char memory[8 * KIB];
	struct block_device *bdev = open_file(64 * KIB, 1);

	cr_assert_eq(truncate(path, 20 * KIB), 0);
	cr_assert_eq(transfer(bdev, BIO_READ, 32 * KIB, memory, 4096), -EIO);
	cr_assert_eq(transfer(bdev, BIO_READ, 16 * KIB, memory, 8192), -EIO);
	cr_assert_eq(transfer(bdev, BIO_READ, 16 * KIB, memory, 4096), 0);
	blkdev_destroy(bdev);
}

struct client {
	struct block_device *bdev;
	uint64_t addr;
};

static void write_and_read_back(void *arg)
{
	struct client *client = arg;
	char memory[512], seen[512];

	for (unsigned int i = 0; i < 50; i++) {
		pattern(memory, sizeof(memory), i);
		cr_assert_eq(transfer(client->bdev, BIO_WRITE, client->addr, memory, 512), 0);
		cr_assert_eq(transfer(client->bdev, BIO_READ, client->addr, seen, 512), 0);
		cr_assert_eq(memcmp(memory, seen, 512), 0);
	}
}

Test(blkdev_file, many_clients_many_workers)
{
	struct block_device *bdev = open_file(64 * KIB, 3);
	struct client clients[4];
	struct env_thread *threads[4];

	for (unsigned int i = 0; i < 4; i++) {
		clients[i] = (struct client){bdev, i * 512};
		cr_assert_eq(
			env_thread_create(&threads[i], "client", write_and_read_back, &clients[i]),
			0);
	}
	for (unsigned int i = 0; i < 4; i++)
		env_thread_join(threads[i]);
	blkdev_destroy(bdev);
}

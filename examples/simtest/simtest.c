/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * simtest.c - a small back end of one's own, tested under 1 000 seeds of the simulator
 *
 *	simtest		finds nothing
 *	simtest racy	without the allocator's lock: the first seed that shows it
 *
 * A file is a table of blocks, and a block gets its place when it is first written.  The test is
 * program(): two tasks write a file each, and the device must have what they wrote.  Everything
 * before it is the back end; hello/ tells how one works.
 */
#undef NDEBUG
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <iomap/iomap.h>
#include <iomap/sim.h>

#define BLOCK	  4096u
#define NR_BLOCKS 8u
#define SIZE	  (NR_BLOCKS * BLOCK)

struct toy_file {
	struct inode inode;
	struct file file;
	uint32_t place[NR_BLOCKS]; /* on the device, in blocks; 0: a hole */
	char data[SIZE]; /* what is written */
};

static struct toy_file files[2];
static struct block_device *dev;
static struct env_mutex lock; /* protects next_place */
static uint32_t next_place;
static bool racy;

/* ---- the back end ---- */

static uint32_t allocate(void)
{
	uint32_t place;

	if (!racy)
		env_mutex_lock(&lock);
	place = next_place;
	env_switch_point(); /* the simulator switches at locks and waits, and where it is told */
	next_place = place + 1;
	if (!racy)
		env_mutex_unlock(&lock);
	return place;
}

static int toy_begin(struct inode *inode, uint64_t pos, uint64_t len, unsigned int flags,
		     struct iomap *map, struct iomap *srcmap)
{
	uint32_t *place = container_of(inode, struct toy_file, inode)->place + pos / BLOCK;

	(void)len, (void)srcmap;
	if (!*place && flags & IOMAP_WRITE) {
		*place = allocate();
		map->flags = IOMAP_F_NEW;
	}
	map->type = *place ? IOMAP_MAPPED : IOMAP_HOLE;
	map->offset = pos / BLOCK * BLOCK;
	map->length = BLOCK;
	map->addr = (uint64_t)*place * BLOCK;
	map->bdev = dev;
	return 0;
}

static const struct iomap_ops toy_ops = {.iomap_begin = toy_begin};

static ssize_t toy_writeback_range(struct iomap_writepage_ctx *wpc, struct folio *folio,
				   uint64_t pos, uint64_t len, uint64_t end_pos)
{
	toy_begin(wpc->inode, pos, len, 0, &wpc->iomap, NULL);
	return iomap_add_to_ioend(wpc, folio, pos, end_pos, len);
}

static int toy_submit(struct iomap_writepage_ctx *wpc, struct iomap_ioend *ioend, int error)
{
	(void)wpc;
	return iomap_ioend_submit(ioend, error, NULL);
}

static const struct iomap_writeback_ops toy_writeback_ops = {toy_writeback_range, toy_submit};

static int toy_read_folio(struct file *file, struct folio *folio)
{
	(void)file;
	return iomap_read_folio(folio, &toy_ops);
}

static int toy_writepages(struct address_space *mapping, struct writeback_control *wbc)
{
	struct iomap_writepage_ctx wpc = {
		.inode = mapping->host, .wbc = wbc, .ops = &toy_writeback_ops};

	return iomap_writepages(&wpc);
}

static const struct address_space_operations toy_aops = {
	.read_folio = toy_read_folio,
	.writepages = toy_writepages,
	.init_folio = iomap_init_folio,
	.release_folio = iomap_release_folio,
	.invalidate_folio = iomap_invalidate_folio,
};

/* ---- the test ---- */

static void write_file(void *arg)
{
	struct toy_file *file = arg;
	struct kiocb iocb = {.ki_filp = &file->file};
	struct iov_iter iter;

	iov_iter_init(&iter, file->data, SIZE);
	env_rwsem_write_lock(&file->inode.i_rwsem);
	assert(iomap_file_buffered_write(&iocb, &iter, &toy_ops, NULL, NULL) == SIZE);
	env_rwsem_write_unlock(&file->inode.i_rwsem);
	assert(file_fsync(&file->file, 0, UINT64_MAX, false) == 0);
}

static void check_file(struct toy_file *file)
{
	static char data[SIZE];
	struct kiocb iocb = {.ki_filp = &file->file};
	struct iov_iter iter;

	iov_iter_init(&iter, data, SIZE);
	assert(filemap_read(&iocb, &iter) == SIZE);
	assert(memcmp(data, file->data, SIZE) == 0);
}

/* What each seed runs: mount, write in parallel, read back from the device, unmount. */
static void program(void *arg)
{
	static const struct super_operations super_ops = {0};
	struct page_cache_config config;
	struct page_cache *cache;
	struct backing_dev *bdi;
	struct super_block sb;
	struct env_thread *threads[2];

	(void)arg;
	page_cache_config_init(&config);
	config.capacity = 4 << 20;
	config.prefault = false;
	env_mutex_init(&lock, "toy allocator");
	next_place = 1;
	assert(blkdev_ram_create(&dev, 1 << 20, 1) == 0);
	assert(page_cache_create(&cache, &config) == 0);
	assert(bdi_create(&bdi, cache, dev, 1, WB_MAP_AUTO) == 0);
	assert(super_init(&sb, cache, bdi, BLOCK, &super_ops) == 0);
	for (unsigned int i = 0; i < 2; i++) {
		memset(files[i].place, 0, sizeof(files[i].place));
		memset(files[i].data, 'a' + (int)i, SIZE);
		inode_init(&files[i].inode, &sb, i, &toy_aops);
		file_init(&files[i].file, &files[i].inode, 0);
		assert(env_thread_create(&threads[i], "writer", write_file, &files[i]) == 0);
	}
	for (unsigned int i = 0; i < 2; i++)
		env_thread_join(threads[i]);
	page_cache_drop(cache);
	for (unsigned int i = 0; i < 2; i++) {
		check_file(&files[i]);
		file_release(&files[i].file);
		inode_evict(&files[i].inode);
	}
	super_shutdown(&sb);
	bdi_destroy(bdi);
	blkdev_destroy(dev);
	page_cache_destroy(cache);
}

int main(int argc, char **argv)
{
	static struct env_sim_result result;
	struct env_sim_config config;

	racy = argc > 1 && strcmp(argv[1], "racy") == 0;
	env_sim_config_init(&config);
	config.schedule = ENV_SIM_ADVERSARIAL;
	/* An assertion that fails ends the process, after a line that names the seed. */
	if (env_sim_run_seeds(&config, 1000, program, NULL, &result)) {
		fputs(result.text, stderr);
		return 1;
	}
	printf("1000 seeds: nothing found\n");
	return 0;
}

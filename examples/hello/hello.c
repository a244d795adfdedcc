/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * hello.c - a complete file system over libiomap, as a tutorial
 *
 * It keeps one file on a device in memory.  What a file system must say is short: where the
 * bytes of a file live (begin, end), and how to write them back (writeback_range).  The
 * library does the rest: cached reads and writes, large folios, dirty blocks, writeback.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <iomap/iomap.h>

#define BLOCK	  4096u
#define MAX_BLOCK 4096u /* a file has at most this many blocks */
#define NO_BLOCK  UINT32_MAX

/*
 * 1. The file system and its inode embed the library's.  The whole "on-disk format" is a table
 *    from file block to device block; device blocks are handed out in order.
 */
struct hello_fs {
	struct super_block sb;
	struct block_device *dev;
};

struct hello_inode {
	struct inode inode;
	struct env_mutex lock; /* protects the two below */
	uint32_t next_free; /* device block */
	uint32_t block[MAX_BLOCK]; /* device block of each file block, or NO_BLOCK */
};

static struct hello_inode *hello_of(struct inode *inode)
{
	return container_of(inode, struct hello_inode, inode);
}

static struct block_device *device_of(struct inode *inode)
{
	return container_of(inode->i_sb, struct hello_fs, sb)->dev;
}

/*
 * 2. The mapping: fill *map for a range that contains pos.  We report the longest run of blocks
 *    that are neighbours on the device, since long maps make large folios and large requests.
 */
static void describe_run(struct inode *inode, uint64_t pos, uint64_t len, struct iomap *map)
{
	const struct hello_inode *hello = hello_of(inode);
	uint64_t first = pos / BLOCK;
	uint64_t end = (pos + len + BLOCK - 1) / BLOCK;
	uint32_t start = first < MAX_BLOCK ? hello->block[first] : NO_BLOCK;
	uint64_t nr = 1;

	end = end < MAX_BLOCK ? end : MAX_BLOCK;
	while (first + nr < end &&
	       hello->block[first + nr] == (start == NO_BLOCK ? NO_BLOCK : start + nr))
		nr++;
	map->offset = first * BLOCK;
	map->length = nr * BLOCK;
	map->bdev = device_of(inode);
	map->type = start == NO_BLOCK ? IOMAP_HOLE : IOMAP_MAPPED;
	map->addr = start == NO_BLOCK ? IOMAP_NULL_ADDR : (uint64_t)start * BLOCK;
}

static int hello_begin(struct inode *inode, uint64_t pos, uint64_t len, unsigned int flags,
		       struct iomap *map, struct iomap *srcmap)
{
	struct hello_inode *hello = hello_of(inode);
	int err = 0;

	(void)srcmap; /* only for copy on write */
	env_mutex_lock(&hello->lock);
	describe_run(inode, pos, len, map);
	if (flags & IOMAP_WRITE && map->type == IOMAP_HOLE) {
		uint64_t first = map->offset / BLOCK;
		uint64_t nr = map->length / BLOCK;

		/* A write never gets a hole: it gets space, or an error. */
		if (first + nr > MAX_BLOCK)
			err = -EFBIG;
		else if ((hello->next_free + nr) * BLOCK > map->bdev->size)
			err = -ENOSPC;
		for (uint64_t i = 0; !err && i < nr; i++)
			hello->block[first + i] = hello->next_free++;
		describe_run(inode, pos, len, map);
		map->flags = IOMAP_F_NEW; /* what the write leaves out must be zeroed */
	}
	env_mutex_unlock(&hello->lock);
	return err;
}

/* 3. The write is over: take back new blocks that it did not reach. */
static int hello_end(struct inode *inode, uint64_t pos, uint64_t len, uint64_t written,
		     unsigned int flags, struct iomap *map)
{
	struct hello_inode *hello = hello_of(inode);
	uint64_t keep = (pos + written + BLOCK - 1) / BLOCK;

	(void)flags;
	if (!(map->flags & IOMAP_F_NEW))
		return 0;
	env_mutex_lock(&hello->lock);
	for (uint64_t i = keep; i < (pos + len + BLOCK - 1) / BLOCK; i++)
		hello->block[i] = NO_BLOCK;
	env_mutex_unlock(&hello->lock);
	return 0;
}

static const struct iomap_ops hello_ops = {.iomap_begin = hello_begin, .iomap_end = hello_end};

/* 4. Writeback: where does this dirty range go?  Then queue it; the library merges. */
static ssize_t hello_writeback_range(struct iomap_writepage_ctx *wpc, struct folio *folio,
				     uint64_t pos, uint64_t len, uint64_t end_pos)
{
	struct hello_inode *hello = hello_of(wpc->inode);

	env_mutex_lock(&hello->lock);
	describe_run(wpc->inode, pos, len, &wpc->iomap);
	env_mutex_unlock(&hello->lock);
	return iomap_add_to_ioend(wpc, folio, pos, end_pos, len);
}

static int hello_writeback_submit(struct iomap_writepage_ctx *wpc, struct iomap_ioend *ioend,
				  int error)
{
	(void)wpc;
	return iomap_ioend_submit(ioend, error, NULL);
}

static const struct iomap_writeback_ops hello_writeback_ops = {
	.writeback_range = hello_writeback_range,
	.writeback_submit = hello_writeback_submit,
};

/* 5. The address space operations: glue between the cache and the functions above. */
static int hello_read_folio(struct file *file, struct folio *folio)
{
	(void)file;
	return iomap_read_folio(folio, &hello_ops);
}

static void hello_readahead(struct readahead_control *rac)
{
	iomap_readahead(rac, &hello_ops);
}

static int hello_writepages(struct address_space *mapping, struct writeback_control *wbc)
{
	struct iomap_writepage_ctx wpc = {
		.inode = mapping->host,
		.wbc = wbc,
		.ops = &hello_writeback_ops,
	};

	return iomap_writepages(&wpc);
}

static const struct address_space_operations hello_aops = {
	.read_folio = hello_read_folio,
	.readahead = hello_readahead,
	.writepages = hello_writepages,
	.init_folio = iomap_init_folio,
	.release_folio = iomap_release_folio,
	.invalidate_folio = iomap_invalidate_folio,
	.is_partially_uptodate = iomap_is_partially_uptodate,
};

static const struct super_operations hello_super_ops = {0};

/* 6. A file: write() and read() with the lock that the library asks for. */
static ssize_t hello_write(struct file *file, const void *memory, size_t len, uint64_t pos)
{
	struct kiocb iocb = {.ki_filp = file, .ki_pos = pos};
	struct iov_iter iter;
	ssize_t written;

	iov_iter_init(&iter, memory, len);
	env_rwsem_write_lock(&file->f_inode->i_rwsem);
	written = iomap_file_buffered_write(&iocb, &iter, &hello_ops, NULL, NULL);
	env_rwsem_write_unlock(&file->f_inode->i_rwsem);
	return written;
}

static ssize_t hello_read(struct file *file, void *memory, size_t len, uint64_t pos)
{
	struct kiocb iocb = {.ki_filp = file, .ki_pos = pos};
	struct iov_iter iter;

	iov_iter_init(&iter, memory, len);
	return filemap_read(&iocb, &iter);
}

/* 7. Put it together: device, cache, contexts, file system, inode, open file. */
static int hello_world(struct file *file, struct page_cache *cache, struct block_device *dev)
{
	static const char text[] = "hello, world\n";
	struct blkdev_count count;
	char back[sizeof(text)] = "";

	if (hello_write(file, text, sizeof(text), 10000) < 0)
		return -EIO;
	if (file_fsync(file, 0, UINT64_MAX, false))
		return -EIO;
	blkdev_count_read(dev, &count);
	page_cache_drop(cache); /* so that the read below comes from the device */
	if (hello_read(file, back, sizeof(back), 10000) != sizeof(back) || strcmp(text, back))
		return -EIO;
	printf("%s%zu bytes written by the caller, %llu to the device in %llu request\n", back,
	       sizeof(text), (unsigned long long)count.bytes[BIO_WRITE][BIO_DATA],
	       (unsigned long long)count.ios[BIO_WRITE][BIO_DATA]);
	return 0;
}

int main(void)
{
	struct hello_inode *hello = calloc(1, sizeof(*hello));
	struct hello_fs fs;
	struct page_cache_config config;
	struct page_cache *cache;
	struct backing_dev *bdi;
	struct block_device *ram;
	struct file file;
	int err;

	page_cache_config_init(&config);
	config.capacity = 16 << 20;
	if (!hello || blkdev_ram_create(&ram, 16 << 20, 0) || blkdev_count_create(&fs.dev, ram) ||
	    page_cache_create(&cache, &config) || bdi_create(&bdi, cache, fs.dev, 1, WB_MAP_AUTO) ||
	    super_init(&fs.sb, cache, bdi, BLOCK, &hello_super_ops)) {
		fprintf(stderr, "hello: no memory\n");
		return 1;
	}
	inode_init(&hello->inode, &fs.sb, 1, &hello_aops);
	env_mutex_init(&hello->lock, "hello->lock");
	memset(hello->block, 0xff, sizeof(hello->block));
	file_init(&file, &hello->inode, 0);

	err = hello_world(&file, cache, fs.dev);

	file_release(&file);
	inode_evict(&hello->inode);
	super_shutdown(&fs.sb);
	bdi_destroy(bdi);
	blkdev_destroy(fs.dev);
	page_cache_destroy(cache);
	free(hello);
	return err ? 1 : 0;
}

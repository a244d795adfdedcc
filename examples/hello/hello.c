/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * hello.c - a complete file system over libiomap, as a tutorial
 *
 * The device is cut into slots of 16 MiB; file number n lives in slot n, byte for byte.  What a
 * file system must say is short: where the bytes of a file live (begin), and how to write them
 * back (writeback_range).  The library does the rest: cached reads and writes, large folios,
 * dirty blocks, writeback by threads of its own.
 */
#include <errno.h>
#include <stdio.h>
#include <iomap/iomap.h>

#define BLOCK	 4096u
#define SLOT	 (16ull << 20)
#define NR_FILES 4u

/* 1. The file system embeds the library's super block, and has its inodes. */
struct hello_fs {
	struct super_block sb;
	struct block_device *dev;
	struct inode files[NR_FILES];
};

/* 2. The mapping of a file: fill *map for a range that contains pos.  Long maps are good: they
 *    make large folios and large requests.  A real file system would allocate space here if
 *    flags has IOMAP_WRITE, and take back in iomap_end what the write did not use. */
static int hello_begin(struct inode *inode, uint64_t pos, uint64_t len, unsigned int flags,
		       struct iomap *map, struct iomap *srcmap)
{
	struct hello_fs *fs = container_of(inode->i_sb, struct hello_fs, sb);

	(void)len, (void)srcmap; /* srcmap is for copy on write */
	if (pos >= SLOT)
		return flags & IOMAP_WRITE ? -EFBIG : -EIO;
	map->type = IOMAP_MAPPED;
	map->offset = 0;
	map->length = SLOT;
	map->addr = inode->i_ino * SLOT;
	map->bdev = fs->dev;
	return 0;
}

static const struct iomap_ops hello_ops = {.iomap_begin = hello_begin};

/* 3. Writeback: where does this dirty range go?  Then queue it; the library merges what is
 *    adjacent into one request and submits it.  submit could add work for the completion. */
static ssize_t hello_writeback_range(struct iomap_writepage_ctx *wpc, struct folio *folio,
				     uint64_t pos, uint64_t len, uint64_t end_pos)
{
	int err = hello_begin(wpc->inode, pos, len, 0, &wpc->iomap, NULL);

	return err ? err : iomap_add_to_ioend(wpc, folio, pos, end_pos, len);
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

/* 4. The address space operations: glue between the cache and the functions above. */
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
		.inode = mapping->host, .wbc = wbc, .ops = &hello_writeback_ops};

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

/* 5. write() and read(), with the locks that the library asks for.  What a write leaves out
 *    between the old end of the file and its first byte must be zeroed before. */
static ssize_t hello_write(struct file *file, const void *memory, size_t len, uint64_t pos)
{
	struct inode *inode = file->f_inode;
	struct kiocb iocb = {.ki_filp = file, .ki_pos = pos};
	struct iov_iter iter;
	ssize_t written = 0;

	iov_iter_init(&iter, memory, len);
	env_rwsem_write_lock(&inode->i_rwsem);
	if (pos > inode->i_size) {
		env_rwsem_write_lock(&inode->i_mapping.invalidate_lock);
		written = iomap_zero_range(inode, inode->i_size, pos - inode->i_size, NULL,
					   &hello_ops, NULL, NULL);
		env_rwsem_write_unlock(&inode->i_mapping.invalidate_lock);
	}
	if (!written)
		written = iomap_file_buffered_write(&iocb, &iter, &hello_ops, NULL, NULL);
	env_rwsem_write_unlock(&inode->i_rwsem);
	return written;
}

static ssize_t hello_read(struct file *file, void *memory, size_t len, uint64_t pos)
{
	struct kiocb iocb = {.ki_filp = file, .ki_pos = pos};
	struct iov_iter iter;

	iov_iter_init(&iter, memory, len);
	return filemap_read(&iocb, &iter);
}

/* 6. Use it: write, make durable, forget the cache, read back from the device. */
static int hello_world(struct hello_fs *fs, struct file *file, struct page_cache *cache)
{
	static const char text[] = "hello, world\n";
	char back[sizeof(text)] = "";
	struct blkdev_count count;

	if (hello_write(file, text, sizeof(text), 5000) < 0 ||
	    file_fsync(file, 0, UINT64_MAX, false))
		return -EIO;
	blkdev_count_read(fs->dev, &count);
	page_cache_drop(cache);
	if (hello_read(file, back, sizeof(back), 5000) != sizeof(back) || strcmp(text, back))
		return -EIO;
	printf("%s%zu bytes written by the caller, %llu to the device in %llu request\n", back,
	       sizeof(text), (unsigned long long)count.bytes[BIO_WRITE][BIO_DATA],
	       (unsigned long long)count.ios[BIO_WRITE][BIO_DATA]);
	return 0;
}

/* 7. Put it together, from the device up; and take it apart, from the files down. */
int main(void)
{
	static const struct super_operations super_ops = {0};
	struct hello_fs fs;
	struct page_cache_config config;
	struct page_cache *cache;
	struct backing_dev *bdi;
	struct block_device *ram;
	struct file file;
	int err;

	page_cache_config_init(&config);
	config.capacity = 16 << 20;
	if (blkdev_ram_create(&ram, NR_FILES * SLOT, 0) || blkdev_count_create(&fs.dev, ram) ||
	    page_cache_create(&cache, &config) || bdi_create(&bdi, cache, fs.dev, 1, WB_MAP_AUTO) ||
	    super_init(&fs.sb, cache, bdi, BLOCK, &super_ops)) {
		fprintf(stderr, "hello: no memory\n");
		return 1;
	}
	for (unsigned int i = 0; i < NR_FILES; i++)
		inode_init(&fs.files[i], &fs.sb, i, &hello_aops);
	file_init(&file, &fs.files[1], 0);

	err = hello_world(&fs, &file, cache);

	file_release(&file);
	for (unsigned int i = 0; i < NR_FILES; i++)
		inode_evict(&fs.files[i]);
	super_shutdown(&fs.sb);
	bdi_destroy(bdi);
	blkdev_destroy(fs.dev);
	page_cache_destroy(cache);
	return err ? 1 : 0;
}

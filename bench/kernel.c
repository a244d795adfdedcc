/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * kernel.c - the host's page cache: pwrite and pread on XFS on a loop device, else on tmpfs,
 * else wherever temporary files are
 *
 * The image and its mount point lose their names as soon as the mount is open.  The mount then
 * lives as long as our descriptors of it, so nothing stays behind however the program ends.
 */
#define _GNU_SOURCE /* syncfs() */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>
#include <iomap/env.h>
#include <iomap/list.h>

#define TMPFS_MAGIC_NUMBER 0x01021994
#define IMAGE_BYTES	   (2048ull * MIB)

/* The host writes back what has been dirty for 30 s; files that were dirtied later are safe. */
#define STAYS_DIRTY_NS 15000000000ull

struct host {
	struct peer peer;
	struct fixture fixture;
	int dir; /* where the files are */
	int fd[MAX_FILES];
	uint64_t dirtied_at; /* clock when the files had become dirty, 0: they are not */
	char name[96];
};

extern char **environ;

static struct host *host_of(struct peer *peer)
{
	return container_of(peer, struct host, peer);
}

static int complain(const char *what)
{
	int err = errno ? -errno : -EIO;

	fprintf(stderr, "bench: kernel: %s: %s\n", what, strerror(-err));
	return err;
}

/* ---- where its files are ---- */

static bool is_tmpfs(const char *path)
{
	struct statfs st;

	return statfs(path, &st) == 0 && st.f_type == TMPFS_MAGIC_NUMBER &&
	       (uint64_t)st.f_bavail * (uint64_t)st.f_bsize >= IMAGE_BYTES;
}

/* Memory where possible: what is written to the image before a round then takes no time. */
static const char *scratch_folder(void)
{
	const char *folder = getenv("TMPDIR");

	if (folder && *folder)
		return folder;
	return is_tmpfs("/dev/shm") ? "/dev/shm" : "/tmp";
}

/* Run a tool of the system without its output; true if it succeeded. */
static bool run_tool(char *const argv[])
{
	posix_spawn_file_actions_t actions;
	int status = -1;
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
	if (posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ) == 0)
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	posix_spawn_file_actions_destroy(&actions);
	return status == 0;
}

static bool image_make(const char *image)
{
	char *const mkfs[] = {"mkfs.xfs", "-q", "-f", (char *)image, NULL};
	int fd = open(image, O_CREAT | O_EXCL | O_RDWR, 0600);
	bool ok = fd >= 0 && ftruncate(fd, (off_t)IMAGE_BYTES) == 0;

	if (fd >= 0)
		close(fd);
	return ok && run_tool(mkfs);
}

/* A descriptor of the root of a new XFS, or -1. */
static int xfs_mount(const char *image, const char *point)
{
	char *const mount_it[] = {"mount", "-t",	  "xfs",	 "-o",
				  "loop",  (char *)image, (char *)point, NULL};
	int dir = -1;

	if (geteuid() != 0 || !image_make(image) || mkdir(point, 0700))
		return -1;
	if (run_tool(mount_it)) {
		dir = open(point, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		umount2(point, MNT_DETACH);
	}
	return dir;
}

static int xfs_open(void)
{
	char folder[512], image[544], point[544];
	sigset_t deadly, before;
	int dir;

	snprintf(folder, sizeof(folder), "%s/iomap-bench-XXXXXX", scratch_folder());
	if (!mkdtemp(folder))
		return -1;
	snprintf(image, sizeof(image), "%s/image", folder);
	snprintf(point, sizeof(point), "%s/mount", folder);

	/* Between here and the end there are names to take away. */
	sigemptyset(&deadly);
	sigaddset(&deadly, SIGINT);
	sigaddset(&deadly, SIGTERM);
	sigaddset(&deadly, SIGHUP);
	sigprocmask(SIG_BLOCK, &deadly, &before);
	dir = xfs_mount(image, point);
	unlink(image);
	rmdir(point);
	rmdir(folder);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return dir;
}

static void place_find(struct host *host)
{
	host->dir = xfs_open();
	if (host->dir >= 0) {
		snprintf(host->name, sizeof(host->name), "xfs");
		return;
	}
	if (is_tmpfs("/dev/shm")) {
		host->dir = open("/dev/shm", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		snprintf(host->name, sizeof(host->name), "tmpfs (no XFS can be mounted)");
	} else {
		host->dir = open(scratch_folder(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		snprintf(host->name, sizeof(host->name), "files in %.48s (no XFS can be mounted)",
			 scratch_folder());
	}
}

/* ---- files ---- */

/* XFS and the fallbacks alike: the file has a name only while it is made. */
static int file_make(struct host *host)
{
	char name[64];
	int fd;

	snprintf(name, sizeof(name), "iomap-bench-%ld", (long)getpid());
	fd = openat(host->dir, name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
	if (fd >= 0)
		unlinkat(host->dir, name, 0);
	return fd;
}

static int write_whole(struct host *host, int fd)
{
	uint32_t len = host->fixture.fill_bytes;
	unsigned char *memory = env_alloc(len);
	int err = memory ? 0 : -ENOMEM;

	if (memory)
		fill_pattern(memory, len);
	for (uint64_t pos = 0; !err && pos < host->fixture.file_bytes; pos += len)
		if (pwrite(fd, memory, len, (off_t)pos) != (ssize_t)len)
			err = complain("pwrite");
	env_free(memory);
	return err;
}

static int clean_all(struct host *host)
{
	host->dirtied_at = 0;
	return syncfs(host->dir) ? complain("syncfs") : 0;
}

static int dirty_all(struct host *host)
{
	int err = 0;

	if (host->dirtied_at && env_clock_ns() - host->dirtied_at < STAYS_DIRTY_NS)
		return 0;
	err = clean_all(host);
	for (unsigned int i = 0; !err && i < host->fixture.nr_files; i++)
		err = write_whole(host, host->fd[i]);
	host->dirtied_at = env_clock_ns();
	return err;
}

static void host_close(struct peer *peer)
{
	struct host *host = host_of(peer);

	for (unsigned int i = 0; i < MAX_FILES; i++) {
		if (host->fd[i] >= 0)
			close(host->fd[i]);
		host->fd[i] = -1;
	}
	host->dirtied_at = 0;
}

static int host_open(struct peer *peer, const struct fixture *fixture)
{
	struct host *host = host_of(peer);
	int err = 0;

	host->fixture = *fixture;
	for (unsigned int i = 0; !err && i < fixture->nr_files; i++) {
		host->fd[i] = file_make(host);
		if (host->fd[i] < 0)
			err = complain("cannot make a file");
		else
			err = write_whole(host, host->fd[i]);
	}
	if (!err)
		err = clean_all(host);
	if (err)
		host_close(peer);
	return err;
}

static void host_destroy(struct peer *peer)
{
	struct host *host = host_of(peer);

	if (host->dir >= 0)
		close(host->dir);
	env_free(host);
}

/* ---- a run ---- */

static int new_file(struct host *host)
{
	if (host->fd[0] >= 0)
		close(host->fd[0]);
	host->fd[0] = file_make(host);
	return host->fd[0] >= 0 ? 0 : complain("cannot make a file");
}

static int host_ready(struct peer *peer, const struct load *load)
{
	struct host *host = host_of(peer);

	if (load->op == OP_APPEND)
		return new_file(host);
	if (load->op != OP_WRITE)
		return 0;
	return load->clean ? clean_all(host) : dirty_all(host);
}

static int write_run(int fd, const struct load *load, unsigned int thread)
{
	const unsigned char *memory = load->memory[thread];
	const uint64_t *pos = load->pos[thread];
	uint32_t len = load->op_bytes;

	for (uint64_t i = 0; i < load->nr_ops; i++)
		if (pwrite(fd, memory, len, (off_t)pos[i]) != (ssize_t)len)
			return complain("pwrite");
	return 0;
}

static int read_run(int fd, const struct load *load, unsigned int thread)
{
	unsigned char *memory = load->memory[thread];
	const uint64_t *pos = load->pos[thread];
	uint32_t len = load->op_bytes;

	for (uint64_t i = 0; i < load->nr_ops; i++)
		if (pread(fd, memory, len, (off_t)pos[i]) != (ssize_t)len)
			return complain("pread");
	return 0;
}

static int host_run(struct peer *peer, const struct load *load, unsigned int thread)
{
	struct host *host = host_of(peer);
	unsigned int nr_files = host->fixture.nr_files ? host->fixture.nr_files : 1;
	int fd = host->fd[thread % nr_files];

	return load->op == OP_READ ? read_run(fd, load, thread) : write_run(fd, load, thread);
}

static const struct peer_ops host_ops = {
	.open = host_open,
	.ready = host_ready,
	.run = host_run,
	.close = host_close,
	.destroy = host_destroy,
};

struct peer *kernel_create(void)
{
	struct host *host = env_zalloc(sizeof(*host));

	if (!host)
		return NULL;
	host->peer.ops = &host_ops;
	host->peer.name = host->name;
	for (unsigned int i = 0; i < MAX_FILES; i++)
		host->fd[i] = -1;
	place_find(host);
	if (host->dir < 0) {
		complain("no folder for its files");
		env_free(host);
		return NULL;
	}
	return &host->peer;
}

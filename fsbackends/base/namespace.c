/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * namespace.c - directories, paths, and how long an inode lives
 *
 * A directory is a hash table of names with linear probing; removal moves the entries behind
 * it up, so that a search ends at the first empty place.  The order of a table depends on the
 * names alone (CB10).
 *
 * An inode lives while it has a name or is open.  Under names_lock only the decision is made;
 * the eviction, which may be long, follows without the lock: nobody can find the inode then.
 */
#include "base.h"
#include "internal.h"

#include <errno.h>
#include <string.h>

#define PATH_LEN_MAX 4095u /* also bounds the depth of the tree */
#define NAME_LEN_MAX 255u
#define TABLE_MIN    8u

struct fs_dirent {
	char *name; /* NULL: empty place */
	struct fs_inode *inode;
	uint64_t hash;
};

/* One component of a path. */
struct name {
	const char *start;
	size_t len;
};

/* ---- directories ---------------------------------------------------------------------------- */

/* FNV-1a, its bits mixed once more because the low ones choose the place. */
static uint64_t name_hash(struct name name)
{
	uint64_t hash = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < name.len; i++)
		hash = (hash ^ (unsigned char)name.start[i]) * 0x100000001b3ull;
	hash ^= hash >> 32;
	hash *= 0x9e3779b97f4a7c15ull;
	return hash ^ (hash >> 32);
}

static bool dirent_is(const struct fs_dirent *entry, uint64_t hash, struct name name)
{
	return entry->hash == hash && strncmp(entry->name, name.start, name.len) == 0 &&
	       entry->name[name.len] == '\0';
}

static struct fs_dirent *dir_find(const struct fs_inode *dir, struct name name)
{
	size_t mask = dir->max_entries - 1;
	uint64_t hash = name_hash(name);

	if (dir->max_entries == 0)
		return NULL;
	for (size_t i = hash & mask; dir->entries[i].name; i = (i + 1) & mask)
		if (dirent_is(&dir->entries[i], hash, name))
			return &dir->entries[i];
	return NULL;
}

static void table_put(struct fs_dirent *entries, size_t max, const struct fs_dirent *entry)
{
	size_t i = entry->hash & (max - 1);

	while (entries[i].name)
		i = (i + 1) & (max - 1);
	entries[i] = *entry;
}

/* Room for one entry more, with at least a quarter of the places empty. */
static int dir_reserve(struct fs_inode *dir)
{
	struct fs_dirent *entries;
	size_t max = dir->max_entries ? 2 * dir->max_entries : TABLE_MIN;

	if (4 * (dir->nr_entries + 1) <= 3 * dir->max_entries)
		return 0;
	entries = env_zalloc(max * sizeof(*entries));
	if (!entries)
		return -ENOMEM;
	for (size_t i = 0; i < dir->max_entries; i++)
		if (dir->entries[i].name)
			table_put(entries, max, &dir->entries[i]);
	env_free(dir->entries);
	dir->entries = entries;
	dir->max_entries = max;
	return 0;
}

static void dir_remove(struct fs_inode *dir, struct fs_dirent *entry)
{
	size_t mask = dir->max_entries - 1;
	size_t empty = (size_t)(entry - dir->entries);

	env_free(entry->name);
	for (size_t i = (empty + 1) & mask; dir->entries[i].name; i = (i + 1) & mask) {
		size_t home = dir->entries[i].hash & mask;

		/* It may move up if its home is not behind the empty place. */
		if (((i - home) & mask) >= ((i - empty) & mask)) {
			dir->entries[empty] = dir->entries[i];
			empty = i;
		}
	}
	memset(&dir->entries[empty], 0, sizeof(dir->entries[empty]));
	dir->nr_entries--;
}

/* ---- paths ---------------------------------------------------------------------------------- */

/* Names are not interpreted: there is no "." and no "..". */
static int name_check(struct name name)
{
	if (name.len > NAME_LEN_MAX)
		return -ENAMETOOLONG;
	if (name.start[0] == '.' && (name.len == 1 || (name.len == 2 && name.start[1] == '.')))
		return -EINVAL;
	return 0;
}

static int path_check(const char *path)
{
	if (!path || path[0] != '/')
		return -EINVAL;
	return strnlen(path, PATH_LEN_MAX + 1) > PATH_LEN_MAX ? -ENAMETOOLONG : 0;
}

/* Cut the first component off *path; length 0 behind the last. */
static struct name path_next(const char **path)
{
	struct name name;

	*path += strspn(*path, "/");
	name.start = *path;
	name.len = strcspn(*path, "/");
	*path += name.len;
	*path += strspn(*path, "/");
	return name;
}

static int walk_step(struct fs_inode *dir, struct name name, struct fs_inode **inode)
{
	struct fs_dirent *entry;

	if (!dir->is_dir)
		return -ENOTDIR;
	entry = dir_find(dir, name);
	if (!entry)
		return -ENOENT;
	*inode = entry->inode;
	return 0;
}

/*
 * The directory that holds the last component, and that component (length 0 for "/").
 * => names_lock is held
 */
static int walk_to_parent(struct fs *fs, const char *path, struct fs_inode **parent,
			  struct name *last)
{
	struct fs_inode *dir = fs->root;
	struct name name;
	int err = path_check(path);

	if (err)
		return err;
	for (name = path_next(&path); name.len > 0; name = path_next(&path)) {
		err = name_check(name);
		if (err)
			return err;
		if (!*path)
			break;
		err = walk_step(dir, name, &dir);
		if (err)
			return err;
	}
	if (!dir->is_dir)
		return -ENOTDIR;
	*parent = dir;
	*last = name;
	return 0;
}

/* ---- inodes --------------------------------------------------------------------------------- */

static void inode_set_up(struct fs *fs, struct fs_inode *inode, bool is_dir)
{
	inode->fs = fs;
	inode->is_dir = is_dir;
	inode->linked = true;
	inode->nr_open = 0;
	inode->entries = NULL;
	inode->nr_entries = 0;
	inode->max_entries = 0;
}

static char *name_dup(struct name name)
{
	char *copy = env_alloc(name.len + 1);

	if (copy) {
		memcpy(copy, name.start, name.len);
		copy[name.len] = '\0';
	}
	return copy;
}

/*
 * Make an inode with the name, which is not in the directory.
 * => names_lock is held
 */
static int create(struct fs *fs, struct fs_inode *dir, struct name name, bool is_dir,
		  struct fs_inode **inode)
{
	struct fs_dirent entry = {.hash = name_hash(name)};
	int err = dir_reserve(dir);

	if (err)
		return err;
	entry.name = name_dup(name);
	if (!entry.name)
		return -ENOMEM;
	err = fs->backend->new_inode(fs, dir, is_dir, &entry.inode);
	if (err) {
		env_free(entry.name);
		return err;
	}
	inode_set_up(fs, entry.inode, is_dir);
	table_put(dir->entries, dir->max_entries, &entry);
	dir->nr_entries++;
	*inode = entry.inode;
	return 0;
}

/* => nobody has it open and it has no name, so nobody can find it */
static void inode_free(struct fs_inode *inode, bool unlinked)
{
	inode_evict(&inode->inode);
	env_free(inode->entries);
	inode->entries = NULL;
	inode->fs->backend->free_inode(inode, unlinked);
}

int fs_names_start(struct fs *fs)
{
	struct fs_inode *root;
	int err;

	env_mutex_lock(&fs->names_lock);
	err = fs->backend->new_inode(fs, NULL, true, &root);
	if (!err) {
		inode_set_up(fs, root, true);
		fs->root = root;
	}
	env_mutex_unlock(&fs->names_lock);
	return err;
}

/* A tree is at most as deep as the longest path has components. */
static void free_tree(struct fs_inode *inode)
{
	assert(inode->nr_open == 0);
	for (size_t i = 0; i < inode->max_entries; i++)
		if (inode->entries[i].name) {
			env_free(inode->entries[i].name);
			free_tree(inode->entries[i].inode);
		}
	inode_free(inode, false);
}

void fs_names_finish(struct fs *fs)
{
	free_tree(fs->root);
	fs->root = NULL;
}

/* ---- open counts ---------------------------------------------------------------------------- */

/* => names_lock is held */
static int find_or_create(struct fs *fs, const char *path, unsigned int flags,
			  struct fs_inode **inode)
{
	struct fs_inode *dir;
	struct name name;
	int err = walk_to_parent(fs, path, &dir, &name);

	if (err)
		return err;
	if (name.len == 0)
		return -EISDIR;
	err = walk_step(dir, name, inode);
	if (err == -ENOENT && (flags & FS_OPEN_CREATE))
		return create(fs, dir, name, false, inode);
	if (err)
		return err;
	if ((flags & FS_OPEN_CREATE) && (flags & FS_OPEN_EXCLUSIVE))
		return -EEXIST;
	return (*inode)->is_dir ? -EISDIR : 0;
}

int fs_names_get(struct fs *fs, const char *path, unsigned int flags, struct fs_inode **inode)
{
	struct fs_inode *found;
	int err;

	env_mutex_lock(&fs->names_lock);
	err = find_or_create(fs, path, flags, &found);
	if (!err) {
		found->nr_open++;
		*inode = found;
	}
	env_mutex_unlock(&fs->names_lock);
	return err;
}

/*
 * Tell the back end (CB8).  The user who leaves is still counted, so the inode stays; a new
 * user's writes are kept out, for they may need the space that is given back here.
 */
static void last_close(struct fs_inode *inode)
{
	const struct fs_backend *backend = inode->fs->backend;

	if (!backend->last_close)
		return;
	env_rwsem_write_lock(&inode->inode.i_rwsem);
	backend->last_close(inode);
	env_rwsem_write_unlock(&inode->inode.i_rwsem);
}

void fs_names_put(struct fs_inode *inode)
{
	struct fs *fs = inode->fs;
	bool last;

	env_mutex_lock(&fs->names_lock);
	last = inode->nr_open == 1;
	if (!last)
		inode->nr_open--;
	env_mutex_unlock(&fs->names_lock);
	if (!last)
		return;

	last_close(inode);
	env_mutex_lock(&fs->names_lock);
	last = --inode->nr_open == 0 && !inode->linked;
	env_mutex_unlock(&fs->names_lock);
	if (last)
		inode_free(inode, true);
}

/* ---- calls ---------------------------------------------------------------------------------- */

/* => names_lock is held */
static int make_directory(struct fs *fs, const char *path)
{
	struct fs_inode *dir, *inode;
	struct name name;
	int err = walk_to_parent(fs, path, &dir, &name);

	if (err)
		return err;
	if (name.len == 0 || dir_find(dir, name))
		return -EEXIST;
	return create(fs, dir, name, true, &inode);
}

int fs_mkdir(struct fs *fs, const char *path)
{
	int err;

	env_mutex_lock(&fs->names_lock);
	err = make_directory(fs, path);
	env_mutex_unlock(&fs->names_lock);
	return err;
}

/* => names_lock is held */
static int make_parents(struct fs *fs, const char *path)
{
	struct fs_inode *dir = fs->root;
	struct name name;
	int err = path_check(path);

	if (err)
		return err;
	for (name = path_next(&path); name.len > 0; name = path_next(&path)) {
		err = name_check(name);
		if (!err)
			err = walk_step(dir, name, &dir);
		if (err == -ENOENT)
			err = create(fs, dir, name, true, &dir);
		if (err)
			return err;
		if (!dir->is_dir)
			return *path ? -ENOTDIR : -EEXIST;
	}
	return 0;
}

int fs_mkdir_parents(struct fs *fs, const char *path)
{
	int err;

	env_mutex_lock(&fs->names_lock);
	err = make_parents(fs, path);
	env_mutex_unlock(&fs->names_lock);
	return err;
}

/* => names_lock is held; *unused: nobody has the file open, so the caller frees it */
static int remove_name(struct fs *fs, const char *path, struct fs_inode **inode, bool *unused)
{
	struct fs_inode *dir;
	struct fs_dirent *entry;
	struct name name;
	int err = walk_to_parent(fs, path, &dir, &name);

	if (err)
		return err;
	if (name.len == 0)
		return -EISDIR;
	entry = dir_find(dir, name);
	if (!entry)
		return -ENOENT;
	if (entry->inode->is_dir)
		return -EISDIR;
	*inode = entry->inode;
	dir_remove(dir, entry);
	(*inode)->linked = false;
	*unused = (*inode)->nr_open == 0;
	return 0;
}

int fs_unlink(struct fs *fs, const char *path)
{
	struct fs_inode *inode;
	bool unused = false;
	int err;

	env_mutex_lock(&fs->names_lock);
	err = remove_name(fs, path, &inode, &unused);
	env_mutex_unlock(&fs->names_lock);
	if (unused)
		inode_free(inode, true);
	return err;
}

int fs_stat(struct fs *fs, const char *path, uint64_t *size, bool *is_dir)
{
	struct fs_inode *inode;
	struct name name;
	int err;

	env_mutex_lock(&fs->names_lock);
	err = walk_to_parent(fs, path, &inode, &name);
	if (!err && name.len > 0)
		err = walk_step(inode, name, &inode);
	if (!err) {
		*size = inode_size_read(&inode->inode);
		*is_dir = inode->is_dir;
	}
	env_mutex_unlock(&fs->names_lock);
	return err;
}

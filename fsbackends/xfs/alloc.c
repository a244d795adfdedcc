/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * alloc.c - which free blocks a request gets
 *
 * A request names a target.  Pass 1 goes round the groups from the target's and skips those
 * whose AGF is busy; pass 2 waits for them; in the target's group the piece nearest to the
 * target is taken, in others the smallest that fits.  Both want at least the longest extent
 * that was seen; a last pass takes what there is.
 */
#include "alloc.h"

#include <assert.h>
#include <errno.h>

#include <iomap/backing_dev.h>
#include <iomap/cost.h>

#include "ialloc.h"
#include "log.h"

/* Entries in a leaf of the kernel's tree by size: so few are all looked at (XF19). */
#define SIZE_LEAF 252

/* ---- counters ---------------------------------------------------------------------------- */

int xfs_space_claim(struct xfs_space *space, uint64_t nr)
{
	uint64_t available = xfs_space_available(space);

	do {
		if (available < nr)
			return -ENOSPC;
	} while (!__atomic_compare_exchange_n(&space->available, &available, available - nr, true,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return 0;
}

void xfs_space_unclaim(struct xfs_space *space, uint64_t nr)
{
	__atomic_fetch_add(&space->available, nr, __ATOMIC_RELAXED);
}

int xfs_space_reserve(struct xfs_space *space, uint64_t nr)
{
	int err = xfs_space_claim(space, nr);

	if (!err)
		__atomic_fetch_add(&space->reserved, nr, __ATOMIC_RELAXED);
	return err;
}

void xfs_space_unreserve(struct xfs_space *space, uint64_t nr)
{
	xfs_space_use_reserved(space, nr);
	xfs_space_unclaim(space, nr);
}

void xfs_space_use_reserved(struct xfs_space *space, uint64_t nr)
{
	uint64_t before = __atomic_fetch_sub(&space->reserved, nr, __ATOMIC_RELAXED);

	assert(before >= nr);
	(void)before;
}

/* ---- near search (XF19) ------------------------------------------------------------------ */

struct search {
	uint64_t block; /* the target */
	uint64_t minlen;
	uint64_t len;
	struct xfs_found best;
	uint64_t distance; /* of best */
	uint64_t nr_seen;
};

/* What a free extent has to offer; its distance from the target. */
static struct xfs_found candidate(const struct search *search, const struct xfs_free_extent *free,
				  uint64_t *distance)
{
	uint64_t end = free->start + free->len;
	struct xfs_found found;

	found.start = free->start;
	if (free->start < search->block && end >= search->block + search->len)
		found.start = search->block;
	found.len = end - found.start < search->len ? end - found.start : search->len;
	*distance = found.start < search->block ? search->block - found.start
						: found.start - search->block;
	return found;
}

/* Remember the candidate if it is longer than the best, or as long and nearer. */
static bool consider(struct search *search, const struct xfs_free_extent *free)
{
	uint64_t distance;
	struct xfs_found found = candidate(search, free, &distance);

	search->nr_seen++;
	if (found.len < search->minlen)
		return false;
	if (found.len > search->best.len ||
	    (found.len == search->best.len && distance < search->distance)) {
		search->best = found;
		search->distance = distance;
	}
	return true;
}

static uint64_t distance_of(const struct search *search, const struct xfs_free_extent *free)
{
	uint64_t distance;

	candidate(search, free, &distance);
	return distance;
}

/* No extent is long enough: the nearest among the longest. */
static void search_longest(struct search *search, const struct xfs_free_space *space)
{
	const struct xfs_free_extent *free = xfs_free_space_largest(space);
	uint64_t longest = free ? free->len : 0;

	for (unsigned int i = 0; free && free->len == longest && i < SIZE_LEAF; i++) {
		consider(search, free);
		free = xfs_free_extent_by_size(free, XFS_TREE_LEFT);
	}
}

static void search_all_from(struct search *search, const struct xfs_free_extent *free)
{
	for (; free; free = xfs_free_extent_by_size(free, XFS_TREE_RIGHT))
		consider(search, free);
}

/* Nothing further on this way can be better than a best of full length. */
static bool is_hopeless(const struct search *search, const struct xfs_free_extent *free)
{
	return search->best.len == search->len && distance_of(search, free) > search->distance;
}

/* After a hit on one side: the first usable extent on the other, if it is not farther. */
static void search_other_side(struct search *search, const struct xfs_free_extent *free,
			      enum xfs_tree_side side, uint64_t limit)
{
	while (free && distance_of(search, free) <= limit && !consider(search, free))
		free = xfs_free_extent_by_start(free, side);
}

/* Steps to the left, to the right and by size in turn, until a neighbour will do. */
static void search_around(struct search *search, const struct xfs_free_space *space,
			  const struct xfs_free_extent *by_size)
{
	const struct xfs_free_extent *left = xfs_free_space_at(space, search->block);
	const struct xfs_free_extent *right =
		left ? xfs_free_extent_by_start(left, XFS_TREE_RIGHT) : xfs_free_space_first(space);

	while (left || right) {
		if (left && is_hopeless(search, left))
			left = NULL;
		if (left && consider(search, left)) {
			search_other_side(search, right, XFS_TREE_RIGHT, distance_of(search, left));
			return;
		}
		if (left)
			left = xfs_free_extent_by_start(left, XFS_TREE_LEFT);

		if (right && is_hopeless(search, right))
			right = NULL;
		if (right && consider(search, right)) {
			search_other_side(search, left, XFS_TREE_LEFT, distance_of(search, right));
			return;
		}
		if (right)
			right = xfs_free_extent_by_start(right, XFS_TREE_RIGHT);

		if (by_size) {
			consider(search, by_size);
			by_size = xfs_free_extent_by_size(by_size, XFS_TREE_RIGHT);
		}
	}
}

struct xfs_found xfs_find_near(const struct xfs_free_space *space, uint64_t block, uint64_t minlen,
			       uint64_t len)
{
	struct search search = {.block = block, .minlen = minlen, .len = len};
	const struct xfs_free_extent *first = xfs_free_space_fitting(space, len);

	if (!first)
		search_longest(&search, space);
	else if (xfs_free_space_nr_from(space, first) < SIZE_LEAF)
		search_all_from(&search, first);
	else
		search_around(&search, space, first);
	search.best.nr_seen = search.nr_seen;
	return search.best;
}

/* ---- by size (XF20) ---------------------------------------------------------------------- */

struct xfs_found xfs_find_by_size(const struct xfs_free_space *space, uint64_t minlen, uint64_t len)
{
	const struct xfs_free_extent *free = xfs_free_space_fitting(space, len);

	if (!free)
		free = xfs_free_space_largest(space);
	if (!free || free->len < minlen)
		return (struct xfs_found){.nr_seen = free != NULL};
	return (struct xfs_found){free->start, free->len < len ? free->len : len, 1};
}

/* ---- the AGF ----------------------------------------------------------------------------- */

void xfs_agf_lock(struct xfs_space *space, uint64_t ag, struct inode *inode)
{
	struct env_mutex *agf = &space->ags[ag].agf;
	uint64_t start;

	if (env_mutex_trylock(agf))
		return;
	start = env_clock_ns();
	env_mutex_lock(agf);
	if (inode)
		wb_account_lock_wait(inode, env_clock_ns() - start);
}

void xfs_agf_unlock(struct xfs_space *space, uint64_t ag)
{
	env_mutex_unlock(&space->ags[ag].agf);
}

void xfs_agf_mark(struct xfs_space *space, uint64_t ag)
{
	__atomic_store_n(&space->ags[ag].logged, true, __ATOMIC_RELAXED);
}

/* ---- busy extents (XF27) ----------------------------------------------------------------- */

struct xfs_busy {
	struct xfs_busy *next;
	uint64_t start; /* in the group */
	uint64_t len;
	uint64_t change; /* of the log, that freed it */
};

/* False if there is no memory for it.  => the AGF is held */
static bool busy_add(struct xfs_space *space, struct xfs_ag *ag, uint64_t start, uint64_t len)
{
	struct xfs_busy *busy = env_alloc(sizeof(*busy));

	if (!busy)
		return false;
	*busy = (struct xfs_busy){NULL, start, len, xfs_log_change(space->log)};
	if (ag->busy)
		ag->last_busy->next = busy;
	else
		ag->busy = busy;
	ag->last_busy = busy;
	__atomic_fetch_add(&space->nr_busy, 1, __ATOMIC_RELAXED);
	return true;
}

/* => the AGF is held */
static void busy_pop(struct xfs_space *space, struct xfs_ag *ag)
{
	struct xfs_busy *busy = ag->busy;

	ag->busy = busy->next;
	env_free(busy);
	__atomic_fetch_sub(&space->nr_busy, 1, __ATOMIC_RELAXED);
}

/* What there is no memory for stays busy until the next commit.  => the AGF is held */
static void end_busy_of(struct xfs_space *space, struct xfs_ag *ag, uint64_t change)
{
	while (ag->busy && ag->busy->change <= change) {
		if (xfs_free_space_add(&ag->free, ag->busy->start, ag->busy->len))
			return;
		busy_pop(space, ag);
	}
}

void xfs_space_end_busy(struct xfs_space *space, uint64_t change)
{
	if (__atomic_load_n(&space->nr_busy, __ATOMIC_RELAXED) == 0)
		return;
	for (uint64_t ag = 0; ag < space->geometry.nr_ags; ag++) {
		xfs_agf_lock(space, ag, NULL);
		end_busy_of(space, &space->ags[ag], change);
		xfs_agf_unlock(space, ag);
	}
}

/* Nothing but busy extents is left.  If the log cannot be written they are taken all the same. */
static void force_busy(struct xfs_space *space)
{
	int err = xfs_log_commit_all(space->log);

	xfs_space_end_busy(space, err ? UINT64_MAX
				      : __atomic_load_n(&space->log->committed, __ATOMIC_ACQUIRE));
}

static bool has_busy(const struct xfs_space *space)
{
	return __atomic_load_n(&space->nr_busy, __ATOMIC_RELAXED) > 0;
}

/* ---- choice of the group (XF17, XF18, XF22) ---------------------------------------------- */

uint64_t xfs_minimum_len(const struct xfs_space *space, const struct xfs_alloc_request *request)
{
	uint64_t nr = space->geometry.nr_ags;
	uint64_t longest = 0;

	for (uint64_t i = 0; i < nr; i++) {
		uint64_t ag = (request->target.ag + i) % nr;
		uint64_t seen = xfs_free_space_longest(&space->ags[ag].free);

		if (seen >= request->len)
			return request->len;
		if (seen > longest)
			longest = seen;
	}
	return longest > 0 ? longest : 1;
}

struct pass {
	struct xfs_place target;
	uint64_t minlen;
	bool wait; /* for a busy AGF, else go past it */
};

/*
 * The AGF is held until the transaction has committed, so the costs of search, update and commit
 * are those of everyone who waits for it (XF7, XF23).
 * => the AGF of the group is held
 */
static int take_from_ag(struct xfs_space *space, uint64_t ag, const struct pass *pass, uint64_t len,
			struct xfs_found *found)
{
	struct xfs_free_space *free = &space->ags[ag].free;
	int err;

	if (ag == pass->target.ag)
		*found = xfs_find_near(free, pass->target.block, pass->minlen, len);
	else
		*found = xfs_find_by_size(free, pass->minlen, len);
	env_charge(ENV_COST_ALLOC_STEP, found->nr_seen);
	if (found->len == 0)
		return -ENOSPC;
	env_charge(ENV_COST_AGF_UPDATE, 1);
	xfs_agf_mark(space, ag);
	err = xfs_free_space_take(free, found->start, found->len);
	if (!err)
		found->start += xfs_ag_first_block(&space->geometry, ag);
	return err;
}

static int try_ags(struct xfs_space *space, const struct xfs_alloc_request *request,
		   const struct pass *pass, struct xfs_found *found)
{
	uint64_t nr = space->geometry.nr_ags;
	int err = -ENOSPC;

	for (uint64_t i = 0; i < nr && err == -ENOSPC; i++) {
		uint64_t ag = (pass->target.ag + i) % nr;

		if (xfs_free_space_longest(&space->ags[ag].free) < pass->minlen)
			continue;
		if (pass->wait)
			xfs_agf_lock(space, ag, request->inode);
		else if (!env_mutex_trylock(&space->ags[ag].agf))
			continue;
		err = take_from_ag(space, ag, pass, request->len, found);
		xfs_agf_unlock(space, ag);
	}
	return err;
}

static int try_passes(struct xfs_space *space, const struct xfs_alloc_request *request,
		      struct xfs_found *found)
{
	struct pass pass = {request->target, xfs_minimum_len(space, request), false};
	int err = -ENOSPC;

	if (space->agf_trylock)
		err = try_ags(space, request, &pass, found);
	if (err == -ENOSPC) {
		pass.wait = true;
		err = try_ags(space, request, &pass, found);
	}
	/* XF22: what was seen has gone meanwhile, so take anything; at last from group 0 on. */
	if (err == -ENOSPC) {
		pass.minlen = 1;
		err = try_ags(space, request, &pass, found);
	}
	if (err == -ENOSPC) {
		pass.target = (struct xfs_place){0};
		err = try_ags(space, request, &pass, found);
	}
	return err;
}

int xfs_alloc(struct xfs_space *space, const struct xfs_alloc_request *request, uint64_t *start,
	      uint64_t *len)
{
	struct xfs_found found = {0};
	bool was_busy = has_busy(space);
	int err;

	assert(request->len > 0);
	assert(request->len <= XFS_MAX_EXTENT);

	env_charge(ENV_COST_ALLOC, 1);
	err = try_passes(space, request, &found);
	if (err == -ENOSPC && (was_busy || has_busy(space))) {
		force_busy(space);
		err = try_passes(space, request, &found);
	}
	if (err)
		return err;
	*start = found.start;
	*len = found.len;
	return 0;
}

int xfs_alloc_in_ag(struct xfs_space *space, uint64_t ag, uint64_t len, uint64_t *start)
{
	struct pass pass = {{ag, 0}, len, true};
	struct xfs_found found = {0};
	int err;

	xfs_agf_lock(space, ag, NULL);
	err = take_from_ag(space, ag, &pass, len, &found);
	xfs_agf_unlock(space, ag);
	if (!err)
		*start = found.start;
	return err;
}

/* => start .. start + len lie in one group: no group starts or ends with file data */
uint64_t xfs_free_claimed(struct xfs_space *space, uint64_t start, uint64_t len,
			  struct inode *inode)
{
	struct xfs_place place = xfs_place_of(&space->geometry, start);
	struct xfs_ag *ag = &space->ags[place.ag];
	int err = 0;

	assert(place.block >= XFS_AG_HEADER_BLOCKS);
	assert(place.block + len <= xfs_ag_nr_blocks(&space->geometry, place.ag));
	env_charge(ENV_COST_ALLOC, 1);
	xfs_agf_lock(space, place.ag, inode);
	env_charge(ENV_COST_AGF_UPDATE, 1);
	xfs_agf_mark(space, place.ag);
	if (!space->log || !busy_add(space, ag, place.block, len))
		err = xfs_free_space_add(&ag->free, place.block, len);
	xfs_agf_unlock(space, place.ag);
	/* Memory and the spares have run out: the blocks stay in use until unmount. */
	return err ? 0 : len;
}

void xfs_free(struct xfs_space *space, uint64_t start, uint64_t len, struct inode *inode)
{
	xfs_space_unclaim(space, xfs_free_claimed(space, start, len, inode));
}

/* ---- life -------------------------------------------------------------------------------- */

static int ag_init(struct xfs_space *space, uint64_t ag)
{
	const struct xfs_geometry *geometry = &space->geometry;
	uint64_t first = XFS_AG_HEADER_BLOCKS;
	uint64_t end = xfs_ag_nr_blocks(geometry, ag);

	if (ag == geometry->log_ag)
		first += geometry->log_blocks;
	env_mutex_init(&space->ags[ag].agf, "xfs agf");
	env_mutex_init(&space->ags[ag].inode_lock, "xfs agi");
	xfs_free_space_init(&space->ags[ag].free);
	space->total += end - first;
	return xfs_free_space_add(&space->ags[ag].free, first, end - first);
}

void xfs_space_destroy(struct xfs_space *space)
{
	for (uint64_t ag = 0; ag < space->geometry.nr_ags; ag++) {
		while (space->ags[ag].busy)
			busy_pop(space, &space->ags[ag]);
		xfs_ialloc_destroy(&space->ags[ag]);
		xfs_free_space_destroy(&space->ags[ag].free);
	}
	env_free(space->ags);
}

int xfs_space_init(struct xfs_space *space, const struct xfs_geometry *geometry)
{
	*space = (struct xfs_space){.geometry = *geometry, .agf_trylock = true};
	space->ags = env_zalloc(geometry->nr_ags * sizeof(*space->ags));
	if (!space->ags)
		return -ENOMEM;
	for (uint64_t ag = 0; ag < geometry->nr_ags; ag++) {
		int err = ag_init(space, ag);

		if (err) {
			xfs_space_destroy(space);
			return err;
		}
	}
	space->available = space->total;
	return 0;
}

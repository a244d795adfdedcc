/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * share.c - a context's part of a dirty limit (K22, W51, W52, W56)
 *
 * A device has the part of a limit that it has of all recent completions, whatever the number
 * of its contexts; of that a context has its part of the device's, but not less than if all that
 * are active had the same.  The parts may add up to more than the limit, which ends all
 * dirtying at last; so a context that has just become active is not held back for its past.
 */
#include "folio/internal.h"

#define NS_PER_SECOND 1000000000ull
#define AGE_NS	      (3 * NS_PER_SECOND)

/* What the contexts of a device have done lately. */
struct activity {
	uint64_t completions;
	unsigned int nr_active; /* contexts with dirty inodes or pages under writeback */
};

static struct activity bdi_activity(const struct backing_dev *bdi)
{
	unsigned int nr = __atomic_load_n(&bdi->nr_slots, __ATOMIC_ACQUIRE);
	struct activity activity = {0};

	for (unsigned int i = 0; i < nr; i++) {
		const struct wb_ctx *wb = bdi->slots[i];

		activity.completions += counter_read(&wb->nr_completions);
		if (counter_read(&wb->nr_listed) || counter_read(&wb->writeback))
			activity.nr_active++;
	}
	return activity;
}

static uint64_t part_of(uint64_t limit, uint64_t own, uint64_t all)
{
	return own < all ? (uint64_t)((__uint128_t)limit * own / all) : limit;
}

/* What so many completions give of the limit, with room to start, inside the device's bounds. */
static uint64_t bounded_part(const struct backing_dev *bdi, uint64_t limit, uint64_t dirty,
			     uint64_t completions)
{
	uint64_t part = part_of(limit, completions, counter_read(&bdi->cache->nr_completions));
	uint64_t room = dirty < limit ? limit - dirty : 0;
	uint64_t least = room / (bdi_tuned(bdi, strict_limit) ? 100 : 8);
	uint64_t min = limit * bdi_tuned(bdi, min_ratio) / 100;
	uint64_t max = limit * bdi_tuned(bdi, max_ratio) / 100;

	part = part > least ? part : least;
	part = part > min ? part : min;
	return part < max ? part : max;
}

uint64_t wb_share(const struct wb_ctx *wb, uint64_t limit, uint64_t dirty)
{
	const struct backing_dev *bdi = wb->bdi;
	uint64_t own = counter_read(&wb->nr_completions);
	struct activity activity;
	uint64_t share, equal;

	if (bdi_tuned(bdi, throttle_share) == WB_SHARE_POSTED)
		return bounded_part(bdi, limit, dirty, own);
	activity = bdi_activity(bdi);
	share = bounded_part(bdi, limit, dirty, activity.completions);
	equal = activity.nr_active > 1 ? share / activity.nr_active : share;
	if (!activity.completions)
		return equal;
	share = part_of(share, own, activity.completions);
	return share > equal ? share : equal;
}

/* ---- age ---------------------------------------------------------------------------- */

static void forget(struct wb_ctx *wb, uint64_t pages)
{
	counter_sub(&wb->nr_completions, pages);
	counter_sub(&wb->bdi->cache->nr_completions, pages);
}

void share_age(struct page_cache *cache, uint64_t now)
{
	uint64_t last = counter_read(&cache->aged_ns);
	uint64_t periods = (now - last) / AGE_NS;
	struct backing_dev *bdi;

	if (now < last + AGE_NS ||
	    !__atomic_compare_exchange_n(&cache->aged_ns, &last, last + periods * AGE_NS, false,
					 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return;
	env_mutex_lock(&cache->bdi_lock);
	list_for_each_entry(bdi, &cache->bdis, struct backing_dev, link) {
		unsigned int nr = __atomic_load_n(&bdi->nr_slots, __ATOMIC_ACQUIRE);

		/* Half of it each period, on idle devices too. */
		for (unsigned int i = 0; i < nr; i++) {
			uint64_t pages = counter_read(&bdi->slots[i]->nr_completions);

			forget(bdi->slots[i], pages - (periods < 64 ? pages >> periods : 0));
		}
	}
	env_mutex_unlock(&cache->bdi_lock);
}

void share_forget(struct backing_dev *bdi)
{
	for (unsigned int i = 0; i < bdi->nr_slots; i++)
		forget(bdi->slots[i], counter_read(&bdi->slots[i]->nr_completions));
}

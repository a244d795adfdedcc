/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * fault-power.c - a volatile write cache, and what a power cut leaves of it
 *
 * Writes go to the device below at once.  Before one does, what it overwrites is read and kept
 * with its record, until a flush that was submitted after its completion completes.
 *
 * At a power cut requests begin to fail.  When the last one is back from the device below, the
 * thread goes through the records, the newest write first, and chooses for each sector: what
 * it was before, or what was written.  Once a sector keeps something, older writes have no
 * say.  Those caught on their way are written in part.  Then all of them fail.
 */
#include "fault.h"

#include <assert.h>
#include <errno.h>

#include "env/memory.h"

static struct fault_record *record_of(struct bio *bio)
{
	return container_of(bio_note(bio), struct fault_record, note);
}

/* ---- records ---- */

static void record_free(struct fault_record *record)
{
	env_free(record->old);
	env_free(record);
}

static struct fault_record *record_create(struct fault_device *fault, struct bio *bio)
{
	struct fault_record *record = env_zalloc(sizeof(*record));

	if (!record)
		return NULL;
	record->fault = fault;
	record->bio = bio;
	record->op = bio->op;
	record->addr = bio->addr;
	record->len = bio->len;
	if (bio->op != BIO_WRITE)
		return record;
	record->old = env_alloc(bio->len);
	if (!record->old) {
		env_free(record);
		return NULL;
	}
	return record;
}

/* With the lock held: what completed up to the flush is durable. */
static void forget_durable(struct fault_device *fault, uint64_t done_nr)
{
	struct fault_record **place = &fault->records;

	while (*place) {
		struct fault_record *record = *place;

		if (!record->bio && record->done_nr <= done_nr) {
			*place = record->older;
			record_free(record);
		} else {
			place = &record->older;
		}
	}
}

/* ---- a request ---- */

/* With the lock held.  A write's record stays; the bio's end is remembered if power went. */
static void record_done(struct fault_device *fault, struct fault_record *record)
{
	struct bio *bio = record->bio;

	record->bio = NULL;
	fault->nr_in_flight--;
	if (fault->power != POWER_ON) {
		bio_list_add(&fault->returned, bio);
		fault_thread_poke(fault);
	} else if (record->op == BIO_FLUSH && bio->status == 0) {
		forget_durable(fault, record->done_nr);
	}
	if (record->op == BIO_WRITE)
		record->done_nr = ++fault->nr_done;
	else
		record_free(record);
}

static void power_end_io(struct bio *bio)
{
	struct fault_record *record = record_of(bio);
	struct fault_device *fault = record->fault;
	bool power_went;

	bio_restore(bio);
	env_mutex_lock(&fault->lock);
	record_done(fault, record);
	power_went = fault->power != POWER_ON;
	env_mutex_unlock(&fault->lock);

	if (power_went)
		fault_thread_wake(fault);
	else
		bio->end_io(bio);
}

/* What the write replaces is known: let it go, even if power went meanwhile. */
static void old_end_io(struct bio *read)
{
	struct fault_record *record = container_of(read, struct fault_record, read);
	struct bio *bio = record->bio;
	int status = read->status;

	bio_uninit(read);
	bio_intercept(bio, &record->note, power_end_io);
	if (status)
		bio_endio(bio, status);
	else
		blkdev_pass(&record->fault->bdev, bio);
}

static void read_old(struct fault_record *record)
{
	struct bio *read = &record->read;

	bio_init(read, record->fault->bdev.below, BIO_READ, record->bio->kind, record->addr);
	/* One piece has room in the bio itself. */
	bio_add(read, record->old, record->len);
	read->end_io = old_end_io;
	bio_submit(read);
}

/* False: power is not on. */
static bool record_begin(struct fault_device *fault, struct fault_record *record)
{
	bool power_is_on;

	env_mutex_lock(&fault->lock);
	power_is_on = fault->power == POWER_ON;
	if (power_is_on) {
		fault->nr_in_flight++;
		if (record->op == BIO_WRITE) {
			record->older = fault->records;
			fault->records = record;
		} else {
			record->done_nr = fault->nr_done;
		}
	}
	env_mutex_unlock(&fault->lock);
	return power_is_on;
}

void fault_power_send(struct fault_device *fault, struct bio *bio)
{
	struct fault_record *record = record_create(fault, bio);

	if (!record) {
		bio_endio(bio, -ENOMEM);
		return;
	}
	if (!record_begin(fault, record)) {
		record_free(record);
		bio_endio(bio, -EIO);
		return;
	}
	if (record->op == BIO_WRITE) {
		read_old(record);
	} else {
		bio_intercept(bio, &record->note, power_end_io);
		blkdev_pass(&fault->bdev, bio);
	}
}

/* ---- the cut ---- */

static void catch_all(struct fault_device *fault)
{
	struct bio *bio;

	while ((bio = bio_list_pop(&fault->held)))
		bio_list_add(&fault->caught, bio);
	fault->nr_held = 0;
	while (fault->jobs) {
		struct fault_job *job = fault->jobs;

		fault->jobs = job->next;
		bio_list_add(&fault->caught, job->bio);
		env_free(job);
	}
}

void fault_power_go(struct fault_device *fault)
{
	fault->power = POWER_GOING;
	catch_all(fault);
	fault_thread_poke(fault);
}

bool fault_power_can_settle(const struct fault_device *fault)
{
	return fault->power == POWER_GOING && fault->nr_in_flight == 0;
}

/* ---- settling ---- */

static bool test_and_settle(struct fault_device *fault, uint64_t sector, bool settle)
{
	unsigned char *byte = &fault->settled[sector / 8];
	unsigned char bit = (unsigned char)(1u << (sector % 8));
	bool was = (*byte & bit) != 0;

	if (settle)
		*byte |= bit;
	return was;
}

/* How a write fares as a whole. */
enum fate { KEPT, LOST, TORN, NR_FATES };

/* Does the sector go back to what this write found? */
static bool sector_goes_back(struct fault_device *fault, uint64_t sector, enum fate fate,
			     struct env_rng *rng)
{
	bool kept = fate == KEPT || (fate == TORN && env_rng_below(rng, 2));

	return !test_and_settle(fault, sector, kept) && !kept;
}

static void settle_write(struct fault_device *fault, struct fault_record *record,
			 struct env_rng *rng)
{
	uint32_t size = fault->bdev.logical_block;
	uint64_t first = record->addr / size, nr = record->len / size;
	enum fate fate = (enum fate)env_rng_below(rng, NR_FATES);
	uint64_t start = 0;

	for (uint64_t i = 0; i <= nr; i++) {
		if (i < nr && sector_goes_back(fault, first + i, fate, rng))
			continue;
		if (i > start)
			fault_write_sectors(fault, (first + start) * size,
					    record->old + start * size, (i - start) * size);
		start = i + 1;
	}
}

static void forget_settled(struct fault_device *fault, const struct fault_record *record)
{
	uint32_t size = fault->bdev.logical_block;
	uint64_t first = record->addr / size, last = (record->addr + record->len - 1) / size;

	for (uint64_t byte = first / 8; byte <= last / 8; byte++)
		fault->settled[byte] = 0;
}

static void settle_writes(struct fault_device *fault, struct env_rng *rng)
{
	for (struct fault_record *record = fault->records; record; record = record->older)
		settle_write(fault, record, rng);
	while (fault->records) {
		struct fault_record *record = fault->records;

		fault->records = record->older;
		forget_settled(fault, record);
		record_free(record);
	}
}

static void fail_all(struct bio_list *list)
{
	struct bio *bio;

	while ((bio = bio_list_pop(list)))
		bio_endio(bio, -EIO);
}

static void settle_caught(struct fault_device *fault, struct bio_list *caught, struct env_rng *rng)
{
	for (struct bio *bio = caught->head; bio; bio = bio->next)
		if (bio->op == BIO_WRITE)
			fault_tear(fault, bio, env_rng_u64(rng));
	fail_all(caught);
}

void fault_power_settle(struct fault_device *fault)
{
	struct bio_list caught = fault->caught, returned = fault->returned;
	struct env_rng rng;

	fault->caught.head = NULL;
	fault->returned.head = NULL;
	env_rng_seed(&rng, env_rng_u64(&fault->rng));
	env_mutex_unlock(&fault->lock);

	settle_writes(fault, &rng);
	settle_caught(fault, &caught, &rng);
	fail_all(&returned);

	env_mutex_lock(&fault->lock);
	fault->power = POWER_OFF;
	env_mutex_unlock(&fault->lock);
	env_waitq_wake(&fault->power_wait);
	env_mutex_lock(&fault->lock);
}

/* ---- life ---- */

int blkdev_fault_write_cache(struct block_device *bdev)
{
	struct fault_device *fault = fault_of(bdev);
	int err = fault_thread_start(fault);

	if (err || fault->write_cache)
		return err;
	fault->settled_size = (size_t)(bdev->size / bdev->logical_block / 8 + 1);
	fault->settled = env_sparse_map(fault->settled_size);
	if (!fault->settled)
		return -ENOMEM;
	fault->write_cache = true;
	return 0;
}

void fault_power_uninit(struct fault_device *fault)
{
	assert(fault->nr_in_flight == 0);

	forget_durable(fault, UINT64_MAX);
	if (fault->settled)
		env_sparse_unmap(fault->settled, fault->settled_size);
}

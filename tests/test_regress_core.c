/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_regress_core.c - windows between threads that were open once
 *
 * Each test stops a thread at a chosen place, lets another one do all it can, and looks.  The
 * places are calls of the host: a world that wraps the host calls the test's at_*() functions.
 * Time decides nothing; all waits end, so that a failure shows.
 */
#include <iomap/backing_dev.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "env/lockdep.h"
#include "tests/flat.h"
#include "tests/world.h"

/* ---- a world with places to stop at ------------------------------------------------- */

typedef void (*place_fn)(const void *object);

/* In the thread that makes the call, before it or after it.  NULL: nothing.  [a] */
static place_fn at_lock; /* before a mutex is taken */
static place_fn at_unlock; /* after it is given back */
static place_fn at_wait; /* before a thread sleeps on a word */
static place_fn at_wake; /* after the sleepers on it are woken */

static const char *watched_name;
static const void *watched; /* [a] the lock of that name */
static uint64_t clock_offset_ns; /* [a] */

static __thread const char *thread_name = "main";
static __thread bool is_subject; /* this thread shall be stopped or observed */
static __thread unsigned int nr_held; /* mutexes */
static __thread bool in_place;

static void pass(place_fn *place, const void *object)
{
	place_fn fn = __atomic_load_n(place, __ATOMIC_ACQUIRE);

	if (!fn || in_place)
		return;
	in_place = true;
	fn(object);
	in_place = false;
}

static void stop_at(place_fn *place, place_fn fn)
{
	__atomic_store_n(place, fn, __ATOMIC_RELEASE);
}

static void note_lock(const void *lock, const char *name)
{
	env_lockdep_world.lock_init(lock, name);
	if (watched_name && strcmp(name, watched_name) == 0)
		__atomic_store_n(&watched, lock, __ATOMIC_RELEASE);
	else if (__atomic_load_n(&watched, __ATOMIC_ACQUIRE) == lock)
		__atomic_store_n(&watched, NULL, __ATOMIC_RELEASE);
}

static bool is_watched(const void *lock)
{
	return lock == __atomic_load_n(&watched, __ATOMIC_ACQUIRE);
}

static void lock_mutex(struct env_mutex *mutex)
{
	pass(&at_lock, mutex);
	env_lockdep_world.mutex_lock(mutex);
	nr_held++;
}

static bool trylock_mutex(struct env_mutex *mutex)
{
	bool taken = env_lockdep_world.mutex_trylock(mutex);

	nr_held += taken;
	return taken;
}

static void unlock_mutex(struct env_mutex *mutex)
{
	nr_held--;
	env_lockdep_world.mutex_unlock(mutex);
	pass(&at_unlock, mutex);
}

static bool wait_on_word(const uint32_t *addr, uint32_t expected, uint64_t timeout_ns)
{
	pass(&at_wait, addr);
	/* A wake-up that came meanwhile has changed the word. */
	return env_lockdep_world.futex_wait(addr, expected, timeout_ns);
}

static void wake_on_word(const uint32_t *addr, unsigned int nr)
{
	env_lockdep_world.futex_wake(addr, nr);
	pass(&at_wake, addr);
}

static uint64_t read_clock(void)
{
	return env_lockdep_world.clock_ns() + __atomic_load_n(&clock_offset_ns, __ATOMIC_RELAXED);
}

struct start {
	const char *name;
	void (*fn)(void *arg);
	void *arg;
};

static void named_thread(void *arg)
{
	struct start start = *(struct start *)arg;

	free(arg);
	thread_name = start.name;
	start.fn(start.arg);
}

static int create_thread(struct env_thread **thread, const char *name, void (*fn)(void *arg),
			 void *arg)
{
	struct start *start = malloc(sizeof(*start));

	*start = (struct start){name, fn, arg};
	return env_lockdep_world.thread_create(thread, name, named_thread, start);
}

static struct env_world stops;

static void enter_world(void)
{
	stops = env_lockdep_world;
	stops.thread_create = create_thread;
	stops.lock_init = note_lock;
	stops.mutex_lock = lock_mutex;
	stops.mutex_trylock = trylock_mutex;
	stops.mutex_unlock = unlock_mutex;
	stops.futex_wait = wait_on_word;
	stops.futex_wake = wake_on_word;
	stops.clock_ns = read_clock;
	env_world = &stops;
}

TestSuite(regress_core, .init = enter_world);

static void flag_set(bool *flag)
{
	__atomic_store_n(flag, true, __ATOMIC_RELEASE);
}

static bool flag_is_set(const bool *flag)
{
	return __atomic_load_n(flag, __ATOMIC_ACQUIRE);
}

#define await_looks(looks, condition)                                                              \
	({                                                                                         \
		unsigned int looks_left_ = looks;                                                  \
		while (!(condition) && --looks_left_)                                              \
			env_sleep_ns(200000);                                                      \
		looks_left_ > 0;                                                                   \
	})

/* Wait for the condition, some ten seconds at most; says whether it holds. */
#define await(condition) await_looks(50000, condition)
/* The same for a thread that is stopped: it outlasts who looks at what happens meanwhile. */
#define await_long(condition) await_looks(200000, condition)

/* The subject is about to sleep: whatever it waits for, it did not end. */
static bool subject_sleeps;

static void note_sleep(const void *word)
{
	(void)word;
	if (is_subject)
		flag_set(&subject_sleeps);
}

/* ---- the file system below ---------------------------------------------------------- */

static struct flat flat;

static struct {
	uint64_t last_ino; /* [a] */
	uint32_t nr; /* [a] */
	void (*then)(struct inode *inode); /* called last */
} metadata; /* what write_inode() was asked for */

static int note_write_inode(struct inode *inode, struct writeback_control *wbc)
{
	(void)wbc;
	__atomic_store_n(&metadata.last_ino, inode->i_ino, __ATOMIC_RELAXED);
	__atomic_fetch_add(&metadata.nr, 1, __ATOMIC_RELEASE);
	if (metadata.then)
		metadata.then(inode);
	return 0;
}

static uint32_t nr_metadata(void)
{
	return __atomic_load_n(&metadata.nr, __ATOMIC_ACQUIRE);
}

static uint64_t last_metadata(void)
{
	return __atomic_load_n(&metadata.last_ino, __ATOMIC_RELAXED);
}

static const struct super_operations super_ops = {.write_inode = note_write_inode};

static void config_init(struct flat_config *config)
{
	flat_config_init(config);
	config->super_ops = &super_ops;
}

static void open_flat(void)
{
	struct flat_config config;

	config_init(&config);
	flat_open(&flat, &config);
}

static void open_periodic(void)
{
	struct flat_config config;

	config_init(&config);
	config.cache.writeback_interval_ns = 1000000;
	config.cache.dirty_expire_ns = 1000000;
	flat_open(&flat, &config);
}

static bool page_is_written(struct flat_file *file, uint64_t index)
{
	return __atomic_load_n(&file->written[index], __ATOMIC_ACQUIRE);
}

static uint64_t nr_listed(void)
{
	return flat_wb_stats(&flat, 0).nr_dirty_inodes;
}

/* ---- a sync finds what others are marking (K5) -------------------------------------- */

static struct {
	struct flat_file *file;
	unsigned int flags;
	unsigned int locks_left; /* until the other thread gets its turn */
	bool ran;
	bool found; /* the other thread's sync wrote what that thread had marked */
} marking;

/* Mark the same inode in the same way, sync, and see that it was written. */
static void mark_and_sync(void *arg)
{
	uint32_t before = nr_metadata();

	(void)arg;
	if (marking.flags & I_DIRTY_PAGES)
		flat_dirty_page(marking.file, 3, 1);
	else
		inode_mark_dirty(&marking.file->inode, marking.flags);
	super_sync(&flat.sb);
	if (marking.flags & I_DIRTY_PAGES)
		marking.found = page_is_written(marking.file, 3);
	else
		marking.found = nr_metadata() > before;
}

/* The subject marks an inode and holds no lock: the other thread comes in between. */
static void let_other_mark(const void *lock)
{
	struct flat_thread other;

	(void)lock;
	if (!is_subject || nr_held || marking.ran || marking.locks_left--)
		return;
	marking.ran = true;
	flat_thread_start(&other, mark_and_sync, NULL);
	flat_thread_join(&other);
}

/* False if marking takes no more than nr locks. */
static bool mark_with_other_at(unsigned int flags, unsigned int nr)
{
	memset(&marking, 0, sizeof(marking));
	marking.file = flat_create(&flat, 1);
	marking.flags = flags;
	marking.locks_left = nr;
	is_subject = true;
	inode_mark_dirty(&marking.file->inode, flags);
	is_subject = false;
	cr_assert(!marking.ran || marking.found, "flags %x, lock %u", flags, nr);
	flat_remove(marking.file);
	return marking.ran;
}

Test(regress_core, a_sync_finds_what_another_thread_is_marking)
{
	static const unsigned int kinds[] = {
		I_DIRTY_SYNC,
		I_DIRTY_DATASYNC,
		I_DIRTY_PAGES,
		I_DIRTY_TIME,
	};

	open_flat();
	stop_at(&at_lock, let_other_mark);
	for (unsigned int i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		unsigned int nr = 0;

		while (mark_with_other_at(kinds[i], nr))
			nr++;
		cr_assert_gt(nr, 1); /* it stopped before the list's lock, too */
	}
	stop_at(&at_lock, NULL);
	flat_close(&flat);
}

static struct flat_thread syncing;
static bool pass_started;

static void note_pass(struct flat_file *file, struct writeback_control *wbc)
{
	(void)file;
	(void)wbc;
	flag_set(&pass_started);
}

/* The subject has dirtied a page, whose lock it holds, and comes to the list. */
static void let_other_sync(const void *lock)
{
	if (!is_subject || !is_watched(lock) || marking.ran)
		return;
	marking.ran = true;
	flat_thread_start(&syncing, mark_and_sync, NULL);
	/* The sync comes to the page's lock, or it has passed by. */
	marking.found = await(flat_thread_is_done(&syncing) || flag_is_set(&pass_started));
}

Test(regress_core, a_sync_finds_the_file_of_a_write_in_progress)
{
	watched_name = "wb->list_lock";
	open_flat();
	flat.on_writepages = note_pass;
	marking.file = flat_create(&flat, 1);
	marking.flags = I_DIRTY_PAGES;
	stop_at(&at_lock, let_other_sync);
	is_subject = true;
	flat_dirty_page(marking.file, 0, 1);
	is_subject = false;
	cr_assert(marking.ran);
	flat_thread_join(&syncing);
	stop_at(&at_lock, NULL);
	cr_assert(marking.found);
	cr_assert(page_is_written(marking.file, 3));
	flat_remove(marking.file);
	flat_close(&flat);
}

/* ---- a sync asked for in the middle of a slice (K8, K14) ---------------------------- */

static struct {
	struct flat_file *file, *younger;
	bool redirtied; /* what the sync has to write is dirty */
	bool queued; /* the sync is */
	bool in_time; /* .. before the slice ended */
} slice;

static void note_queued(const void *lock)
{
	if (is_subject && is_watched(lock))
		flag_set(&slice.queued);
}

/* The slice goes on when the sync is queued. */
static void let_sync_be_queued(void)
{
	flag_set(&slice.redirtied);
	slice.in_time = await(flag_is_set(&slice.queued));
}

static int redirty_first_page(struct flat_file *file, struct folio *folio)
{
	if (file != slice.file || folio->index != 1 || flag_is_set(&slice.redirtied))
		return 0;
	flat_dirty_page(file, 0, 2);
	if (slice.younger)
		flat_dirty_page(slice.younger, 0, 2);
	let_sync_be_queued();
	return 0;
}

static void redirty_inode(struct inode *inode)
{
	if (inode != &slice.file->inode || flag_is_set(&slice.redirtied))
		return;
	inode_mark_dirty(inode, I_DIRTY_SYNC);
	let_sync_be_queued();
}

static void sync_when_redirtied(void)
{
	cr_assert(await(flag_is_set(&slice.redirtied)));
	is_subject = true;
	super_sync(&flat.sb);
	is_subject = false;
	cr_assert(slice.in_time);
	stop_at(&at_unlock, NULL);
}

static void prepare_slice(void (*open)(void))
{
	watched_name = "wb->work_lock";
	open();
	slice.file = flat_create(&flat, 1);
	stop_at(&at_unlock, note_queued);
}

Test(regress_core, a_sync_queued_during_a_started_writeback_writes_its_inode)
{
	prepare_slice(open_flat);
	flat.on_write_folio = redirty_first_page;
	flat_dirty_pages(slice.file, 0, 2, 1);
	bdi_start_writeback(flat.bdi, INT64_MAX);
	sync_when_redirtied();
	cr_assert_eq(flat_stats(&flat).nr_dirty, 0);
	cr_assert_eq(nr_listed(), 0);
	flat_remove(slice.file);
	flat_close(&flat);
}

Test(regress_core, a_sync_queued_during_a_periodic_slice_writes_its_inode)
{
	prepare_slice(open_periodic);
	slice.younger = flat_create(&flat, 2);
	flat.on_write_folio = redirty_first_page;
	flat_dirty_pages(slice.file, 0, 2, 1);
	sync_when_redirtied();
	cr_assert_eq(flat_stats(&flat).nr_dirty, 0);
	flat_remove(slice.younger);
	flat_remove(slice.file);
	flat_close(&flat);
}

Test(regress_core, a_sync_queued_during_a_slice_writes_the_metadata_marked_in_it)
{
	prepare_slice(open_flat);
	metadata.then = redirty_inode;
	inode_mark_dirty(&slice.file->inode, I_DIRTY_SYNC);
	bdi_start_writeback(flat.bdi, INT64_MAX);
	sync_when_redirtied();
	cr_assert_eq(nr_metadata(), 2);
	cr_assert_eq(nr_listed(), 0);
	flat_remove(slice.file);
	flat_close(&flat);
}

/* ---- figures right after a sync (M118) ---------------------------------------------- */

Test(regress_core, nothing_is_dirty_or_in_flight_after_any_sync)
{
	struct flat_config config;
	struct flat_file *files[8];

	config_init(&config);
	config.nr_contexts = 4;
	config.workers = 2;
	flat_open(&flat, &config);
	for (unsigned int i = 0; i < 8; i++)
		files[i] = flat_create(&flat, i + 1);
	for (unsigned int round = 0; round < 200; round++) {
		struct page_cache_stats stats;

		for (unsigned int i = 0; i < 8; i++)
			flat_dirty_pages(files[i], (round + i) % 16, 1 + i % 2, 1);
		cr_assert_eq(super_sync(&flat.sb), 0);
		stats = flat_stats(&flat);
		cr_assert_eq(stats.nr_dirty, 0, "round %u", round);
		cr_assert_eq(stats.nr_writeback, 0, "round %u", round);
		for (unsigned int i = 0; i < 4; i++) {
			cr_assert_eq(flat_wb_stats(&flat, i).reclaimable, 0);
			cr_assert_eq(flat_wb_stats(&flat, i).writeback, 0);
		}
	}
	for (unsigned int i = 0; i < 8; i++)
		flat_remove(files[i]);
	flat_close(&flat);
}

/* A thread that is stopped in the middle of something. */
static struct {
	const void *lock; /* .. after it gave this lock back; NULL: after it woke somebody */
	const char *name; /* .. if it has this name */
	bool is_armed, is_there, may_go;
} parked;

static void park(void)
{
	if (!flag_is_set(&parked.is_armed) || strcmp(thread_name, parked.name) != 0 ||
	    flag_is_set(&parked.is_there))
		return;
	flag_set(&parked.is_there);
	(void)await_long(flag_is_set(&parked.may_go));
}

static void park_after_unlock(const void *lock)
{
	if (lock == parked.lock)
		park();
}

static void park_after_wake(const void *word)
{
	(void)word;
	park();
}

static void open_with_device_thread(void)
{
	struct flat_config config;

	config_init(&config);
	config.workers = 1;
	flat_open(&flat, &config);
}

static void sync_file_system(void *arg)
{
	super_sync(arg);
}

/* The device's thread takes the inode off the list of those with I/O, and is stopped. */
Test(regress_core, figures_are_right_before_a_sync_can_see_the_end_of_io)
{
	struct flat_thread other;
	struct flat_file *file;

	open_with_device_thread();
	file = flat_create(&flat, 1);
	parked.lock = &flat.sb.s_wb_lock;
	parked.name = "ram";
	flat_hold(&flat, BIO_WRITE);
	flat_dirty_page(file, 0, 1);
	bdi_start_writeback(flat.bdi, INT64_MAX);
	cr_assert(await(nr_listed() == 0));
	flag_set(&parked.is_armed);
	stop_at(&at_unlock, park_after_unlock);
	flat_release(&flat);
	cr_assert(await(flag_is_set(&parked.is_there)));
	flat_thread_start(&other, sync_file_system, &flat.sb);
	cr_assert(await(flat_thread_is_done(&other)));
	cr_assert_eq(flat_stats(&flat).nr_writeback, 0);
	cr_assert_eq(flat_wb_stats(&flat, 0).writeback, 0);
	cr_assert_eq(flat_wb_stats(&flat, 0).written, 1);
	flag_set(&parked.may_go);
	flat_thread_join(&other);
	flat_remove(file);
	flat_close(&flat);
}

/* ---- nobody uses a context after its last completion (W26, W44) --------------------- */

/* All but what a device's thread on its way out may use: the device and the cache. */
static void close_under_parked(struct super_block *sb)
{
	super_shutdown(sb);
	free(sb);
	super_shutdown(&flat.sb);
	bdi_destroy(flat.bdi);
	flag_set(&parked.may_go);
	blkdev_destroy(flat.dev);
	page_cache_destroy(flat.cache);
}

/* On the heap, so that a late use of it shows. */
static struct super_block *create_super(void)
{
	struct super_block *sb = malloc(sizeof(*sb));

	cr_assert(sb);
	cr_assert_eq(super_init(sb, flat.cache, flat.bdi, PAGE, &super_ops), 0);
	return sb;
}

Test(regress_core, all_may_go_once_the_folio_is_not_under_writeback)
{
	struct super_block *sb;
	struct flat_file *file;

	open_with_device_thread();
	sb = create_super();
	file = flat_create_on(&flat, sb, 1);
	parked.lock = &flat_mapping(file)->lock;
	parked.name = "ram";
	flat_hold(&flat, BIO_WRITE);
	flat_dirty_page(file, 0, 1);
	bdi_start_writeback(flat.bdi, INT64_MAX);
	cr_assert(await(nr_listed() == 0));
	flag_set(&parked.is_armed);
	stop_at(&at_unlock, park_after_unlock);
	flat_release(&flat);
	cr_assert(await(flag_is_set(&parked.is_there)));
	cr_assert_eq(flat_fsync(file), 0);
	flat_remove(file);
	close_under_parked(sb);
}

static void fsync_as_subject(void *file)
{
	is_subject = true;
	flat_fsync(file);
}

Test(regress_core, all_may_go_once_who_waited_for_the_folio_is_awake)
{
	struct flat_thread other;
	struct super_block *sb;
	struct flat_file *file;

	open_with_device_thread();
	sb = create_super();
	file = flat_create_on(&flat, sb, 1);
	parked.name = "ram";
	stop_at(&at_wait, note_sleep);
	stop_at(&at_wake, park_after_wake);
	flat_hold(&flat, BIO_WRITE);
	flat_dirty_page(file, 0, 1);
	flat_thread_start(&other, fsync_as_subject, file);
	cr_assert(await(flag_is_set(&subject_sleeps)));
	flag_set(&parked.is_armed);
	flat_release(&flat);
	cr_assert(await(flag_is_set(&parked.is_there)));
	cr_assert(await(flat_thread_is_done(&other)));
	flat_thread_join(&other);
	flat_remove(file);
	close_under_parked(sb);
}

static struct {
	struct wb_completion work;
	bool done;
} completion;

static void completion_done(struct wb_completion *work)
{
	(void)work;
	flag_set(&completion.done);
}

static void queue_completion(void *inode)
{
	is_subject = true;
	wb_queue_completion(inode, &completion.work);
}

static bool completer_sleeps;

static void note_completer_sleep(const void *word)
{
	(void)word;
	if (strcmp(thread_name, "wb-done") == 0)
		flag_set(&completer_sleeps);
}

static void park_subject_after_queueing(const void *lock)
{
	if (is_subject && is_watched(lock))
		park();
}

/* So whoever queues a completion has woken its thread before that thread can take it. */
Test(regress_core, all_may_go_once_a_completion_has_run)
{
	struct flat_thread other;
	struct super_block *sb;
	struct flat_file *file;

	watched_name = "wb->completion_lock";
	stop_at(&at_wait, note_completer_sleep);
	stop_at(&at_unlock, park_subject_after_queueing);
	open_flat();
	sb = create_super();
	file = flat_create_on(&flat, sb, 1);
	inode_mark_dirty(&file->inode, I_DIRTY_SYNC);
	parked.name = "test";
	flag_set(&parked.is_armed);
	completion.work.fn = completion_done;
	cr_assert(await(flag_is_set(&completer_sleeps)));
	flat_thread_start(&other, queue_completion, &file->inode);
	cr_assert(await(flag_is_set(&parked.is_there)));
	cr_assert(await(flag_is_set(&completion.done)));
	flat_remove(file);
	close_under_parked(sb);
	flat_thread_join(&other);
}

/* ---- eviction waits for the flusher to leave (K10) ---------------------------------- */

static struct {
	struct flat_file *file;
	bool pass_started, evicting, at_end, came_to_list, evicted, went_early;
} eviction;

static void stop_in_pass(struct flat_file *file, struct writeback_control *wbc)
{
	(void)wbc;
	if (file != eviction.file)
		return;
	flag_set(&eviction.pass_started);
	(void)await(flag_is_set(&eviction.evicting));
}

/* The flusher has cleared I_SYNC, and wakes the evicting thread next. */
static bool flusher_is_at_end(const void *lock)
{
	const struct inode *inode = &eviction.file->inode;

	return strcmp(thread_name, "flush") == 0 && flag_is_set(&eviction.evicting) &&
	       !flag_is_set(&eviction.at_end) && lock == &inode->i_lock &&
	       !(__atomic_load_n(&inode->i_state, __ATOMIC_ACQUIRE) & I_SYNC);
}

/*
 * The evicting thread has left the list and looks for I_SYNC when it is just cleared; the
 * flusher goes on when the other comes back to the list's lock, or has come through.
 */
static void stop_both(const void *lock)
{
	if (is_subject && is_watched(lock) && !flag_is_set(&eviction.evicting)) {
		flag_set(&eviction.evicting);
		(void)await(flag_is_set(&eviction.at_end));
	} else if (flusher_is_at_end(lock)) {
		flag_set(&eviction.at_end);
		(void)await(flag_is_set(&eviction.came_to_list) || flag_is_set(&eviction.evicted));
		if (!flag_is_set(&eviction.came_to_list))
			flag_set(&eviction.went_early);
	}
}

static void note_list_lock(const void *lock)
{
	if (is_subject && is_watched(lock) && flag_is_set(&eviction.at_end))
		flag_set(&eviction.came_to_list);
}

Test(regress_core, an_inode_is_not_gone_before_the_flusher_has_left)
{
	struct super_block *sb;

	watched_name = "wb->list_lock";
	open_flat();
	sb = create_super();
	eviction.file = flat_create_on(&flat, sb, 1);
	flat.on_writepages = stop_in_pass;
	flat_dirty_page(eviction.file, 0, 1);
	stop_at(&at_unlock, stop_both);
	stop_at(&at_lock, note_list_lock);
	bdi_start_writeback(flat.bdi, INT64_MAX);
	cr_assert(await(flag_is_set(&eviction.pass_started)));
	file_release(&eviction.file->file);
	is_subject = true;
	inode_evict(&eviction.file->inode);
	is_subject = false;
	super_shutdown(sb);
	free(sb);
	free(eviction.file);
	flag_set(&eviction.evicted);
	cr_assert(flag_is_set(&eviction.came_to_list));
	cr_assert_not(flag_is_set(&eviction.went_early));
	stop_at(&at_unlock, NULL);
	flat_close(&flat);
}

Test(regress_core, a_super_block_may_go_right_after_its_last_inode)
{
	open_flat();
	for (unsigned int round = 0; round < 300; round++) {
		struct super_block *sb = create_super();
		struct flat_file *file = flat_create_on(&flat, sb, 1);
		uint64_t slices = flat_wb_stats(&flat, 0).slices;

		flat_dirty_page(file, 0, 1);
		inode_mark_dirty(&file->inode, I_DIRTY_SYNC);
		bdi_start_writeback(flat.bdi, INT64_MAX);
		/* In every third round the slice is at its end, else anywhere. */
		if (round % 3 == 0)
			cr_assert(await(flat_wb_stats(&flat, 0).slices > slices));
		flat_remove(file);
		super_shutdown(sb);
		memset(sb, 0xff, sizeof(*sb));
		free(sb);
	}
	flat_close(&flat);
}

/* ---- memory in use by others is waited for (M108) ----------------------------------- */

#define SMALL_CACHE (2 * MiB)

static struct {
	struct flat_file *reading, *other;
	bool writes;
	ssize_t big, small;
} memory;

static void open_small(uint32_t readahead)
{
	struct flat_config config;

	config_init(&config);
	config.cache.capacity = SMALL_CACHE;
	config.cache.readahead_bytes = readahead;
	config.workers = 1;
	flat_open(&flat, &config);
	memory.reading = flat_create(&flat, 1);
	memory.other = flat_create(&flat, 2);
	inode_size_write(&memory.reading->inode, 2 * SMALL_CACHE);
	inode_size_write(&memory.other->inode, SMALL_CACHE);
}

static void close_small(void)
{
	flat_remove(memory.other);
	flat_remove(memory.reading);
	flat_close(&flat);
}

static bool big_reader_sleeps;

static void note_sleeps(const void *word)
{
	(void)word;
	if (strcmp(thread_name, "test") != 0)
		return;
	flag_set(is_subject ? &subject_sleeps : &big_reader_sleeps);
}

static void read_big(void *arg)
{
	void *bytes = malloc(SMALL_CACHE);

	(void)arg;
	memory.big = flat_read(memory.reading, bytes, SMALL_CACHE, 0);
	free(bytes);
}

static void use_one_page(void *arg)
{
	unsigned char bytes[PAGE] = {1};

	(void)arg;
	is_subject = true;
	if (memory.writes)
		memory.small = flat_write(memory.other, bytes, PAGE, 0);
	else
		memory.small = flat_read(memory.other, bytes, PAGE, 0);
}

static void use_memory_locked_by_a_read(bool writes)
{
	struct flat_thread big, small;

	memory.writes = writes;
	open_small(SMALL_CACHE);
	memory.reading->file.f_flags = FILE_RANDOM;
	memory.other->file.f_flags = FILE_RANDOM;
	stop_at(&at_wait, note_sleeps);
	flat_hold(&flat, BIO_READ);
	flat_thread_start(&big, read_big, NULL);
	cr_assert(await(flag_is_set(&big_reader_sleeps)));
	cr_assert_eq(flat_stats(&flat).nr_free, 0);
	flat_thread_start(&small, use_one_page, NULL);
	cr_assert(await(flag_is_set(&subject_sleeps) || flat_thread_is_done(&small)));
	flat_release(&flat);
	flat_thread_join(&small);
	flat_thread_join(&big);
	cr_assert_eq(memory.small, (ssize_t)PAGE);
	cr_assert_eq(memory.big, (ssize_t)SMALL_CACHE);
	close_small();
}

Test(regress_core, a_read_waits_for_memory_that_another_read_has_locked)
{
	use_memory_locked_by_a_read(false);
}

Test(regress_core, a_write_waits_for_memory_that_a_read_has_locked)
{
	use_memory_locked_by_a_read(true);
}

Test(regress_core, a_read_waits_for_memory_that_is_only_referenced)
{
	static struct folio *folios[SMALL_CACHE / PAGE];
	struct flat_thread small;

	open_small(SMALL_CACHE);
	memory.other->file.f_flags = FILE_RANDOM;
	for (uint64_t i = 0; i < SMALL_CACHE / PAGE; i++)
		cr_assert_eq(
			filemap_get_folio(flat_mapping(memory.reading), i, FGP_CREAT, &folios[i]),
			0);
	cr_assert_eq(flat_stats(&flat).nr_free, 0);
	stop_at(&at_wait, note_sleeps);
	flat_thread_start(&small, use_one_page, NULL);
	cr_assert(await(flag_is_set(&subject_sleeps) || flat_thread_is_done(&small)));
	for (uint64_t i = 0; i < SMALL_CACHE / PAGE; i++)
		folio_put(folios[i]);
	flat_thread_join(&small);
	cr_assert_eq(memory.small, (ssize_t)PAGE);
	close_small();
}

Test(regress_core, a_large_random_read_locks_no_more_than_a_window)
{
	const uint64_t window = 16 * PAGE;
	struct flat_thread big;

	open_small((uint32_t)window);
	memory.reading->file.f_flags = FILE_RANDOM;
	stop_at(&at_wait, note_sleeps);
	flat_hold(&flat, BIO_READ);
	flat_thread_start(&big, read_big, NULL);
	cr_assert(await(flag_is_set(&big_reader_sleeps)));
	cr_assert_leq(flat_stats(&flat).nr_cached, window / PAGE);
	flat_release(&flat);
	flat_thread_join(&big);
	cr_assert_eq(memory.big, (ssize_t)SMALL_CACHE);
	close_small();
}

/* ---- a sync without memory (N23) ---------------------------------------------------- */

static void sync_without(unsigned int nr_allocations)
{
	struct flat_config config;
	struct flat_file *files[8];
	errseq_t seen = 0;
	int err;

	config_init(&config);
	config.nr_contexts = 4;
	flat_open(&flat, &config);
	for (unsigned int i = 0; i < 8; i++) {
		files[i] = flat_create(&flat, i + 1);
		flat_dirty_pages(files[i], 0, 3, 1);
		inode_mark_dirty(&files[i]->inode, I_DIRTY_SYNC);
	}
	env_alloc_fail(0, nr_allocations);
	err = super_syncfs(&flat.sb, &seen);
	cr_assert_gt(env_alloc_fail(0, 0), 0);
	cr_assert_eq(err, 0);
	cr_assert_eq(flat_stats(&flat).nr_dirty, 0);
	cr_assert_eq(nr_metadata(), 8);
	for (unsigned int i = 0; i < 8; i++)
		for (uint64_t page = 0; page < 3; page++)
			cr_assert(page_is_written(files[i], page));
	for (unsigned int i = 0; i < 8; i++)
		flat_remove(files[i]);
	flat_close(&flat);
}

Test(regress_core, a_sync_needs_no_memory_of_its_own)
{
	sync_without(1);
}

Test(regress_core, a_sync_works_while_all_allocations_fail)
{
	sync_without(1000000);
}

/* ---- lazy timestamps (K12) ---------------------------------------------------------- */

static bool state_has(struct flat_file *file, unsigned int flags)
{
	return __atomic_load_n(&file->inode.i_state, __ATOMIC_ACQUIRE) & flags;
}

Test(regress_core, lazy_timestamps_wait_for_a_sync)
{
	struct flat_file *lazy, *busy;

	open_flat();
	lazy = flat_create(&flat, 1);
	busy = flat_create(&flat, 2);
	inode_mark_dirty(&lazy->inode, I_DIRTY_TIME);
	inode_mark_dirty(&busy->inode, I_DIRTY_SYNC);
	bdi_start_writeback(flat.bdi, INT64_MAX);
	cr_assert(await(nr_listed() == 1));
	cr_assert_eq(nr_metadata(), 1);
	cr_assert_eq(last_metadata(), 2);
	cr_assert(state_has(lazy, I_DIRTY_TIME));
	super_sync(&flat.sb);
	cr_assert_eq(nr_metadata(), 2);
	cr_assert_eq(last_metadata(), 1);
	cr_assert_not(state_has(lazy, I_DIRTY_TIME));
	cr_assert_eq(nr_listed(), 0);
	flat_remove(busy);
	flat_remove(lazy);
	flat_close(&flat);
}

static void sync_by_sync(void)
{
	super_sync(&flat.sb);
}

static void sync_by_start(void)
{
	bdi_start_writeback(flat.bdi, INT64_MAX);
}

static void sync_by_waiting(void)
{
}

/* Lazy at first, then dirty in another way: it must be found by any kind of writeback. */
static void lazy_then(void (*open)(void), void (*sync)(void))
{
	static const unsigned int kinds[] = {I_DIRTY_SYNC, I_DIRTY_DATASYNC, I_DIRTY_PAGES};

	open();
	for (unsigned int i = 0; i < 3; i++) {
		struct flat_file *file = flat_create(&flat, 1);
		uint32_t before = nr_metadata();

		inode_mark_dirty(&file->inode, I_DIRTY_TIME);
		if (kinds[i] == I_DIRTY_PAGES)
			flat_dirty_page(file, 0, 1);
		else
			inode_mark_dirty(&file->inode, kinds[i]);
		sync();
		/* Timestamps go along with whatever is written. */
		cr_assert(await(!state_has(file, I_DIRTY | I_DIRTY_TIME | I_SYNC)), "%x", kinds[i]);
		cr_assert_eq(nr_metadata(), before + 1);
		flat_remove(file);
	}
	flat_close(&flat);
}

Test(regress_core, a_lazy_inode_dirtied_later_is_written_by_a_sync)
{
	lazy_then(open_flat, sync_by_sync);
}

Test(regress_core, a_lazy_inode_dirtied_later_is_written_when_asked_for)
{
	lazy_then(open_flat, sync_by_start);
}

Test(regress_core, a_lazy_inode_dirtied_later_is_written_by_periodic_writeback)
{
	lazy_then(open_periodic, sync_by_waiting);
}

/* Nothing else happens; only the clock moves. */
Test(regress_core, lazy_timestamps_are_written_after_half_a_day)
{
	const uint64_t hour = 3600ull * 1000000000;
	struct flat_file *lazy, *busy;

	open_periodic();
	lazy = flat_create(&flat, 1);
	busy = flat_create(&flat, 2);
	inode_mark_dirty(&lazy->inode, I_DIRTY_TIME);
	for (unsigned int i = 0; i < 2; i++) {
		uint32_t before = nr_metadata();

		inode_mark_dirty(&busy->inode, I_DIRTY_SYNC);
		cr_assert(await(nr_metadata() > before));
		cr_assert_eq(last_metadata(), 2);
		__atomic_store_n(&clock_offset_ns, 11 * hour, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&clock_offset_ns, 13 * hour, __ATOMIC_RELAXED);
	cr_assert(await(nr_metadata() == 3));
	cr_assert_eq(last_metadata(), 1);
	cr_assert(await(nr_listed() == 0));
	flat_remove(busy);
	flat_remove(lazy);
	flat_close(&flat);
}

static bool touched;

static void touch_once(struct inode *inode)
{
	if (flag_is_set(&touched))
		return;
	inode_mark_dirty(inode, I_DIRTY_TIME);
	flag_set(&touched);
}

Test(regress_core, timestamps_touched_while_the_inode_is_written_are_written_by_the_next_sync)
{
	struct flat_file *file;

	open_flat();
	file = flat_create(&flat, 1);
	metadata.then = touch_once;
	inode_mark_dirty(&file->inode, I_DIRTY_SYNC);
	bdi_start_writeback(flat.bdi, INT64_MAX);
	cr_assert(await(flag_is_set(&touched) && !state_has(file, I_SYNC)));
	cr_assert_eq(nr_listed(), 1);
	super_sync(&flat.sb);
	cr_assert_eq(nr_metadata(), 2);
	cr_assert_eq(nr_listed(), 0);
	flat_remove(file);
	flat_close(&flat);
}

/* ---- NOWAIT does not wait, not even to clean up (D34) ------------------------------- */

static struct world world;
static ssize_t appended;

static void append_nowait(void *arg)
{
	static const unsigned char bytes[50] = {1};

	(void)arg;
	is_subject = true;
	appended = world_write_flags(world.file, inode_size_read(&world.file->inode), bytes,
				     sizeof(bytes), IOCB_NOWAIT);
}

static void append_to_locked_folio(uint64_t size, uint32_t block_size)
{
	struct world_config config = {.block_size = block_size};
	struct flat_thread other;
	struct folio *folio;

	subject_sleeps = false;
	world_open(&world, &config);
	world_fill(world.file, 0, size, 1);
	cr_assert_eq(filemap_get_folio(&world.file->inode.i_mapping, size / 4096, FGP_LOCK, &folio),
		     0);
	stop_at(&at_wait, note_sleep);
	flat_thread_start(&other, append_nowait, NULL);
	cr_assert(await(flat_thread_is_done(&other) || flag_is_set(&subject_sleeps)));
	folio_unlock_put(folio);
	flat_thread_join(&other);
	stop_at(&at_wait, NULL);
	cr_assert_not(flag_is_set(&subject_sleeps));
	cr_assert_eq(appended, -EAGAIN);
	cr_assert_eq(inode_size_read(&world.file->inode), size);
	cr_assert(world_reads_as(world.file, 0, size, 1));
	world_check(&world);
	world_close(&world);
}

Test(regress_core, a_nowait_append_does_not_wait_for_the_last_folio)
{
	append_to_locked_folio(100, 4096);
	append_to_locked_folio(5000, 4096);
	append_to_locked_folio(100, 1024);
}

Test(regress_core, a_nowait_write_leaves_writing_out_to_others)
{
	struct world_config config = {.block_size = 4096};
	static const unsigned char bytes[4096] = {1};

	world_open(&world, &config);
	world_fill(world.file, 0, 8192, 1);
	cr_assert_eq(world_fsync(world.file), 0);
	cr_assert_gt(world_io(&world).writes, 0);
	cr_assert_eq(world_write_flags(world.file, 0, bytes, 4096, IOCB_NOWAIT | IOCB_DONTCACHE),
		     4096);
	cr_assert_eq(world_io(&world).writes, 0);
	cr_assert_eq(world_write_flags(world.file, 0, bytes, 4096, IOCB_DONTCACHE), 4096);
	cr_assert_gt(world_io(&world).writes, 0);
	world_check(&world);
	world_close(&world);
}

/* ---- extra: lazy inode taken by a sync, dirtied in another way before its turn ------ */

static struct flat_file *taken;

static void dirty_taken(struct flat_file *file, struct writeback_control *wbc)
{
	(void)wbc;
	if (file != taken)
		inode_mark_dirty(&taken->inode, I_DIRTY_SYNC);
}

Test(regress_core, a_sync_writes_timestamps_of_an_inode_dirtied_before_its_turn)
{
	struct flat_file *first;

	open_flat();
	first = flat_create(&flat, 1);
	taken = flat_create(&flat, 2);
	flat.on_writepages = dirty_taken;
	flat_dirty_page(first, 0, 1);
	inode_mark_dirty(&taken->inode, I_DIRTY_TIME);
	super_sync(&flat.sb);
	cr_assert_eq(nr_metadata(), 1);
	cr_assert_eq(last_metadata(), 2);
	flat_remove(first);
	flat_remove(taken);
	flat_close(&flat);
}

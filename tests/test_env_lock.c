/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_env_lock.c - mutex and readers-writer lock
 */
#include <criterion/criterion.h>

#include <iomap/env.h>

#define NR_THREADS 4
#define NR_ROUNDS  5000

#define MSEC 1000000ull

static void run_threads(unsigned int nr, void (*fn)(void *arg), void *arg)
{
	struct env_thread *threads[NR_THREADS];

	for (unsigned int i = 0; i < nr; i++)
		cr_assert_eq(env_thread_create(&threads[i], "test", fn, arg), 0);
	for (unsigned int i = 0; i < nr; i++)
		env_thread_join(threads[i]);
}

static uint32_t load(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void store(uint32_t *word, uint32_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* ---- mutex ---- */

struct counted {
	struct env_mutex lock;
	struct env_rwsem sem;
	unsigned int a, b; /* plain: only a lock keeps them right, and equal */
};

static void mutex_count(void *arg)
{
	struct counted *counted = arg;

	for (unsigned int i = 0; i < NR_ROUNDS; i++) {
		env_mutex_lock(&counted->lock);
		counted->a++;
		env_mutex_unlock(&counted->lock);
	}
}

Test(env_mutex, excludes)
{
	struct counted counted = {0};

	env_mutex_init(&counted.lock, "counted");
	run_threads(NR_THREADS, mutex_count, &counted);
	cr_assert_eq(counted.a, NR_THREADS * NR_ROUNDS);
	cr_assert_not(env_mutex_is_locked(&counted.lock));
}

Test(env_mutex, trylock_fails_while_held)
{
	struct env_mutex lock;

	env_mutex_init(&lock, "lock");
	cr_assert(env_mutex_trylock(&lock));
	cr_assert(env_mutex_is_locked(&lock));
	cr_assert_not(env_mutex_trylock(&lock));
	env_mutex_unlock(&lock);
	cr_assert(env_mutex_trylock(&lock));
	env_mutex_unlock(&lock);
}

struct sleeper {
	struct env_mutex lock;
	uint32_t got;
};

static void sleep_for_mutex(void *arg)
{
	struct sleeper *sleeper = arg;

	env_mutex_lock(&sleeper->lock);
	store(&sleeper->got, 1);
	env_mutex_unlock(&sleeper->lock);
}

/* The waiter has gone to sleep when the word is 2. */
Test(env_mutex, wakes_a_sleeper, .timeout = 20)
{
	struct sleeper sleeper = {0};
	struct env_thread *thread;

	env_mutex_init(&sleeper.lock, "lock");
	env_mutex_lock(&sleeper.lock);
	cr_assert_eq(env_thread_create(&thread, "sleeper", sleep_for_mutex, &sleeper), 0);
	while (load(&sleeper.lock.word) != 2)
		env_sleep_ns(MSEC / 10);
	cr_assert_eq(load(&sleeper.got), 0);
	env_mutex_unlock(&sleeper.lock);
	env_thread_join(thread);
	cr_assert_eq(sleeper.got, 1);
}

/* ---- readers-writer lock ---- */

static void rwsem_mix(void *arg)
{
	struct counted *counted = arg;

	for (unsigned int i = 0; i < NR_ROUNDS; i++) {
		if (i % 8 == 0) {
			env_rwsem_write_lock(&counted->sem);
			counted->a++;
			counted->b++;
			env_rwsem_write_unlock(&counted->sem);
		} else {
			env_rwsem_read_lock(&counted->sem);
			cr_assert_eq(counted->a, counted->b);
			env_rwsem_read_unlock(&counted->sem);
		}
	}
}

Test(env_rwsem, excludes, .timeout = 60)
{
	struct counted counted = {0};

	env_rwsem_init(&counted.sem, "counted");
	run_threads(NR_THREADS, rwsem_mix, &counted);
	cr_assert_eq(counted.a, NR_THREADS * ((NR_ROUNDS + 7) / 8));
	for (unsigned int i = 0; i < ENV_RWSEM_SLOTS; i++)
		cr_assert_eq(counted.sem.slot[i].readers, 0);
	cr_assert_not(env_rwsem_is_write_locked(&counted.sem));
}

static void rwsem_try_mix(void *arg)
{
	struct counted *counted = arg;

	for (unsigned int i = 0; i < NR_ROUNDS; i++) {
		if (env_rwsem_write_trylock(&counted->sem)) {
			counted->a++;
			counted->b++;
			env_rwsem_write_unlock(&counted->sem);
		}
		if (env_rwsem_read_trylock(&counted->sem)) {
			cr_assert_eq(counted->a, counted->b);
			env_rwsem_read_unlock(&counted->sem);
		}
	}
}

Test(env_rwsem, tries_exclude, .timeout = 60)
{
	struct counted counted = {0};

	env_rwsem_init(&counted.sem, "counted");
	run_threads(NR_THREADS, rwsem_try_mix, &counted);
	cr_assert_eq(counted.a, counted.b);
	cr_assert(env_rwsem_write_trylock(&counted.sem));
	env_rwsem_write_unlock(&counted.sem);
}

Test(env_rwsem, readers_share)
{
	struct env_rwsem sem;

	env_rwsem_init(&sem, "sem");
	env_rwsem_read_lock(&sem);
	cr_assert(env_rwsem_read_trylock(&sem));
	cr_assert_not(env_rwsem_write_trylock(&sem));
	env_rwsem_read_unlock(&sem);
	env_rwsem_read_unlock(&sem);
	cr_assert(env_rwsem_write_trylock(&sem));
	cr_assert(env_rwsem_is_write_locked(&sem));
	cr_assert_not(env_rwsem_read_trylock(&sem));
	cr_assert_not(env_rwsem_write_trylock(&sem));
	env_rwsem_write_unlock(&sem);
}

struct queued {
	struct env_rwsem sem;
	uint32_t got;
};

static void queue_to_write(void *arg)
{
	struct queued *queued = arg;

	env_rwsem_write_lock(&queued->sem);
	store(&queued->got, 1);
	env_rwsem_write_unlock(&queued->sem);
}

static void queue_to_read(void *arg)
{
	struct queued *queued = arg;

	env_rwsem_read_lock(&queued->sem);
	store(&queued->got, 1);
	env_rwsem_read_unlock(&queued->sem);
}

/* Readers that keep coming cannot starve a writer: they stay out from when it waits. */
Test(env_rwsem, waiting_writer_keeps_readers_out, .timeout = 20)
{
	struct queued queued = {0};
	struct env_thread *writer;

	env_rwsem_init(&queued.sem, "sem");
	env_rwsem_read_lock(&queued.sem);
	cr_assert_eq(env_thread_create(&writer, "writer", queue_to_write, &queued), 0);
	while (!env_rwsem_is_write_locked(&queued.sem))
		env_sleep_ns(MSEC / 10);
	cr_assert_not(env_rwsem_read_trylock(&queued.sem));
	cr_assert_eq(load(&queued.got), 0);
	env_rwsem_read_unlock(&queued.sem);
	env_thread_join(writer);
	cr_assert_eq(queued.got, 1);
}

/* The reader has gone to sleep, or is about to, when `writer` is 2. */
Test(env_rwsem, writer_wakes_readers, .timeout = 20)
{
	struct queued queued = {0};
	struct env_thread *reader;

	env_rwsem_init(&queued.sem, "sem");
	env_rwsem_write_lock(&queued.sem);
	cr_assert_eq(env_thread_create(&reader, "reader", queue_to_read, &queued), 0);
	while (load(&queued.sem.writer) != 2)
		env_sleep_ns(MSEC / 10);
	cr_assert_eq(load(&queued.got), 0);
	env_rwsem_write_unlock(&queued.sem);
	env_thread_join(reader);
	cr_assert_eq(queued.got, 1);
}

struct storm {
	struct env_rwsem sem;
	uint32_t stop;
};

static void storm_read(void *arg)
{
	struct storm *storm = arg;

	while (!load(&storm->stop)) {
		env_rwsem_read_lock(&storm->sem);
		env_rwsem_read_unlock(&storm->sem);
	}
}

static void storm_write(void *arg)
{
	struct storm *storm = arg;

	while (!load(&storm->stop)) {
		env_rwsem_write_lock(&storm->sem);
		env_rwsem_write_unlock(&storm->sem);
	}
}

static void run_against(void (*others)(void *arg), void (*lock)(struct env_rwsem *sem),
			void (*unlock)(struct env_rwsem *sem))
{
	struct env_thread *threads[NR_THREADS];
	struct storm storm = {0};

	env_rwsem_init(&storm.sem, "sem");
	for (unsigned int i = 0; i < NR_THREADS; i++)
		cr_assert_eq(env_thread_create(&threads[i], "storm", others, &storm), 0);
	for (unsigned int i = 0; i < 20; i++) {
		lock(&storm.sem);
		unlock(&storm.sem);
	}
	store(&storm.stop, 1);
	for (unsigned int i = 0; i < NR_THREADS; i++)
		env_thread_join(threads[i]);
}

static void read_lock(struct env_rwsem *sem)
{
	env_rwsem_read_lock(sem);
}

static void read_unlock(struct env_rwsem *sem)
{
	env_rwsem_read_unlock(sem);
}

Test(env_rwsem, writer_gets_through_a_storm_of_readers, .timeout = 60)
{
	run_against(storm_read, env_rwsem_write_lock, env_rwsem_write_unlock);
}

Test(env_rwsem, reader_gets_through_a_storm_of_writers, .timeout = 60)
{
	run_against(storm_write, read_lock, read_unlock);
}

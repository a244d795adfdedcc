/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_env_sim.c - the simulator: clock, CPUs, locks, waits, RCU; the same run each time
 */
#include <criterion/criterion.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <iomap/env.h>
#include <iomap/sim.h>
#include "env/rcu.h"

#define USEC 1000ull
#define MSEC 1000000ull
#define SEC  1000000000ull

#define FAITHFUL_HASH	 0x2aa30e5f0f62b0c9ull
#define ADVERSARIAL_HASH 0xe64c51efa9a3b35eull

static struct env_sim_result result;

static void run_config(const struct env_sim_config *config, void (*fn)(void *), void *arg)
{
	int err = env_sim_run(config, fn, arg, &result);

	cr_assert_eq(err, 0, "%d: %s", err, result.text);
	cr_assert_eq(result.finding, ENV_SIM_NONE);
	cr_assert_str_empty(result.text);
}

static void run_on(unsigned int nr_cpus, void (*fn)(void *), void *arg)
{
	struct env_sim_config config;

	env_sim_config_init(&config);
	config.nr_cpus = nr_cpus;
	run_config(&config, fn, arg);
}

static void run_seed(uint64_t seed, void (*fn)(void *), void *arg)
{
	struct env_sim_config config;

	env_sim_config_init(&config);
	config.schedule = ENV_SIM_ADVERSARIAL;
	config.seed = seed;
	run_config(&config, fn, arg);
}

/* Start nr tasks with arguments that lie size bytes apart, and join them. */
static void run_tasks(unsigned int nr, void (*fn)(void *), void *args, size_t size)
{
	struct env_thread *threads[16];

	for (unsigned int i = 0; i < nr; i++)
		cr_assert_eq(env_thread_create(&threads[i], "task", fn, (char *)args + i * size),
			     0);
	for (unsigned int i = 0; i < nr; i++)
		env_thread_join(threads[i]);
}

/* ---- configuration and nesting ---- */

static void nothing(void *arg)
{
	(void)arg;
}

Test(env_sim, config_out_of_range_is_refused)
{
	struct env_sim_config config;

	env_sim_config_init(&config);
	config.nr_cpus = 0;
	cr_assert_eq(env_sim_run(&config, nothing, NULL, &result), -EINVAL);
	config.nr_cpus = ENV_SIM_MAX_CPUS + 1;
	cr_assert_eq(env_sim_run(&config, nothing, NULL, &result), -EINVAL);
	env_sim_config_init(&config);
	config.quantum_ns = 0;
	cr_assert_eq(env_sim_run(&config, nothing, NULL, &result), -EINVAL);
}

static void run_inside(void *arg)
{
	struct env_sim_config config;

	env_sim_config_init(&config);
	*(int *)arg = env_sim_run(&config, nothing, NULL, &result);
}

Test(env_sim, runs_do_not_nest)
{
	int err = 0;

	run_on(1, run_inside, &err);
	cr_assert_eq(err, -EBUSY);
}

static void set_local(void *arg)
{
	*(uint64_t *)arg = env_task_self.local[ENV_LOCAL_CANCELLED];
	env_task_self.local[ENV_LOCAL_CANCELLED] = 7;
	env_switch_point();
	env_sleep_ns(1);
	cr_assert_eq(env_task_self.local[ENV_LOCAL_CANCELLED], 7);
	env_task_self.local[ENV_LOCAL_CANCELLED] = 8;
}

static void two_locals(void *arg)
{
	uint64_t *seen = arg;

	env_task_self.local[ENV_LOCAL_CANCELLED] = 9;
	run_tasks(2, set_local, seen, sizeof(*seen));
	cr_assert_eq(env_task_self.local[ENV_LOCAL_CANCELLED], 9);
}

Test(env_sim, each_task_has_its_own_env_task_self)
{
	uint64_t seen[2] = {1, 1};

	env_task_self.local[ENV_LOCAL_CANCELLED] = 5;
	run_on(1, two_locals, seen);
	cr_assert_eq(seen[0], 0);
	cr_assert_eq(seen[1], 0);
	cr_assert_eq(env_task_self.local[ENV_LOCAL_CANCELLED], 5);
}

/* ---- the clock and the CPUs ---- */

static void sleep_and_work(void *arg)
{
	uint64_t start = env_clock_ns();

	env_sleep_ns(5 * MSEC);
	cr_assert_eq(env_clock_ns() - start, 5 * MSEC);
	env_cpu(7 * MSEC);
	cr_assert_eq(env_clock_ns() - start, 12 * MSEC);
	(void)arg;
}

Test(env_sim, clock_moves_by_sleep_and_work)
{
	run_on(1, sleep_and_work, NULL);
	cr_assert_eq(result.virtual_ns, 12 * MSEC);
	cr_assert_eq(result.cpu_busy_ns[0], 7 * MSEC);
}

struct work {
	uint64_t ns;
	uint64_t end;
};

static void work(void *arg)
{
	struct work *one = arg;

	env_cpu(one->ns);
	one->end = env_clock_ns() - SEC;
}

static void work_pair(void *arg)
{
	run_tasks(2, work, arg, sizeof(struct work));
}

/* Turns of 3 ms: a b a b a(1) b b(1) */
Test(env_sim, two_tasks_take_turns_on_one_cpu)
{
	struct work pair[2] = {{.ns = 7 * MSEC}, {.ns = 10 * MSEC}};

	run_on(1, work_pair, pair);
	cr_assert_eq(pair[0].end, 13 * MSEC);
	cr_assert_eq(pair[1].end, 17 * MSEC);
	cr_assert_eq(result.cpu_busy_ns[0], 17 * MSEC);
}

Test(env_sim, two_tasks_run_side_by_side_on_two_cpus)
{
	struct work pair[2] = {{.ns = 7 * MSEC}, {.ns = 10 * MSEC}};

	run_on(2, work_pair, pair);
	cr_assert_eq(pair[0].end, 7 * MSEC);
	cr_assert_eq(pair[1].end, 10 * MSEC);
	cr_assert_eq(result.cpu_busy_ns[0] + result.cpu_busy_ns[1], 17 * MSEC);
	cr_assert_eq(result.virtual_ns, 10 * MSEC);
}

static void work_three(void *arg)
{
	run_tasks(3, work, arg, sizeof(struct work));
}

/* The third waits behind the first for a turn, then the CPU that is idle takes it over. */
Test(env_sim, idle_cpu_takes_a_task_that_waits)
{
	struct work three[3] = {{.ns = 12 * MSEC}, {.ns = 4 * MSEC}, {.ns = 12 * MSEC}};

	run_on(2, work_three, three);
	cr_assert_eq(result.cpu_busy_ns[0] + result.cpu_busy_ns[1], 28 * MSEC);
	cr_assert_leq(result.virtual_ns, 17 * MSEC);
}

static void sleep_pair_member(void *arg)
{
	for (int i = 0; i < 3; i++)
		env_sleep_ns(MSEC);
	(void)arg;
}

static void sleep_pair(void *arg)
{
	run_tasks(2, sleep_pair_member, arg, 0);
}

/* main, a, b, main; each sleeps thrice. */
Test(env_sim, switches_and_wake_ups_cost_what_the_configuration_says)
{
	struct env_sim_config config;

	env_sim_config_init(&config);
	config.nr_cpus = 3;
	config.wake_ns = 5 * USEC;
	run_config(&config, sleep_pair, NULL);
	/* Start of main, of both, three wake-ups, and main's own. */
	cr_assert_eq(result.virtual_ns, 3 * MSEC + 6 * 5 * USEC);
	config.wake_ns = 0;
	config.switch_ns = 2 * USEC;
	run_config(&config, sleep_pair, NULL);
	cr_assert_eq(result.cpu_busy_ns[0] + result.cpu_busy_ns[1] + result.cpu_busy_ns[2],
		     3 * 2 * USEC);
}

static void see_cpus(void *arg)
{
	*(unsigned int *)arg = env_nr_cpus();
}

Test(env_sim, nr_cpus_is_the_configured_one)
{
	unsigned int nr = 0;

	run_on(12, see_cpus, &nr);
	cr_assert_eq(nr, 12);
}

/* ---- locks ---- */

struct shop {
	struct env_mutex lock;
	struct env_rwsem sem;
	unsigned int inside;
	unsigned int readers;
	unsigned int most_readers;
	uint64_t value;
	unsigned int nr_order;
	unsigned int order[64];
	unsigned int next_id;
};

static void shop_init(struct shop *shop)
{
	memset(shop, 0, sizeof(*shop));
	env_mutex_init(&shop->lock, "shop");
	env_rwsem_init(&shop->sem, "shop sem");
}

static void visit(void *arg)
{
	struct shop *shop = arg;

	for (int i = 0; i < 20; i++) {
		env_mutex_lock(&shop->lock);
		cr_assert_eq(shop->inside++, 0);
		env_switch_point();
		env_cpu(10 * USEC);
		shop->value++;
		cr_assert(env_mutex_is_locked(&shop->lock));
		cr_assert_eq(--shop->inside, 0);
		env_mutex_unlock(&shop->lock);
	}
}

static void exclusion(void *arg)
{
	struct shop *shop = arg;

	shop_init(shop);
	run_tasks(8, visit, shop, 0);
	cr_assert_eq(shop->value, 160);
	cr_assert_not(env_mutex_is_locked(&shop->lock));
}

Test(env_sim, mutex_excludes)
{
	static struct shop shop;

	for (unsigned int cpus = 1; cpus <= 4; cpus++) {
		run_on(cpus, exclusion, &shop);
		/* All the work is under the lock. */
		cr_assert_eq(result.virtual_ns, 160 * 10 * USEC);
	}
	for (uint64_t seed = 1; seed <= 100; seed++)
		run_seed(seed, exclusion, &shop);
}

static void read_or_write(void *arg)
{
	struct shop *shop = arg;

	for (unsigned int i = 0; i < 12; i++) {
		if (i % 4 == 0) {
			env_rwsem_write_lock(&shop->sem);
			cr_assert(env_rwsem_is_write_locked(&shop->sem));
			cr_assert_eq(shop->inside++, 0);
			cr_assert_eq(shop->readers, 0);
			env_switch_point();
			env_cpu(USEC);
			cr_assert_eq(--shop->inside, 0);
			env_rwsem_write_unlock(&shop->sem);
		} else {
			env_rwsem_read_lock(&shop->sem);
			cr_assert_eq(shop->inside, 0);
			if (++shop->readers > shop->most_readers)
				shop->most_readers = shop->readers;
			env_switch_point();
			env_cpu(USEC);
			shop->readers--;
			env_rwsem_read_unlock(&shop->sem);
		}
	}
}

static void rwsem(void *arg)
{
	struct shop *shop = arg;

	shop_init(shop);
	run_tasks(6, read_or_write, shop, 0);
	cr_assert_not(env_rwsem_is_write_locked(&shop->sem));
}

Test(env_sim, rwsem_excludes_writers_and_lets_readers_in)
{
	static struct shop shop;

	run_on(4, rwsem, &shop);
	cr_assert_gt(shop.most_readers, 1);
	for (uint64_t seed = 1; seed <= 100; seed++)
		run_seed(seed, rwsem, &shop);
}

static void queue_up(void *arg)
{
	struct shop *shop = arg;
	unsigned int id = shop->next_id++;

	/* In reverse: the last that was started asks first. */
	env_sleep_ns((10 - id) * MSEC);
	env_mutex_lock(&shop->lock);
	shop->order[shop->nr_order++] = id;
	env_cpu(20 * MSEC);
	env_mutex_unlock(&shop->lock);
}

static void fifo(void *arg)
{
	struct shop *shop = arg;

	shop_init(shop);
	env_mutex_lock(&shop->lock);
	/* They all wait by then. */
	struct env_thread *threads[8];

	for (unsigned int i = 0; i < 8; i++)
		cr_assert_eq(env_thread_create(&threads[i], "queue", queue_up, shop), 0);
	env_sleep_ns(50 * MSEC);
	env_mutex_unlock(&shop->lock);
	/* It is not free in between: the first waiter has it. */
	cr_assert(env_mutex_is_locked(&shop->lock));
	cr_assert_not(env_mutex_trylock(&shop->lock));
	for (unsigned int i = 0; i < 8; i++)
		env_thread_join(threads[i]);
}

/* CB3 */
Test(env_sim, lock_is_handed_to_who_waits_longest)
{
	static struct shop shop;

	run_on(2, fifo, &shop);
	cr_assert_eq(shop.nr_order, 8);
	for (unsigned int i = 0; i < 8; i++)
		cr_assert_eq(shop.order[i], 7 - i);
}

static void hold_reading(void *arg)
{
	struct shop *shop = arg;

	env_rwsem_read_lock(&shop->sem);
	env_sleep_ns(10 * MSEC);
	env_rwsem_read_unlock(&shop->sem);
}

static void want_writing(void *arg)
{
	struct shop *shop = arg;

	env_sleep_ns(MSEC);
	env_rwsem_write_lock(&shop->sem);
	env_rwsem_write_unlock(&shop->sem);
}

/* CB3: a try fails if the lock has waiters, also where a reader could go in. */
static void try_behind_writer(void *arg)
{
	struct shop *shop = arg;
	struct env_thread *reader, *writer;

	shop_init(shop);
	cr_assert_eq(env_thread_create(&reader, "reader", hold_reading, shop), 0);
	cr_assert_eq(env_thread_create(&writer, "writer", want_writing, shop), 0);
	env_sleep_ns(500 * USEC);
	cr_assert(env_rwsem_read_trylock(&shop->sem));
	env_rwsem_read_unlock(&shop->sem);
	cr_assert_not(env_rwsem_write_trylock(&shop->sem));
	env_sleep_ns(MSEC);
	cr_assert_not(env_rwsem_read_trylock(&shop->sem));
	cr_assert(env_rwsem_is_write_locked(&shop->sem));
	env_thread_join(reader);
	env_thread_join(writer);
	cr_assert(env_rwsem_write_trylock(&shop->sem));
	env_rwsem_write_unlock(&shop->sem);
}

Test(env_sim, trylock_fails_behind_a_waiter)
{
	static struct shop shop;

	run_on(2, try_behind_writer, &shop);
}

/* ---- waits ---- */

static void wait_in_vain(void *arg)
{
	struct env_waitq queue;
	uint32_t word = 3;
	uint64_t start = env_clock_ns();

	cr_assert(env_futex_wait(&word, 4, ENV_FOREVER));
	cr_assert_not(env_futex_wait(&word, 3, 2 * MSEC));
	cr_assert_eq(env_clock_ns() - start, 2 * MSEC);
	env_waitq_init(&queue);
	cr_assert_not(env_waitq_wait(&queue, env_waitq_prepare(&queue), 3 * MSEC));
	cr_assert_eq(env_clock_ns() - start, 5 * MSEC);
	(void)arg;
}

Test(env_sim, waits_time_out_in_virtual_time)
{
	run_on(1, wait_in_vain, NULL);
}

struct meeting {
	struct env_completion completion;
	uint32_t word;
	unsigned int nr_woken;
};

static void complete_later(void *arg)
{
	struct meeting *meeting = arg;

	env_sleep_ns(4 * MSEC);
	env_complete(&meeting->completion);
}

static void wait_completion(void *arg)
{
	struct meeting *meeting = arg;
	struct env_thread *thread;
	uint64_t start = env_clock_ns();

	env_completion_init(&meeting->completion);
	cr_assert_eq(env_thread_create(&thread, "later", complete_later, meeting), 0);
	env_completion_wait(&meeting->completion);
	cr_assert_eq(env_clock_ns() - start, 4 * MSEC);
	env_thread_join(thread);
}

Test(env_sim, completion_wakes_its_waiter)
{
	struct meeting meeting = {0};

	run_on(1, wait_completion, &meeting);
}

static void wait_word(void *arg)
{
	struct meeting *meeting = arg;

	if (env_futex_wait(&meeting->word, 0, 10 * MSEC))
		meeting->nr_woken++;
}

static void wake_two_of_three(void *arg)
{
	struct meeting *meeting = arg;
	struct env_thread *threads[3];

	for (unsigned int i = 0; i < 3; i++)
		cr_assert_eq(env_thread_create(&threads[i], "wait", wait_word, meeting), 0);
	env_sleep_ns(MSEC);
	env_futex_wake(&meeting->word, 2);
	for (unsigned int i = 0; i < 3; i++)
		env_thread_join(threads[i]);
}

Test(env_sim, wake_wakes_as_many_as_it_says)
{
	struct meeting meeting = {0};

	run_on(2, wake_two_of_three, &meeting);
	cr_assert_eq(meeting.nr_woken, 2);
	cr_assert_eq(result.virtual_ns, 10 * MSEC);
}

static void join_one(void *arg)
{
	struct env_thread *thread;
	uint64_t start = env_clock_ns();

	cr_assert_eq(env_thread_create(&thread, "sleep", sleep_pair_member, arg), 0);
	env_thread_join(thread);
	cr_assert_eq(env_clock_ns() - start, 3 * MSEC);

	/* One that has ended already. */
	cr_assert_eq(env_thread_create(&thread, "sleep", sleep_pair_member, arg), 0);
	env_sleep_ns(10 * MSEC);
	env_thread_join(thread);
	cr_assert_eq(env_clock_ns() - start, 13 * MSEC);
}

Test(env_sim, join_waits_for_the_end)
{
	run_on(1, join_one, NULL);
}

/* ---- RCU ---- */

struct grace_shop {
	struct env_rcu_head head;
	struct env_mutex lock;
	bool reading;
	bool called;
	bool called_while_reading;
};

static void read_long(void *arg)
{
	struct grace_shop *shop = arg;

	env_rcu_read_lock();
	env_rcu_read_lock();
	env_rcu_read_unlock();
	shop->reading = true;
	env_cpu(10 * MSEC);
	shop->reading = false;
	env_rcu_read_unlock();
}

static void note_call(struct env_rcu_head *head)
{
	struct grace_shop *shop = (struct grace_shop *)(void *)head;

	shop->called = true;
	shop->called_while_reading |= shop->reading;
}

static void call_beside_reader(void *arg)
{
	struct grace_shop *shop = arg;
	struct env_thread *reader;
	uint64_t start = env_clock_ns();

	memset(shop, 0, sizeof(*shop));
	env_mutex_init(&shop->lock, "grace shop");
	cr_assert_eq(env_thread_create(&reader, "reader", read_long, shop), 0);
	env_sleep_ns(MSEC);
	cr_assert(shop->reading);
	/* It does not wait, whatever is held. */
	env_mutex_lock(&shop->lock);
	env_rcu_call(&shop->head, note_call);
	cr_assert_eq(env_clock_ns() - start, MSEC);
	env_mutex_unlock(&shop->lock);
	env_sleep_ns(MSEC);
	cr_assert_not(shop->called);
	env_rcu_barrier();
	cr_assert(shop->called);
	cr_assert_not(shop->called_while_reading);
	cr_assert_eq(env_clock_ns() - start, 10 * MSEC);
	env_thread_join(reader);
}

Test(env_sim, call_runs_after_the_readers)
{
	struct grace_shop shop;

	run_on(2, call_beside_reader, &shop);
}

static void synchronize_beside_reader(void *arg)
{
	struct grace_shop *shop = arg;
	struct env_thread *reader;
	uint64_t start = env_clock_ns();

	memset(shop, 0, sizeof(*shop));
	cr_assert_eq(env_thread_create(&reader, "reader", read_long, shop), 0);
	env_sleep_ns(MSEC);
	env_rcu_synchronize();
	cr_assert_eq(env_clock_ns() - start, 10 * MSEC);
	env_rcu_synchronize();
	cr_assert_eq(env_clock_ns() - start, 10 * MSEC);
	env_thread_join(reader);
}

Test(env_sim, synchronize_waits_for_the_readers)
{
	struct grace_shop shop;

	run_on(2, synchronize_beside_reader, &shop);
}

struct node {
	struct env_rcu_head head;
	unsigned int a, b; /* equal */
};

struct tree {
	struct node *node;
	unsigned int nr_freed;
};

static struct tree *the_tree;

static void node_free(struct env_rcu_head *head)
{
	struct node *node = (struct node *)(void *)head;

	node->b = ~node->a;
	the_tree->nr_freed++;
	env_free(node);
}

static struct node *node_new(unsigned int value)
{
	struct node *node = env_alloc(sizeof(*node));

	cr_assert_not_null(node);
	node->a = value;
	node->b = value;
	return node;
}

static void read_tree(void *arg)
{
	struct tree *tree = arg;

	for (int i = 0; i < 20; i++) {
		const struct node *node;

		env_rcu_read_lock();
		node = __atomic_load_n(&tree->node, __ATOMIC_ACQUIRE);
		env_switch_point();
		cr_assert_eq(node->a, node->b);
		env_rcu_read_unlock();
	}
}

static void replace_nodes(void *arg)
{
	struct tree *tree = arg;
	struct env_thread *readers[3];

	the_tree = tree;
	*tree = (struct tree){.node = node_new(0)};
	for (unsigned int i = 0; i < 3; i++)
		cr_assert_eq(env_thread_create(&readers[i], "reader", read_tree, tree), 0);
	for (unsigned int i = 1; i <= 20; i++) {
		struct node *old = tree->node;

		__atomic_store_n(&tree->node, node_new(i), __ATOMIC_RELEASE);
		env_rcu_call(&old->head, node_free);
	}
	for (unsigned int i = 0; i < 3; i++)
		env_thread_join(readers[i]);
	env_rcu_barrier();
	cr_assert_eq(tree->nr_freed, 20);
	env_free(tree->node);
}

Test(env_sim, readers_never_see_a_freed_node)
{
	struct tree tree;

	for (uint64_t seed = 1; seed <= 200; seed++)
		run_seed(seed, replace_nodes, &tree);
}

/* What is still to be called when the program ends is called before the run does. */
static void leave_a_call(void *arg)
{
	struct grace_shop *shop = arg;

	memset(shop, 0, sizeof(*shop));
	env_rcu_call(&shop->head, note_call);
}

Test(env_sim, callbacks_run_before_the_end)
{
	struct grace_shop shop;

	run_on(1, leave_a_call, &shop);
	cr_assert(shop.called);
}

/* ---- the same each time ---- */

static void mixture_member(void *arg)
{
	struct shop *shop = arg;

	for (unsigned int i = 0; i < 5; i++) {
		env_cpu(100 * USEC * (shop->next_id++ % 3));
		visit(shop);
		env_rwsem_read_lock(&shop->sem);
		env_rwsem_read_unlock(&shop->sem);
		env_sleep_ns(MSEC);
	}
}

static void mixture(void *arg)
{
	struct shop *shop = arg;

	shop_init(shop);
	run_tasks(5, mixture_member, shop, 0);
}

Test(env_sim, same_seed_same_trace)
{
	static struct shop shop;

	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct env_sim_result first;
		/* Memory lies elsewhere the second time. */
		struct shop *other = env_alloc(sizeof(*other));

		run_seed(seed, mixture, &shop);
		first = result;
		run_seed(seed, mixture, other);
		cr_assert_eq(memcmp(&first, &result, sizeof(first)), 0);
		env_free(other);
	}
}

Test(env_sim, other_seed_other_trace)
{
	static struct shop shop;
	uint64_t hashes[50];

	for (uint64_t seed = 0; seed < 50; seed++) {
		run_seed(seed, mixture, &shop);
		hashes[seed] = result.trace_hash;
		for (uint64_t i = 0; i < seed; i++)
			cr_assert_neq(hashes[i], hashes[seed]);
	}
}

Test(env_sim, faithful_trace_does_not_depend_on_the_seed)
{
	static struct shop shop;
	struct env_sim_config config;
	uint64_t hash;

	env_sim_config_init(&config);
	run_config(&config, mixture, &shop);
	hash = result.trace_hash;
	config.seed = 12345;
	run_config(&config, mixture, &shop);
	cr_assert_eq(result.trace_hash, hash);
}

/* Whatever compiler, options and machine: change these only with what makes the trace. */
Test(env_sim, trace_is_the_same_everywhere)
{
	static struct shop shop;

	run_on(2, mixture, &shop);
	cr_expect_eq(result.trace_hash, FAITHFUL_HASH, "0x%lx", result.trace_hash);
	run_seed(1, mixture, &shop);
	cr_expect_eq(result.trace_hash, ADVERSARIAL_HASH, "0x%lx", result.trace_hash);
}

/* ---- speed ---- */

static void yield_often(void *arg)
{
	for (int i = 0; i < 50000; i++)
		env_sleep_ns(0);
	(void)arg;
}

static void yield_pair(void *arg)
{
	run_tasks(2, yield_often, arg, 0);
}

/* A hundredth of the speed it has, so that a loaded machine and a checker do not fail. */
Test(env_sim, switches_are_cheap)
{
	uint64_t start = env_clock_ns();
	uint64_t ns;

	run_on(1, yield_pair, NULL);
	ns = env_clock_ns() - start;
	cr_assert_geq(result.switches, 100000);
	cr_assert_lt(ns / result.switches, 200000);
}

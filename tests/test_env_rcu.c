/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * test_env_rcu.c - grace periods on the host
 */
#include <criterion/criterion.h>

#include <stdlib.h>

#include "env/rcu.h"

#define NR_NODES 500

#define MSEC 1000000ull

static uint32_t load(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void store(uint32_t *word, uint32_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* A thread that stays in a read section until it is told to leave. */
struct reader {
	struct env_thread *thread;
	uint32_t inside;
	uint32_t leave;
	uint32_t left;
};

static void read_until_told(void *arg)
{
	struct reader *reader = arg;

	env_rcu_read_lock();
	/* Sections nest: the end of the inner one ends nothing. */
	env_rcu_read_lock();
	env_rcu_read_unlock();
	store(&reader->inside, 1);
	while (!load(&reader->leave))
		env_sleep_ns(MSEC / 10);
	store(&reader->left, 1);
	env_rcu_read_unlock();
}

static void reader_start(struct reader *reader)
{
	*reader = (struct reader){0};
	cr_assert_eq(env_thread_create(&reader->thread, "reader", read_until_told, reader), 0);
	while (!load(&reader->inside))
		env_sleep_ns(MSEC / 10);
}

struct called {
	struct env_rcu_head rcu;
	struct reader *reader;
	uint32_t done;
	uint32_t was_early;
};

static void call(struct env_rcu_head *head)
{
	struct called *called = (struct called *)(void *)head;

	called->was_early = !load(&called->reader->left);
	store(&called->done, 1);
}

Test(env_rcu, call_waits_for_the_reader, .timeout = 20)
{
	struct reader reader;
	struct called called = {.reader = &reader};

	reader_start(&reader);
	env_rcu_call(&called.rcu, call);
	env_sleep_ns(20 * MSEC);
	cr_assert_eq(load(&called.done), 0);
	store(&reader.leave, 1);
	env_rcu_barrier();
	cr_assert_eq(called.done, 1);
	cr_assert_eq(called.was_early, 0);
	env_thread_join(reader.thread);
}

static void leave_later(void *arg)
{
	struct reader *reader = arg;

	env_sleep_ns(10 * MSEC);
	store(&reader->leave, 1);
}

Test(env_rcu, synchronize_waits_for_the_reader, .timeout = 20)
{
	struct env_thread *releaser;
	struct reader reader;

	reader_start(&reader);
	cr_assert_eq(env_thread_create(&releaser, "releaser", leave_later, &reader), 0);
	env_rcu_synchronize();
	cr_assert_eq(load(&reader.left), 1);
	env_thread_join(releaser);
	env_thread_join(reader.thread);
}

struct node {
	struct env_rcu_head rcu;
	unsigned int a, b; /* equal */
};

struct root {
	struct node *node;
	uint32_t stop;
};

static void node_free(struct env_rcu_head *head)
{
	struct node *node = (struct node *)(void *)head;

	node->b = node->a + 1;
	free(node);
}

static struct node *node_new(unsigned int value)
{
	struct node *node = malloc(sizeof(*node));

	node->a = value;
	node->b = value;
	return node;
}

static void read_nodes(void *arg)
{
	struct root *root = arg;

	while (!load(&root->stop)) {
		struct node *node;

		env_rcu_read_lock();
		node = __atomic_load_n(&root->node, __ATOMIC_ACQUIRE);
		cr_assert_eq(node->a, node->b);
		env_rcu_read_unlock();
	}
}

Test(env_rcu, readers_never_see_a_freed_node, .timeout = 60)
{
	struct root root = {.node = node_new(0)};
	struct env_thread *readers[2];

	for (unsigned int i = 0; i < 2; i++)
		cr_assert_eq(env_thread_create(&readers[i], "reader", read_nodes, &root), 0);
	for (unsigned int i = 1; i <= NR_NODES; i++) {
		struct node *old = root.node;

		__atomic_store_n(&root.node, node_new(i), __ATOMIC_RELEASE);
		if (i % 50 == 0) {
			env_rcu_synchronize();
			node_free(&old->rcu);
		} else {
			env_rcu_call(&old->rcu, node_free);
		}
	}
	store(&root.stop, 1);
	for (unsigned int i = 0; i < 2; i++)
		env_thread_join(readers[i]);
	env_rcu_barrier();
	free(root.node);
}

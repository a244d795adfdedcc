/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * fault.c - makes chosen requests fail, come late, come out of order or come to nothing
 *
 * A request is decided on its way down: by the first rule that hits it, else it goes on to the
 * device below.  What cannot be done at once becomes a job of the device's thread.
 */
#include "fault.h"

#include <assert.h>
#include <errno.h>

struct fault_rule {
	struct fault_rule *next;
	struct blkdev_fault_rule what;
	uint64_t nr_matched; /* requests it matched, hit or let pass */
	struct env_rng rng; /* if it has a seed */
	/* of one that reorders: its open window */
	uint64_t window; /* 0: none is open */
	uint64_t window_due_ns;
	unsigned int nr_in_window;
};

static const struct blkdev_ops fault_ops;

struct fault_device *fault_of(struct block_device *bdev)
{
	assert(bdev->ops == &fault_ops);

	return container_of(bdev, struct fault_device, bdev);
}

void fault_send(struct fault_device *fault, struct bio *bio)
{
	if (fault->write_cache)
		fault_power_send(fault, bio);
	else
		blkdev_pass(&fault->bdev, bio);
}

/* ---- rules ---- */

/* Written without sums, which could overflow. */
static bool ranges_touch(uint64_t a, uint64_t a_len, uint64_t b, uint64_t b_len)
{
	return a < b ? b - a < a_len : a - b < b_len;
}

static bool action_suits(enum blkdev_fault_action action, enum bio_op op)
{
	switch (action) {
	case BLKDEV_FAULT_TEAR:
		return op == BIO_WRITE;
	case BLKDEV_FAULT_LOSE:
		return op != BIO_READ;
	default:
		return true;
	}
}

static bool rule_matches(const struct blkdev_fault_rule *rule, const struct bio *bio)
{
	if (rule->op >= 0 && rule->op != (int)bio->op)
		return false;
	if (rule->kind >= 0 && rule->kind != (int)bio->kind)
		return false;
	if (!action_suits(rule->action, bio->op))
		return false;
	if (rule->len == 0)
		return true;
	/* A flush has no range. */
	return bio->len > 0 && ranges_touch(rule->addr, rule->len, bio->addr, bio->len);
}

static struct env_rng *rule_rng(struct fault_device *fault, struct fault_rule *rule)
{
	return rule->what.seed ? &rule->rng : &fault->rng;
}

/* Of those in its range, the seed may choose one in `chance`. */
static bool rule_draws(struct fault_device *fault, struct fault_rule *rule)
{
	return rule->what.chance <= 1 ||
	       env_rng_below(rule_rng(fault, rule), rule->what.chance) == 0;
}

/* Counts the request if the rule matches it. */
static bool rule_hits(struct fault_device *fault, struct fault_rule *rule, const struct bio *bio)
{
	uint64_t nr_before;

	if (!rule_matches(&rule->what, bio) || !rule_draws(fault, rule))
		return false;
	nr_before = rule->nr_matched++;
	if (nr_before < rule->what.after)
		return false;
	return rule->what.count == 0 || nr_before - rule->what.after < rule->what.count;
}

static struct fault_rule *first_hit(struct fault_device *fault, const struct bio *bio)
{
	for (struct fault_rule *rule = fault->rules; rule; rule = rule->next)
		if (rule_hits(fault, rule, bio))
			return rule;
	return NULL;
}

/* ---- jobs ---- */

static void window_open(struct fault_device *fault, struct fault_rule *rule, uint64_t now_ns)
{
	rule->window = ++fault->nr_windows;
	rule->window_due_ns = now_ns + rule->what.delay_ns;
	rule->nr_in_window = 0;
}

static void window_close(struct fault_device *fault, struct fault_rule *rule)
{
	if (rule->window)
		fault_window_close(fault, rule->window);
	rule->window = 0;
}

static void reorder(struct fault_device *fault, struct fault_rule *rule, struct fault_job *job)
{
	uint64_t now_ns = env_clock_ns();

	if (!rule->window || now_ns >= rule->window_due_ns)
		window_open(fault, rule, now_ns);
	job->window = rule->window;
	job->due_ns = rule->window_due_ns;
	fault_window_join(fault, job, rule_rng(fault, rule));
	if (++rule->nr_in_window == rule->what.window)
		window_close(fault, rule);
}

/* False: no memory. */
static bool do_later(struct fault_device *fault, struct fault_rule *rule, struct bio *bio)
{
	struct fault_job *job = env_zalloc(sizeof(*job));

	if (!job)
		return false;
	job->bio = bio;
	if (rule->what.action == BLKDEV_FAULT_REORDER) {
		reorder(fault, rule, job);
	} else {
		job->tear = rule->what.action == BLKDEV_FAULT_TEAR;
		job->error = rule->what.error;
		job->seed = job->tear ? env_rng_u64(rule_rng(fault, rule)) : 0;
		job->due_ns = env_clock_ns() + rule->what.delay_ns;
		fault_job_add(fault, job);
	}
	fault_thread_poke(fault);
	return true;
}

/* ---- a request ---- */

/* LATER: no longer ours to look at, it may have been ended already. */
enum verdict { PASS, END, LATER };

static void hold(struct fault_device *fault, struct bio *bio)
{
	bio_list_add(&fault->held, bio);
	fault->nr_held++;
}

static enum verdict apply(struct fault_device *fault, struct fault_rule *rule, struct bio *bio,
			  int *error)
{
	*error = rule->what.error;
	switch (rule->what.action) {
	case BLKDEV_FAULT_STOP:
		if (*error)
			return END;
		hold(fault, bio);
		return LATER;
	case BLKDEV_FAULT_LOSE:
		*error = 0;
		return END;
	case BLKDEV_FAULT_CUT:
		bio_list_add(&fault->caught, bio);
		fault_power_go(fault);
		return LATER;
	case BLKDEV_FAULT_DELAY:
	case BLKDEV_FAULT_REORDER:
	case BLKDEV_FAULT_TEAR:
		if (do_later(fault, rule, bio))
			return LATER;
		*error = -ENOMEM;
		return END;
	}
	return PASS;
}

static enum verdict judge(struct fault_device *fault, struct bio *bio, int *error)
{
	struct fault_rule *rule;

	if (fault->power != POWER_ON) {
		*error = -EIO;
		return END;
	}
	rule = first_hit(fault, bio);
	if (!rule)
		return PASS;
	fault->nr_hits++;
	return apply(fault, rule, bio, error);
}

static void fault_submit(struct block_device *bdev, struct bio *bio)
{
	struct fault_device *fault = fault_of(bdev);
	enum verdict verdict;
	int error = 0;

	env_mutex_lock(&fault->lock);
	verdict = judge(fault, bio, &error);
	env_mutex_unlock(&fault->lock);

	if (verdict == PASS)
		fault_send(fault, bio);
	else if (verdict == END)
		bio_endio(bio, error);
	else
		fault_thread_wake(fault);
}

/* ---- life ---- */

static void fault_destroy(struct block_device *bdev)
{
	struct fault_device *fault = fault_of(bdev);

	assert(fault->nr_held == 0);

	blkdev_fault_clear(bdev);
	fault_thread_stop(fault);
	fault_power_uninit(fault);
	env_free(fault);
}

static const struct blkdev_ops fault_ops = {
	.submit = fault_submit,
	.destroy = fault_destroy,
};

int blkdev_fault_create(struct block_device **bdev, struct block_device *below)
{
	struct fault_device *fault = env_zalloc(sizeof(*fault));

	if (!fault)
		return -ENOMEM;
	blkdev_init_wrapper(&fault->bdev, &fault_ops, "fault", below);
	env_spin_init(&fault->lock, "blkdev fault");
	env_waitq_init(&fault->power_wait);
	env_rng_seed(&fault->rng, 1);
	fault->rules_end = &fault->rules;
	*bdev = &fault->bdev;
	return 0;
}

void blkdev_fault_seed(struct block_device *bdev, uint64_t seed)
{
	struct fault_device *fault = fault_of(bdev);

	env_mutex_lock(&fault->lock);
	env_rng_seed(&fault->rng, seed);
	env_mutex_unlock(&fault->lock);
}

static bool rule_is_possible(const struct blkdev_fault_rule *rule)
{
	if (rule->op < -1 || rule->op >= BIO_NR_OPS || rule->kind < -1 ||
	    rule->kind >= BIO_NR_KINDS || rule->error > 0)
		return false;
	if (rule->action == BLKDEV_FAULT_REORDER)
		return rule->window > 1 && rule->delay_ns > 0;
	return (unsigned int)rule->action <= BLKDEV_FAULT_CUT;
}

static bool rule_needs_thread(const struct blkdev_fault_rule *rule)
{
	return rule->action != BLKDEV_FAULT_STOP && rule->action != BLKDEV_FAULT_LOSE;
}

int blkdev_fault_add(struct block_device *bdev, const struct blkdev_fault_rule *what)
{
	struct fault_device *fault = fault_of(bdev);
	struct fault_rule *rule;
	int err;

	if (!rule_is_possible(what))
		return -EINVAL;
	err = rule_needs_thread(what) ? fault_thread_start(fault) : 0;
	if (err)
		return err;
	rule = env_zalloc(sizeof(*rule));
	if (!rule)
		return -ENOMEM;
	rule->what = *what;
	env_rng_seed(&rule->rng, what->seed);

	env_mutex_lock(&fault->lock);
	*fault->rules_end = rule;
	fault->rules_end = &rule->next;
	env_mutex_unlock(&fault->lock);
	return 0;
}

void blkdev_fault_clear(struct block_device *bdev)
{
	struct fault_device *fault = fault_of(bdev);
	struct fault_rule *rules;

	env_mutex_lock(&fault->lock);
	rules = fault->rules;
	fault->rules = NULL;
	fault->rules_end = &fault->rules;
	env_mutex_unlock(&fault->lock);

	/* A window that is not full goes when its time comes. */
	while (rules) {
		struct fault_rule *rule = rules;

		rules = rule->next;
		env_free(rule);
	}
}

unsigned int blkdev_fault_release(struct block_device *bdev)
{
	struct fault_device *fault = fault_of(bdev);
	struct bio_list released;
	unsigned int nr;
	struct bio *bio;

	env_mutex_lock(&fault->lock);
	released = fault->held;
	nr = fault->nr_held;
	fault->held.head = NULL;
	fault->nr_held = 0;
	env_mutex_unlock(&fault->lock);

	while ((bio = bio_list_pop(&released)))
		fault_send(fault, bio);
	return nr;
}

uint64_t blkdev_fault_hits(struct block_device *bdev)
{
	struct fault_device *fault = fault_of(bdev);
	uint64_t nr_hits;

	env_mutex_lock(&fault->lock);
	nr_hits = fault->nr_hits;
	env_mutex_unlock(&fault->lock);
	return nr_hits;
}

unsigned int blkdev_fault_held(struct block_device *bdev)
{
	struct fault_device *fault = fault_of(bdev);
	unsigned int nr_held;

	env_mutex_lock(&fault->lock);
	nr_held = fault->nr_held;
	env_mutex_unlock(&fault->lock);
	return nr_held;
}

/* ---- power ---- */

int blkdev_fault_power_cut(struct block_device *bdev)
{
	struct fault_device *fault = fault_of(bdev);
	int err = fault_thread_start(fault);

	if (err)
		return err;
	env_mutex_lock(&fault->lock);
	if (fault->power == POWER_ON)
		fault_power_go(fault);
	env_mutex_unlock(&fault->lock);
	fault_thread_wake(fault);
	return 0;
}

static bool power_is(struct fault_device *fault, enum fault_power power)
{
	bool is;

	env_mutex_lock(&fault->lock);
	is = fault->power == power;
	env_mutex_unlock(&fault->lock);
	return is;
}

void blkdev_fault_power_on(struct block_device *bdev)
{
	struct fault_device *fault = fault_of(bdev);

	env_wait_event(&fault->power_wait, !power_is(fault, POWER_GOING));
	env_mutex_lock(&fault->lock);
	fault->power = POWER_ON;
	env_mutex_unlock(&fault->lock);
}

bool blkdev_fault_power_is_off(struct block_device *bdev)
{
	return !power_is(fault_of(bdev), POWER_ON);
}

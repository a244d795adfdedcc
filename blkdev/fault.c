/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * fault.c - makes chosen requests fail, or holds them back
 *
 * A request is decided on its way down: the first rule that hits it ends it with an error
 * or puts it on the list of held ones; else it goes on to the device below.
 */
#include "internal.h"

#include <assert.h>
#include <errno.h>

struct fault_rule {
	struct fault_rule *next;
	struct blkdev_fault_rule what;
	uint64_t nr_matched; /* requests it matched, hit or let pass */
};

/*
 * How a member is protected:
 *	L	lock
 */
struct fault_device {
	struct block_device bdev;
	struct env_mutex lock;
	struct fault_rule *rules; /* [L] in order of addition, with their counts */
	struct fault_rule **rules_end; /* [L] where the next one is linked */
	struct bio_list held; /* [L] */
	unsigned int nr_held; /* [L] */
	uint64_t nr_hits; /* [L] */
};

static const struct blkdev_ops fault_ops;

static struct fault_device *fault_of(struct block_device *bdev)
{
	assert(bdev->ops == &fault_ops);

	return container_of(bdev, struct fault_device, bdev);
}

/* ---- rules ---- */

/* Written without sums, which could overflow. */
static bool ranges_touch(uint64_t a, uint64_t a_len, uint64_t b, uint64_t b_len)
{
	return a < b ? b - a < a_len : a - b < b_len;
}

static bool rule_matches(const struct blkdev_fault_rule *rule, const struct bio *bio)
{
	if (rule->op >= 0 && rule->op != (int)bio->op)
		return false;
	if (rule->kind >= 0 && rule->kind != (int)bio->kind)
		return false;
	if (rule->len == 0)
		return true;
	/* A flush has no range. */
	return bio->len > 0 && ranges_touch(rule->addr, rule->len, bio->addr, bio->len);
}

/* Counts the request if the rule matches it. */
static bool rule_hits(struct fault_rule *rule, const struct bio *bio)
{
	uint64_t nr_before;

	if (!rule_matches(&rule->what, bio))
		return false;
	nr_before = rule->nr_matched++;
	if (nr_before < rule->what.after)
		return false;
	return rule->what.count == 0 || nr_before - rule->what.after < rule->what.count;
}

static struct fault_rule *first_hit(struct fault_device *fault, const struct bio *bio)
{
	for (struct fault_rule *rule = fault->rules; rule; rule = rule->next)
		if (rule_hits(rule, bio))
			return rule;
	return NULL;
}

/* ---- a request ---- */

enum verdict { PASS, FAIL, HOLD };

static enum verdict judge(struct fault_device *fault, struct bio *bio, int *error)
{
	const struct fault_rule *rule = first_hit(fault, bio);

	if (!rule)
		return PASS;
	fault->nr_hits++;
	*error = rule->what.error;
	if (*error)
		return FAIL;
	bio_list_add(&fault->held, bio);
	fault->nr_held++;
	return HOLD;
}

static void fault_submit(struct block_device *bdev, struct bio *bio)
{
	struct fault_device *fault = fault_of(bdev);
	enum verdict verdict;
	int error = 0;

	env_mutex_lock(&fault->lock);
	verdict = judge(fault, bio, &error);
	env_mutex_unlock(&fault->lock);

	/* A held bio is no longer ours to look at: it may have been released already. */
	if (verdict == PASS)
		blkdev_pass(bdev, bio);
	else if (verdict == FAIL)
		bio_endio(bio, error);
}

/* ---- life ---- */

static void fault_destroy(struct block_device *bdev)
{
	assert(fault_of(bdev)->nr_held == 0);

	blkdev_fault_clear(bdev);
	env_free(fault_of(bdev));
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
	env_mutex_init(&fault->lock, "blkdev fault");
	fault->rules_end = &fault->rules;
	*bdev = &fault->bdev;
	return 0;
}

static bool rule_is_possible(const struct blkdev_fault_rule *rule)
{
	return rule->op >= -1 && rule->op < BIO_NR_OPS && rule->kind >= -1 &&
	       rule->kind < BIO_NR_KINDS && rule->error <= 0;
}

int blkdev_fault_add(struct block_device *bdev, const struct blkdev_fault_rule *what)
{
	struct fault_device *fault = fault_of(bdev);
	struct fault_rule *rule;

	if (!rule_is_possible(what))
		return -EINVAL;
	rule = env_zalloc(sizeof(*rule));
	if (!rule)
		return -ENOMEM;
	rule->what = *what;

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
		blkdev_pass(bdev, bio);
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

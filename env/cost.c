/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * cost.c - the table of costs, and a charge taken from it
 */
#include <iomap/cost.h>

const struct env_cost_entry env_cost_table[NR_ENV_COSTS] = {
#define X(id, name, rule, ps, per, unit, origin) {name, rule, ps, per, unit, origin},
	ENV_COSTS(X)
#undef X
};

uint64_t env_cost_ns(enum env_cost cost, uint64_t n)
{
	const struct env_cost_entry *entry = &env_cost_table[cost];

	/* A division by a constant is a multiplication. */
	if (entry->per == 1)
		return entry->ps * n / 1000;
	return entry->ps * n / (entry->per * 1000);
}

void env_charge_world(enum env_cost cost, uint64_t n)
{
	if (env_world->cpu)
		env_world->cpu(env_cost_ns(cost, n));
}

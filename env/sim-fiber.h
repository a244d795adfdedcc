/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * sim-fiber.h - stacks of their own on one thread, and the switch between them
 */
#ifndef ENV_SIM_FIBER_H
#define ENV_SIM_FIBER_H

#include <stdbool.h>
#include <stddef.h>

#if !defined(__x86_64__) && !defined(ENV_SIM_UCONTEXT)
#define ENV_SIM_UCONTEXT 1
#endif

#ifdef ENV_SIM_UCONTEXT
#include <ucontext.h>
#endif

struct sim_fiber {
	void *sp; /* while it does not run */
	char *stack; /* lowest usable byte; NULL: the thread's own */
	size_t stack_size;
	const void *bottom; /* the same, also of the thread's own stack once it is known */
	size_t bottom_size;
	void *fake_stack; /* AddressSanitizer's */
	void *tsan; /* ThreadSanitizer's */
#ifdef ENV_SIM_UCONTEXT
	ucontext_t context;
#endif
};

/* The thread that calls, as a fiber to come back to. */
void sim_fiber_adopt(struct sim_fiber *fiber);
/* A fiber that runs entry(), which never returns and calls sim_fiber_started() first. */
int sim_fiber_init(struct sim_fiber *fiber, size_t stack_size, void (*entry)(void));
/* It runs no more. */
void sim_fiber_uninit(struct sim_fiber *fiber);
/* Go on with `to`; last: `from` will never run again. */
void sim_fiber_switch(struct sim_fiber *from, struct sim_fiber *to, bool last);
/* Where entry() begins; from: whoever switched. */
void sim_fiber_started(struct sim_fiber *from);

#endif

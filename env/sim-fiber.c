/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * sim-fiber.c - stacks of their own on one thread, and the switch between them
 *
 * On x86-64 a switch saves the registers that a call preserves and changes the stack; elsewhere
 * ucontext does it.  Both sanitizers are told, or they would take the change for a corruption.
 * Stacks have a page below them that faults, and are kept for the next fiber.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "sim-fiber.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define FIBER_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define FIBER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBER_ASAN 1
#elif __has_feature(thread_sanitizer)
#define FIBER_TSAN 1
#endif
#endif

#define GUARD_SIZE 65536 /* a multiple of any page size */

/* Checkers make frames larger. */
#if defined(FIBER_ASAN) || defined(FIBER_TSAN)
#define STACK_FACTOR 4
#else
#define STACK_FACTOR 1
#endif

/* ---- sanitizers ---- */

#ifdef FIBER_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef FIBER_TSAN
#include <sanitizer/tsan_interface.h>
#endif

static void checker_adopt(struct sim_fiber *fiber)
{
#ifdef FIBER_TSAN
	fiber->tsan = __tsan_get_current_fiber();
#else
	(void)fiber;
#endif
}

static void checker_create(struct sim_fiber *fiber)
{
#ifdef FIBER_TSAN
	fiber->tsan = __tsan_create_fiber(0);
#else
	(void)fiber;
#endif
}

static void checker_destroy(struct sim_fiber *fiber)
{
#if defined(FIBER_TSAN)
	__tsan_destroy_fiber(fiber->tsan);
#elif defined(FIBER_ASAN)
	/* What it left on its stack is no business of the next one. */
	__asan_unpoison_memory_region(fiber->stack, fiber->stack_size);
#else
	(void)fiber;
#endif
}

static inline void checker_leave(struct sim_fiber *from, struct sim_fiber *to, bool last)
{
#if defined(FIBER_TSAN)
	__tsan_switch_to_fiber(to->tsan, 0);
#elif defined(FIBER_ASAN)
	__sanitizer_start_switch_fiber(last ? NULL : &from->fake_stack, to->bottom,
				       to->bottom_size);
#endif
	(void)from;
	(void)to;
	(void)last;
}

static inline void checker_enter(struct sim_fiber *self)
{
#ifdef FIBER_ASAN
	__sanitizer_finish_switch_fiber(self->fake_stack, NULL, NULL);
#else
	(void)self;
#endif
}

void sim_fiber_started(struct sim_fiber *from)
{
#ifdef FIBER_ASAN
	const void *bottom;
	size_t size;

	__sanitizer_finish_switch_fiber(NULL, &bottom, &size);
	if (!from->bottom) {
		from->bottom = bottom;
		from->bottom_size = size;
	}
#else
	(void)from;
#endif
}

/* ---- stacks ---- */

/* A free stack's first words; there is one pool a process, since one run is. */
struct free_stack {
	struct free_stack *next;
	size_t size;
};

#define POOL_MAX 256

static struct {
	struct free_stack *first;
	unsigned int nr;
} pool;

static char *stack_from_pool(size_t size)
{
	struct free_stack *stack = pool.first;

	if (!stack || stack->size != size)
		return NULL;
	pool.first = stack->next;
	pool.nr--;
	return (char *)stack;
}

static char *stack_map(size_t size)
{
	char *map = mmap(NULL, size + GUARD_SIZE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);

	if (map == MAP_FAILED)
		return NULL;
	if (mprotect(map, GUARD_SIZE, PROT_NONE) != 0) {
		munmap(map, size + GUARD_SIZE);
		return NULL;
	}
	return map + GUARD_SIZE;
}

static void stack_give_back(char *memory, size_t size)
{
	struct free_stack *stack = (struct free_stack *)memory;

	if (pool.nr == POOL_MAX || (pool.first && pool.first->size != size)) {
		munmap(memory - GUARD_SIZE, size + GUARD_SIZE);
		return;
	}
	stack->next = pool.first;
	stack->size = size;
	pool.first = stack;
	pool.nr++;
}

/* ---- the switch ---- */

#ifdef ENV_SIM_UCONTEXT

static void context_prepare(struct sim_fiber *fiber, void (*entry)(void))
{
	getcontext(&fiber->context);
	fiber->context.uc_stack.ss_sp = fiber->stack;
	fiber->context.uc_stack.ss_size = fiber->stack_size;
	fiber->context.uc_link = NULL;
	makecontext(&fiber->context, entry, 0);
}

static inline void context_switch(struct sim_fiber *from, struct sim_fiber *to)
{
	swapcontext(&from->context, &to->context);
}

#else

void sim_fiber_swap(void **save_sp, void *sp);

/* Control words of the floating point unit are the thread's: nobody here changes them. */
__asm__(".text\n"
	".p2align 4\n"
	".hidden sim_fiber_swap\n"
	".globl sim_fiber_swap\n"
	".type sim_fiber_swap, @function\n"
	"sim_fiber_swap:\n"
	"	pushq %rbp\n"
	"	pushq %rbx\n"
	"	pushq %r12\n"
	"	pushq %r13\n"
	"	pushq %r14\n"
	"	pushq %r15\n"
	"	movq %rsp, (%rdi)\n"
	"	movq %rsi, %rsp\n"
	"	popq %r15\n"
	"	popq %r14\n"
	"	popq %r13\n"
	"	popq %r12\n"
	"	popq %rbx\n"
	"	popq %rbp\n"
	"	ret\n"
	".size sim_fiber_swap, . - sim_fiber_swap\n");

/*
 *	top - 8		0: where entry() would return to; ends a stack trace
 *	top - 16	entry, popped by the first `ret`
 *	top - 64	six registers
 *
 * At entry() the stack pointer is 8 below a multiple of 16, as after a call.
 */
static void context_prepare(struct sim_fiber *fiber, void (*entry)(void))
{
	uintptr_t *top = (uintptr_t *)(void *)(fiber->stack + fiber->stack_size);

	memset(top - 8, 0, 8 * sizeof(*top));
	top[-2] = (uintptr_t)entry;
	fiber->sp = top - 8;
}

static inline void context_switch(struct sim_fiber *from, struct sim_fiber *to)
{
	sim_fiber_swap(&from->sp, to->sp);
}

#endif

/* ---- fibers ---- */

void sim_fiber_adopt(struct sim_fiber *fiber)
{
	memset(fiber, 0, sizeof(*fiber));
	checker_adopt(fiber);
}

int sim_fiber_init(struct sim_fiber *fiber, size_t stack_size, void (*entry)(void))
{
	memset(fiber, 0, sizeof(*fiber));
	stack_size = (stack_size * STACK_FACTOR + GUARD_SIZE - 1) & ~(size_t)(GUARD_SIZE - 1);
	fiber->stack = stack_from_pool(stack_size);
	if (!fiber->stack)
		fiber->stack = stack_map(stack_size);
	if (!fiber->stack)
		return -ENOMEM;
	fiber->stack_size = stack_size;
	fiber->bottom = fiber->stack;
	fiber->bottom_size = stack_size;
	context_prepare(fiber, entry);
	checker_create(fiber);
	return 0;
}

void sim_fiber_uninit(struct sim_fiber *fiber)
{
	checker_destroy(fiber);
	stack_give_back(fiber->stack, fiber->stack_size);
	fiber->stack = NULL;
}

void sim_fiber_switch(struct sim_fiber *from, struct sim_fiber *to, bool last)
{
	checker_leave(from, to, last);
	context_switch(from, to);
	checker_enter(from);
}

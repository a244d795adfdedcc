/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * list.h - doubly linked lists whose links live in the listed objects
 */
#ifndef IOMAP_LIST_H
#define IOMAP_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list_head {
	struct list_head *next;
	struct list_head *prev;
};

#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#define list_entry(ptr, type, member)	     container_of(ptr, type, member)
#define list_first_entry(head, type, member) list_entry((head)->next, type, member)
#define list_last_entry(head, type, member)  list_entry((head)->prev, type, member)

#define list_for_each_entry(pos, head, type, member)                                               \
	for (pos = list_entry((head)->next, type, member); &pos->member != (head);                 \
	     pos = list_entry(pos->member.next, type, member))

/* The body may take pos off the list. */
#define list_for_each_entry_safe(pos, tmp, head, type, member)                                     \
	for (pos = list_entry((head)->next, type, member),                                         \
	    tmp = list_entry(pos->member.next, type, member);                                      \
	     &pos->member != (head); pos = tmp, tmp = list_entry(tmp->member.next, type, member))

static inline void list_init(struct list_head *head)
{
	head->next = head;
	head->prev = head;
}

static inline bool list_empty(const struct list_head *head)
{
	return head->next == head;
}

static inline void list_insert_between(struct list_head *entry, struct list_head *prev,
				       struct list_head *next)
{
	next->prev = entry;
	entry->next = next;
	entry->prev = prev;
	prev->next = entry;
}

static inline void list_add(struct list_head *entry, struct list_head *head)
{
	list_insert_between(entry, head, head->next);
}

static inline void list_add_tail(struct list_head *entry, struct list_head *head)
{
	list_insert_between(entry, head->prev, head);
}

/* Off its list, and empty again. */
static inline void list_del_init(struct list_head *entry)
{
	entry->next->prev = entry->prev;
	entry->prev->next = entry->next;
	list_init(entry);
}

static inline void list_move_tail(struct list_head *entry, struct list_head *head)
{
	list_del_init(entry);
	list_add_tail(entry, head);
}

/* All of `from` to the end of `head`; `from` is empty after. */
static inline void list_splice_tail_init(struct list_head *from, struct list_head *head)
{
	if (list_empty(from))
		return;
	from->next->prev = head->prev;
	head->prev->next = from->next;
	from->prev->next = head;
	head->prev = from->prev;
	list_init(from);
}

#endif

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * index.c - page number -> folio: a radix tree with multi-page entries and marks
 *
 *	root ----> branch, shift 10 ----> branch, shift 4 ----> leaf, shift 0
 *		   64 slots of 2^10	  64 slots of 2^4	16 slots of
 *		   pages each		  pages each		one page each
 *
 * A slot holds NULL, a folio, or a node of the next lower shift (NODE_TAG set).  No level is
 * left out, so a walk computes the shifts and reads no node's header but the root's.  A
 * folio of order o stands at the highest level with shift <= o.  The root node is the lowest
 * that covers every folio; no node is empty; an empty tree has no node.
 *
 * A bit in a node's mark word says that the folio which starts at this slot has the mark, or
 * that some folio in the node below has it.
 *
 * Readers under RCU: what they read of a node (shift, marks, slots) stays as it is until the
 * last reader is gone; env_rcu_call() writes only over what the writer alone uses.  A node is
 * published complete and unlinked empty (or, a former root, with its only child still in
 * it), so a reader in an unlinked node misses nothing that is in the tree all the time.
 */
#include "folio/index.h"

#include <assert.h>
#include <errno.h>
#include <iomap/env.h>
#include <iomap/folio.h>
#include "env/rcu.h"

#define LEAF_BITS    4
#define LEAF_SLOTS   (1u << LEAF_BITS)
#define BRANCH_BITS  6
#define BRANCH_SLOTS (1u << BRANCH_BITS)
#define NODE_TAG     1u

/*
 * How a member is protected:
 *	I	set before the node is published, never changed
 *	M	mapping->lock
 *	R	mapping->lock to write, RCU to read
 */
struct index_node {
	union {
		struct {
			struct index_node *parent; /* [M] NULL: it is the root */
			uint8_t offset; /* [M] its slot in the parent */
			uint8_t count; /* [M] slots in use */
		};
		struct env_rcu_head rcu; /* once it is unlinked */
	};
	uint8_t shift; /* [I] a slot covers 2^shift pages; 0: a leaf */
	uint16_t leaf_marks[INDEX_NR_MARKS]; /* [R] of a branch: see branch_marks() */
	void *slots[]; /* [R] LEAF_SLOTS or BRANCH_SLOTS */
};

#define LEAF_SIZE (sizeof(struct index_node) + LEAF_SLOTS * sizeof(void *))
#define BRANCH_SIZE                                                                                \
	(sizeof(struct index_node) + BRANCH_SLOTS * sizeof(void *) +                               \
	 INDEX_NR_MARKS * sizeof(uint64_t))

static_assert(sizeof(void *) != 8 || LEAF_SIZE <= 152, "a page costs less than ten bytes");
static_assert(sizeof(void *) != 8 || BRANCH_SIZE <= 560, "an order 4 folio costs nine");
static_assert(offsetof(struct index_node, shift) >= sizeof(struct env_rcu_head),
	      "what readers need outlives env_rcu_call()");

/* ---- slots ---- */

static inline bool entry_is_node(const void *entry)
{
	return ((uintptr_t)entry & NODE_TAG) != 0;
}

static inline struct index_node *entry_node(void *entry)
{
	return (struct index_node *)(void *)((char *)entry - NODE_TAG);
}

static inline void *node_entry(struct index_node *node)
{
	return (char *)node + NODE_TAG;
}

static inline void *slot_load(void *const *slot)
{
	return __atomic_load_n(slot, __ATOMIC_ACQUIRE);
}

static inline void slot_store(void **slot, void *entry)
{
	__atomic_store_n(slot, entry, __ATOMIC_RELEASE);
}

static inline struct index_node *root_node(void *const *root)
{
	void *entry = slot_load(root);

	return entry ? entry_node(entry) : NULL;
}

/* ---- shifts ---- */

static inline unsigned int nr_slots(unsigned int shift)
{
	return shift ? BRANCH_SLOTS : LEAF_SLOTS;
}

static inline unsigned int shift_above(unsigned int shift)
{
	return shift ? shift + BRANCH_BITS : LEAF_BITS;
}

static inline unsigned int shift_below(unsigned int shift)
{
	return shift > LEAF_BITS ? shift - BRANCH_BITS : 0;
}

/* The highest level with shift <= order. */
static inline unsigned int order_shift(unsigned int order)
{
	if (order < LEAF_BITS)
		return 0;
	return order - (order - LEAF_BITS) % BRANCH_BITS;
}

/* The level of the lowest root that covers index. */
static inline unsigned int index_shift(uint64_t index)
{
	return order_shift(63u - (unsigned int)__builtin_clzll(index | 1));
}

static inline bool shift_covers(unsigned int shift, uint64_t index)
{
	return index >> shift < nr_slots(shift);
}

static inline unsigned int slot_of(unsigned int shift, uint64_t index)
{
	return (unsigned int)(index >> shift) & (nr_slots(shift) - 1);
}

/* The first page of the slot, in the node of that shift which covers index. */
static inline uint64_t slot_start(unsigned int shift, uint64_t index, unsigned int slot)
{
	uint64_t slots = nr_slots(shift) - 1;

	return (index & ~(slots << shift) & ~((1ull << shift) - 1)) | (uint64_t)slot << shift;
}

/* The last page of the node of that shift which covers index. */
static inline uint64_t node_last(unsigned int shift, uint64_t index)
{
	uint64_t slots = nr_slots(shift) - 1;

	return index | slots << shift | ((1ull << shift) - 1);
}

/*
 * The first slot of the folio at `slot`; for a node that is `slot`.  Without the lock the
 * folio may be coming or going; then any slot of it is as good.
 */
static inline unsigned int folio_slot(const struct index_node *node, unsigned int slot,
				      const void *folio)
{
	while (slot > 0 && slot_load(&node->slots[slot - 1]) == folio)
		slot--;
	return slot;
}

/* ---- marks ---- */

/* After the slots, so that slots are at the same place in leaves and branches. */
static inline uint64_t *branch_marks(const struct index_node *node)
{
	return (uint64_t *)(void *)&node->slots[BRANCH_SLOTS];
}

static inline uint64_t node_marks(const struct index_node *node, unsigned int shift,
				  enum index_mark mark)
{
	if (shift)
		return __atomic_load_n(&branch_marks(node)[mark], __ATOMIC_ACQUIRE);
	return __atomic_load_n(&node->leaf_marks[mark], __ATOMIC_ACQUIRE);
}

static inline void node_marks_store(struct index_node *node, enum index_mark mark, uint64_t bits)
{
	if (node->shift)
		__atomic_store_n(&branch_marks(node)[mark], bits, __ATOMIC_RELEASE);
	else
		__atomic_store_n(&node->leaf_marks[mark], (uint16_t)bits, __ATOMIC_RELEASE);
}

static void mark_set(struct index_node *node, unsigned int slot, enum index_mark mark)
{
	do {
		uint64_t bits = node_marks(node, node->shift, mark);

		if (bits >> slot & 1)
			return;
		node_marks_store(node, mark, bits | 1ull << slot);
		slot = node->offset;
		node = node->parent;
	} while (node);
}

static void mark_clear(struct index_node *node, unsigned int slot, enum index_mark mark)
{
	do {
		uint64_t bits = node_marks(node, node->shift, mark);

		if (!(bits >> slot & 1))
			return;
		bits &= ~(1ull << slot);
		node_marks_store(node, mark, bits);
		if (bits)
			return;
		slot = node->offset;
		node = node->parent;
	} while (node);
}

/* ---- nodes ---- */

static inline size_t node_size(unsigned int shift)
{
	return shift ? BRANCH_SIZE : LEAF_SIZE;
}

static struct index_node *node_new(unsigned int shift, struct index_memory *memory)
{
	struct index_node *node = env_zalloc(node_size(shift));

	if (!node)
		return NULL;
	node->shift = (uint8_t)shift;
	__atomic_fetch_add(&memory->bytes, node_size(shift), __ATOMIC_RELAXED);
	return node;
}

/* Nobody else has seen it. */
static void node_free(struct index_node *node, struct index_memory *memory)
{
	__atomic_fetch_sub(&memory->bytes, node_size(node->shift), __ATOMIC_RELAXED);
	env_free(node);
}

static void node_free_rcu(struct env_rcu_head *rcu)
{
	env_free(container_of(rcu, struct index_node, rcu));
}

/* It is unlinked, but readers may still be in it. */
static void node_retire(struct index_node *node, struct index_memory *memory)
{
	__atomic_fetch_sub(&memory->bytes, node_size(node->shift), __ATOMIC_RELAXED);
	env_rcu_call(&node->rcu, node_free_rcu);
}

static inline void node_fill(struct index_node *node, unsigned int slot, unsigned int nr,
			     struct folio *folio)
{
	for (unsigned int i = 0; i < nr; i++)
		slot_store(&node->slots[slot + i], folio);
	node->count = (uint8_t)(node->count + nr);
}

/* Link child, complete with all below it, into the empty slot. */
static void node_attach(struct index_node *node, unsigned int slot, struct index_node *child)
{
	child->parent = node;
	child->offset = (uint8_t)slot;
	for (unsigned int mark = 0; mark < INDEX_NR_MARKS; mark++)
		if (node_marks(child, child->shift, mark))
			mark_set(node, slot, mark);
	slot_store(&node->slots[slot], node_entry(child));
	node->count++;
}

/* ---- look up ---- */

struct folio *index_load(void *const *root, uint64_t index, void *const **slot)
{
	const struct index_node *node = root_node(root);
	void *const *at;
	void *entry;
	int shift;

	if (env_unlikely(!node))
		return NULL;
	shift = node->shift;
	if (env_unlikely(!shift_covers((unsigned int)shift, index)))
		return NULL;

	/* The level below shift 4 has shift 0; here it gets -2, which ends the loop as well. */
	for (; shift > 0; shift -= BRANCH_BITS) {
		at = &node->slots[index >> shift & (BRANCH_SLOTS - 1)];
		entry = slot_load(at);
		if (!entry_is_node(entry))
			goto found;
		node = entry_node(entry);
	}
	at = &node->slots[index & (LEAF_SLOTS - 1)];
	entry = slot_load(at);
found:
	if (slot)
		*slot = at;
	return entry;
}

/* The lowest node on the way to index, but not below shift. => the root covers index */
static inline struct index_node *node_towards(struct index_node *node, uint64_t index,
					      unsigned int shift)
{
	while (node->shift > shift) {
		void *entry = slot_load(&node->slots[slot_of(node->shift, index)]);

		if (!entry_is_node(entry))
			break;
		node = entry_node(entry);
	}
	return node;
}

/* The node that has the folio which starts at index, which there must be. */
static struct index_node *node_with_folio(void *const *root, uint64_t index, unsigned int *slot)
{
	struct index_node *node = root_node(root);
	void *entry;

	assert(node && shift_covers(node->shift, index));
	node = node_towards(node, index, 0);
	*slot = slot_of(node->shift, index);
	entry = slot_load(&node->slots[*slot]);
	assert(entry && !entry_is_node(entry));
	assert(folio_slot(node, *slot, entry) == *slot);
	(void)entry;
	return node;
}

/* ---- insert ---- */

static bool slots_are_free(const struct index_node *node, unsigned int slot, unsigned int nr)
{
	for (unsigned int i = 0; i < nr; i++)
		if (slot_load(&node->slots[slot + i]))
			return false;
	return true;
}

/* Free a chain of new nodes from its lowest up. */
static void chain_free(struct index_node *node, struct index_memory *memory)
{
	while (node) {
		struct index_node *parent = node->parent;

		node_free(node, memory);
		node = parent;
	}
}

/*
 * Put new nodes above node, up to the shift; each covers index.
 *
 * => returns the highest; or NULL, and those that were made are parents of node
 */
static struct index_node *chain_raise(struct index_node *node, unsigned int shift, uint64_t index,
				      struct index_memory *memory)
{
	while (node->shift < shift) {
		struct index_node *above = node_new(shift_above(node->shift), memory);

		if (!above)
			return NULL;
		node_attach(above, slot_of(above->shift, index), node);
		node = above;
	}
	return node;
}

/* Make top, which covers more than the tree, the root.  0; -ENOMEM with the tree unchanged. */
static int root_raise(void **root, struct index_node *top, struct index_memory *memory)
{
	struct index_node *old = root_node(root);
	struct index_node *raised;

	if (old) {
		raised = chain_raise(old, shift_below(top->shift), 0, memory);
		if (!raised) {
			chain_free(old->parent, memory);
			old->parent = NULL;
			return -ENOMEM;
		}
		node_attach(top, 0, raised);
	}
	slot_store(root, node_entry(top));
	return 0;
}

/*
 * Insert a folio that needs nodes: below `above`, or, if that is NULL, below a new root.
 * They are all made before the first one is linked.
 */
static int insert_with_nodes(void **root, struct index_node *above, uint64_t index,
			     unsigned int order, struct folio *folio, struct index_memory *memory)
{
	unsigned int shift = order_shift(order);
	unsigned int top_shift = index_shift(index);
	struct index_node *node, *top;

	node = node_new(shift, memory);
	if (!node)
		return -ENOMEM;
	node_fill(node, slot_of(shift, index), 1u << (order - shift), folio);

	if (above)
		top_shift = shift_below(above->shift);
	top = chain_raise(node, top_shift, index, memory);
	if (!top)
		goto free_chain;
	if (above)
		node_attach(above, slot_of(above->shift, index), top);
	else if (root_raise(root, top, memory) != 0)
		goto free_chain;
	return 0;

free_chain:
	chain_free(node, memory);
	return -ENOMEM;
}

int index_insert(void **root, uint64_t index, unsigned int order, struct folio *folio,
		 struct index_memory *memory)
{
	struct index_node *node = root_node(root);
	unsigned int shift = order_shift(order);
	unsigned int nr = 1u << (order - shift);
	unsigned int slot;

	assert((index & ((1ull << order) - 1)) == 0);
	assert(folio && !entry_is_node(folio));

	if (!node || !shift_covers(node->shift, index))
		return insert_with_nodes(root, NULL, index, order, folio, memory);
	/* The pages are all that the tree covers, and more; something is there. */
	if (node->shift < shift)
		return -EEXIST;

	node = node_towards(node, index, shift);
	slot = slot_of(node->shift, index);
	if (node->shift > shift) {
		if (slot_load(&node->slots[slot]))
			return -EEXIST;
		return insert_with_nodes(root, node, index, order, folio, memory);
	}
	/* A node in one of the slots has something below it, for no node is empty. */
	if (!slots_are_free(node, slot, nr))
		return -EEXIST;
	node_fill(node, slot, nr, folio);
	return 0;
}

/* ---- remove ---- */

/* Unlink nodes that are empty, from node upwards. */
static void tree_prune(void **root, struct index_node *node, struct index_memory *memory)
{
	while (node && node->count == 0) {
		struct index_node *parent = node->parent;

		if (parent) {
			slot_store(&parent->slots[node->offset], NULL);
			parent->count--;
		} else {
			slot_store(root, NULL);
		}
		node_retire(node, memory);
		node = parent;
	}
}

/* Does the node have just one child that covers the same pages from 0? */
static inline bool node_is_needless_root(const struct index_node *node)
{
	return node->count == 1 && entry_is_node(slot_load(&node->slots[0]));
}

/* The child stays in the former root, for readers on their way through it. */
static void tree_lower(void **root, struct index_memory *memory)
{
	struct index_node *node = root_node(root);

	while (node && node_is_needless_root(node)) {
		struct index_node *child = entry_node(slot_load(&node->slots[0]));

		child->parent = NULL;
		slot_store(root, node_entry(child));
		node_retire(node, memory);
		node = child;
	}
}

void index_remove(void **root, uint64_t index, unsigned int order, struct index_memory *memory)
{
	unsigned int shift = order_shift(order);
	unsigned int nr = 1u << (order - shift);
	struct index_node *node;
	unsigned int slot;

	node = node_with_folio(root, index, &slot);
	assert(node->shift == shift);
	assert(slot_load(&node->slots[slot]) == slot_load(&node->slots[slot + nr - 1]));

	for (unsigned int mark = 0; mark < INDEX_NR_MARKS; mark++)
		mark_clear(node, slot, mark);
	for (unsigned int i = 0; i < nr; i++)
		slot_store(&node->slots[slot + i], NULL);
	node->count = (uint8_t)(node->count - nr);

	if (node->count <= 1) {
		tree_prune(root, node, memory);
		tree_lower(root, memory);
	}
}

/* ---- marks of folios ---- */

void index_set_mark(void **root, uint64_t index, enum index_mark mark)
{
	unsigned int slot;
	struct index_node *node = node_with_folio(root, index, &slot);

	mark_set(node, slot, mark);
}

void index_clear_mark(void **root, uint64_t index, enum index_mark mark)
{
	unsigned int slot;
	struct index_node *node = node_with_folio(root, index, &slot);

	mark_clear(node, slot, mark);
}

bool index_get_mark(void *const *root, uint64_t index, enum index_mark mark)
{
	unsigned int slot;
	struct index_node *node = node_with_folio(root, index, &slot);

	return (node_marks(node, node->shift, mark) >> slot & 1) != 0;
}

bool index_marked(void *const *root, enum index_mark mark)
{
	struct index_node *node = root_node(root);

	return node && node_marks(node, node->shift, mark) != 0;
}

/*
 * index_copy_mark() below one node.  Only the low bits of first and last matter, so 0 and
 * UINT64_MAX are the ends of any node.
 *
 * => returns whether some folio got the mark; the caller says so in its own node
 */
static bool node_copy_mark(struct index_node *node, uint64_t first, uint64_t last,
			   enum index_mark from, enum index_mark to)
{
	unsigned int begin = slot_of(node->shift, first);
	unsigned int end = slot_of(node->shift, last);
	void *entry = slot_load(&node->slots[begin]);
	uint64_t marked, bits;

	/* The folio that covers first may start before it. */
	if (entry)
		begin = folio_slot(node, begin, entry);
	marked = node_marks(node, node->shift, from);
	marked &= UINT64_MAX << begin & UINT64_MAX >> (63 - end);

	/* A leaf has folios only: all at once. */
	for (bits = node->shift ? marked : 0; bits; bits &= bits - 1) {
		unsigned int slot = (unsigned int)__builtin_ctzll(bits);

		entry = slot_load(&node->slots[slot]);
		if (entry_is_node(entry) &&
		    !node_copy_mark(entry_node(entry), slot == begin ? first : 0,
				    slot == end ? last : UINT64_MAX, from, to))
			marked &= ~(1ull << slot);
	}
	if (marked)
		node_marks_store(node, to, node_marks(node, node->shift, to) | marked);
	return marked != 0;
}

void index_copy_mark(void **root, uint64_t first, uint64_t last, enum index_mark from,
		     enum index_mark to)
{
	struct index_node *node = root_node(root);

	if (!node || first > last || !shift_covers(node->shift, first))
		return;
	if (!shift_covers(node->shift, last))
		last = UINT64_MAX;
	node_copy_mark(node, first, last, from, to);
}

/* ---- find ---- */

/*
 * The first slot from `slot` on that is in use, and if so, has the mark or leads to it.  For
 * a folio that covers `slot` this may be one before.
 *
 * => returns the number of slots if there is none
 */
static inline unsigned int node_next(const struct index_node *node, unsigned int shift,
				     unsigned int slot, enum index_mark mark, void **entry)
{
	unsigned int nr = nr_slots(shift);
	uint64_t marks;

	if (mark == INDEX_NO_MARK) {
		for (; slot < nr; slot++) {
			*entry = slot_load(&node->slots[slot]);
			if (*entry)
				return folio_slot(node, slot, *entry);
		}
		return nr;
	}

	marks = node_marks(node, shift, mark);
	*entry = slot_load(&node->slots[slot]);
	if (*entry) {
		unsigned int first = folio_slot(node, slot, *entry);

		if (first < slot && marks >> first & 1)
			return first;
	}
	for (marks = marks >> slot << slot; marks; marks &= marks - 1) {
		slot = (unsigned int)__builtin_ctzll(marks);
		*entry = slot_load(&node->slots[slot]);
		/* A folio that is being removed may leave its mark alone for a moment. */
		if (*entry)
			return slot;
	}
	return nr;
}

struct folio *index_find(void *const *root, uint64_t *index, uint64_t last, enum index_mark mark,
			 void *const **slot)
{
	uint64_t at = *index;

	if (at > last)
		return NULL;
	/* From the root again after each node with no more folio; `at` rises each time. */
	for (;;) {
		const struct index_node *node = root_node(root);
		unsigned int shift, next, here;
		void *entry;

		if (!node || !shift_covers(node->shift, at))
			return NULL;
		shift = node->shift;
		for (;;) {
			here = slot_of(shift, at);
			next = node_next(node, shift, here, mark, &entry);
			if (next == nr_slots(shift))
				break;
			if (next != here)
				at = slot_start(shift, at, next);
			if (at > last)
				return NULL;
			if (!entry_is_node(entry)) {
				*index = slot_start(shift, at, next);
				if (slot)
					*slot = &node->slots[next];
				return entry;
			}
			node = entry_node(entry);
			shift = shift_below(shift);
		}
		at = node_last(shift, at);
		if (at >= last)
			return NULL;
		at++;
	}
}

/* ---- what must be true ---- */

/* How many slots, from slot on, the entry there takes. */
static unsigned int entry_nr_slots(const struct index_node *node, unsigned int slot)
{
	const void *entry = slot_load(&node->slots[slot]);
	unsigned int nr = 1;

	if (entry)
		while (slot + nr < nr_slots(node->shift) &&
		       slot_load(&node->slots[slot + nr]) == entry)
			nr++;
	return nr;
}

/* Does the slot have the mark if and only if something in it has?  A folio may or may not. */
static bool mark_ok(const struct index_node *node, unsigned int slot, enum index_mark mark)
{
	void *entry = slot_load(&node->slots[slot]);
	bool marked = (node_marks(node, node->shift, mark) >> slot & 1) != 0;

	if (!entry)
		return !marked;
	if (!entry_is_node(entry))
		return !marked || folio_slot(node, slot, entry) == slot;
	return marked == (node_marks(entry_node(entry), entry_node(entry)->shift, mark) != 0);
}

static bool node_ok(const struct index_node *node)
{
	unsigned int nr_used = 0;
	unsigned int nr;

	for (unsigned int slot = 0; slot < nr_slots(node->shift); slot += nr) {
		void *entry = slot_load(&node->slots[slot]);

		nr = entry_nr_slots(node, slot);
		if (entry)
			nr_used += nr;
		/* A run is a power of two and naturally aligned. */
		if ((nr & (nr - 1)) != 0 || (slot & (nr - 1)) != 0)
			return false;
		for (unsigned int i = 0; i < nr; i++)
			for (unsigned int mark = 0; mark < INDEX_NR_MARKS; mark++)
				if (!mark_ok(node, slot + i, mark))
					return false;
		if (entry_is_node(entry)) {
			const struct index_node *child = entry_node(entry);

			if (!node->shift || child->shift != shift_below(node->shift))
				return false;
			if (child->parent != node || child->offset != slot || !node_ok(child))
				return false;
		}
	}
	return nr_used > 0 && nr_used == node->count;
}

bool index_ok(void *const *root)
{
	struct index_node *node = root_node(root);

	if (!node)
		return true;
	return !node->parent && !node_is_needless_root(node) && node_ok(node);
}

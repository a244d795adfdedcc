/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * extent-map.c - the space of one file in chunks of sorted records
 *
 * The map is an array of pointers to chunks; a chunk is a sorted array of up to
 * CHUNK_RECORDS records and is never empty.  A look-up is two binary searches.
 *
 * Every change is one replacement: some neighbouring records go, the records of a list come
 * in their place.  The list is made first, joined within itself and with the neighbours on
 * both sides; then the memory is taken; then the change cannot fail.  A record shrinks only
 * by being in the list, and growing never makes two records joinable that were not, so after
 * the replacement no two neighbours anywhere can be joined.
 */
#include "extent-map.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include <iomap/env.h>

#define CHUNK_RECORDS 128
/* Chunks emptier than this are joined with a neighbour that is not much fuller. */
#define CHUNK_FEW (CHUNK_RECORDS / 4)

struct extent_chunk {
	struct extent_chunk *next_fresh; /* while it is not in the map yet */
	size_t nr;
	struct extent records[CHUNK_RECORDS];
};

/* A record, or the end of the map: chunk == nr_chunks, slot == 0. */
struct place {
	size_t chunk;
	size_t slot;
};

/* ---- records -------------------------------------------------------------------------------- */

static uint64_t extent_end(const struct extent *extent)
{
	return extent->file + extent->len;
}

static uint64_t len_limit(const struct extent_map *map, enum extent_state state)
{
	return state == EXTENT_UNWRITTEN ? map->max_unwritten : map->max_len;
}

/* Is b the continuation of a, so that one record says the same (XF9, EX21)? */
static bool extents_can_join(const struct extent_map *map, const struct extent *a,
			     const struct extent *b)
{
	if (a->state != b->state)
		return false;
	if (extent_end(a) != b->file)
		return false;
	if (a->state != EXTENT_DELAYED && a->start + a->len != b->start)
		return false;
	return a->len + b->len <= len_limit(map, a->state);
}

static void extent_join(struct extent *a, const struct extent *b)
{
	a->len += b->len;
	a->reserved += b->reserved;
}

/* The blocks [file, file + len) of a record; no promise goes with them. */
static struct extent extent_part(const struct extent *extent, uint64_t file, uint64_t len)
{
	struct extent part = *extent;

	assert(file >= extent->file);
	assert(file + len <= extent_end(extent));
	part.file = file;
	part.len = len;
	part.reserved = 0;
	if (part.state != EXTENT_DELAYED)
		part.start += file - extent->file;
	return part;
}

/* A record cut by the range [file, end): up to three parts, absent ones have length 0. */
struct cut {
	struct extent head;
	struct extent middle;
	struct extent tail;
};

/*
 * The promise of a record that is wholly in the range goes with it; of one that is partly
 * outside it stays there, shared by length.
 */
static struct cut extent_cut(const struct extent *extent, uint64_t file, uint64_t end)
{
	uint64_t from = file > extent->file ? file : extent->file;
	uint64_t to = end < extent_end(extent) ? end : extent_end(extent);
	struct cut cut;
	uint64_t left;

	assert(from < to);
	cut.head = extent_part(extent, extent->file, from - extent->file);
	cut.middle = extent_part(extent, from, to - from);
	cut.tail = extent_part(extent, to, extent_end(extent) - to);

	left = cut.head.len + cut.tail.len;
	if (left == 0) {
		cut.middle.reserved = extent->reserved;
		return cut;
	}
	cut.head.reserved = (uint32_t)(extent->reserved * cut.head.len / left);
	cut.tail.reserved = extent->reserved - cut.head.reserved;
	return cut;
}

/* ---- a list of records to come -------------------------------------------------------------- */

#define LIST_INLINE 8

struct record_list {
	struct extent *records;
	size_t nr;
	size_t max;
	struct extent inline_records[LIST_INLINE];
};

static void list_start(struct record_list *list)
{
	list->records = list->inline_records;
	list->nr = 0;
	list->max = LIST_INLINE;
}

static void list_finish(struct record_list *list)
{
	if (list->records != list->inline_records)
		env_free(list->records);
}

static int list_grow(struct record_list *list)
{
	struct extent *records = env_alloc(2 * list->max * sizeof(*records));

	if (!records)
		return -ENOMEM;
	memcpy(records, list->records, list->nr * sizeof(*records));
	list_finish(list);
	list->records = records;
	list->max *= 2;
	return 0;
}

/* Append, joining and cutting to the longest length.  Nothing happens for length 0. */
static int list_add_record(struct record_list *list, const struct extent_map *map,
			   const struct extent *extent)
{
	uint64_t limit = len_limit(map, extent->state);
	uint64_t pos = extent->file;

	if (extent->len == 0)
		return 0;
	assert(extent->state != EXTENT_DELAYED || extent->len <= limit);

	while (pos < extent_end(extent)) {
		uint64_t left = extent_end(extent) - pos;
		struct extent piece = extent_part(extent, pos, left < limit ? left : limit);

		piece.reserved = extent->reserved;
		pos += piece.len;
		if (list->nr > 0 && extents_can_join(map, &list->records[list->nr - 1], &piece)) {
			extent_join(&list->records[list->nr - 1], &piece);
			continue;
		}
		if (list->nr == list->max) {
			int err = list_grow(list);

			if (err)
				return err;
		}
		list->records[list->nr++] = piece;
	}
	return 0;
}

/* ---- places --------------------------------------------------------------------------------- */

static struct extent *record_at(const struct extent_map *map, struct place place)
{
	assert(place.slot < map->chunks[place.chunk]->nr);
	return &map->chunks[place.chunk]->records[place.slot];
}

static bool place_is_end(const struct extent_map *map, struct place place)
{
	return place.chunk == map->nr_chunks;
}

static struct place place_next(const struct extent_map *map, struct place place)
{
	if (++place.slot == map->chunks[place.chunk]->nr) {
		place.chunk++;
		place.slot = 0;
	}
	return place;
}

/* => place is not the first record */
static struct place place_prev(const struct extent_map *map, struct place place)
{
	if (place.slot == 0)
		place.slot = map->chunks[--place.chunk]->nr;
	place.slot--;
	return place;
}

static bool place_is_first(struct place place)
{
	return place.chunk == 0 && place.slot == 0;
}

/* The last chunk that starts at or before block, or the first chunk. */
static size_t chunk_find(const struct extent_map *map, uint64_t block)
{
	size_t first = 0;
	size_t nr = map->nr_chunks;

	while (nr > 1) {
		size_t half = nr / 2;

		if (map->chunks[first + half]->records[0].file <= block)
			first += half;
		nr -= half;
	}
	return first;
}

/* The last record of the chunk that starts at or before block, or the first record. */
static size_t slot_find(const struct extent_chunk *chunk, uint64_t block)
{
	size_t first = 0;
	size_t nr = chunk->nr;

	while (nr > 1) {
		size_t half = nr / 2;

		if (chunk->records[first + half].file <= block)
			first += half;
		nr -= half;
	}
	return first;
}

/* The record that contains block, or the first one behind it, or the end. */
static struct place place_find(const struct extent_map *map, uint64_t block)
{
	struct place place = {0, 0};

	if (map->nr_chunks == 0)
		return place;
	place.chunk = chunk_find(map, block);
	place.slot = slot_find(map->chunks[place.chunk], block);
	if (extent_end(record_at(map, place)) <= block)
		place = place_next(map, place);
	return place;
}

/* ---- look-up -------------------------------------------------------------------------------- */

bool extent_map_find(const struct extent_map *map, uint64_t block, struct extent *found)
{
	struct place place = place_find(map, block);

	if (place_is_end(map, place))
		return false;
	*found = *record_at(map, place);
	return true;
}

bool extent_map_find_before(const struct extent_map *map, uint64_t block, struct extent *found)
{
	struct place place;

	if (block == 0 || map->nr_chunks == 0)
		return false;
	place.chunk = chunk_find(map, block - 1);
	place.slot = slot_find(map->chunks[place.chunk], block - 1);
	if (record_at(map, place)->file >= block)
		return false;
	*found = *record_at(map, place);
	return true;
}

bool extent_map_last(const struct extent_map *map, struct extent *found)
{
	const struct extent_chunk *chunk;

	if (map->nr_chunks == 0)
		return false;
	chunk = map->chunks[map->nr_chunks - 1];
	*found = chunk->records[chunk->nr - 1];
	return true;
}

/* ---- replacement ---------------------------------------------------------------------------- */

/*
 * What a replacement is: nr_old records from `place` on go, the list comes.  It rewrites
 * nr_chunks chunks from first_chunk on, of which `before` records stay in front and `after`
 * behind; nr_needed chunks hold the result, the missing ones are in fresh.
 */
struct change {
	struct record_list list;
	struct place place;
	size_t nr_old;
	size_t first_chunk;
	size_t nr_chunks;
	size_t before;
	size_t after;
	size_t nr_needed;
	struct extent_chunk *fresh;
};

static void fresh_free(struct change *change)
{
	while (change->fresh) {
		struct extent_chunk *chunk = change->fresh;

		change->fresh = chunk->next_fresh;
		env_free(chunk);
	}
}

static int fresh_alloc(struct change *change, size_t nr)
{
	while (nr-- > 0) {
		struct extent_chunk *chunk = env_alloc(sizeof(*chunk));

		if (!chunk)
			return -ENOMEM;
		chunk->next_fresh = change->fresh;
		change->fresh = chunk;
	}
	return 0;
}

static int top_reserve(struct extent_map *map, size_t nr)
{
	struct extent_chunk **chunks;
	size_t max = map->max_chunks ? map->max_chunks : 1;

	if (nr <= map->max_chunks)
		return 0;
	while (max < nr)
		max *= 2;
	chunks = env_alloc(max * sizeof(*chunks));
	if (!chunks)
		return -ENOMEM;
	if (map->nr_chunks > 0)
		memcpy(chunks, map->chunks, map->nr_chunks * sizeof(*chunks));
	env_free(map->chunks);
	map->chunks = chunks;
	map->max_chunks = max;
	return 0;
}

/* Let the neighbours take part where they join what comes. */
static void change_widen(const struct extent_map *map, struct change *change)
{
	struct record_list *list = &change->list;
	struct place after = change->place;

	if (list->nr == 0)
		return;
	for (size_t i = 0; i < change->nr_old; i++)
		after = place_next(map, after);
	if (!place_is_end(map, after) &&
	    extents_can_join(map, &list->records[list->nr - 1], record_at(map, after))) {
		extent_join(&list->records[list->nr - 1], record_at(map, after));
		change->nr_old++;
	}
	if (!place_is_first(change->place)) {
		struct place before = place_prev(map, change->place);
		struct extent joined = *record_at(map, before);

		if (extents_can_join(map, &joined, &list->records[0])) {
			extent_join(&joined, &list->records[0]);
			list->records[0] = joined;
			change->place = before;
			change->nr_old++;
		}
	}
}

/* Which chunks are rewritten, and what of them stays. */
static void change_measure(const struct extent_map *map, struct change *change)
{
	size_t left = change->nr_old;
	size_t chunk;
	size_t total;

	/* Behind the last record is a place in the last chunk; so is that between two chunks. */
	if (change->place.slot == 0 && change->place.chunk > 0 && change->nr_old == 0) {
		change->place.chunk--;
		change->place.slot = map->chunks[change->place.chunk]->nr;
	}
	change->first_chunk = change->place.chunk;
	change->before = change->place.slot;
	change->after = 0;
	change->nr_chunks = 0;
	if (map->nr_chunks > 0) {
		chunk = change->first_chunk;
		left += change->before;
		while (left > map->chunks[chunk]->nr)
			left -= map->chunks[chunk++]->nr;
		change->after = map->chunks[chunk]->nr - left;
		change->nr_chunks = chunk - change->first_chunk + 1;
	}
	total = change->before + change->list.nr + change->after;
	change->nr_needed = (total + CHUNK_RECORDS - 1) / CHUNK_RECORDS;
}

/*
 * Everything that can fail.
 * => the list is complete; place and nr_old name the records that go
 */
static int change_prepare(struct extent_map *map, struct change *change)
{
	size_t nr_fresh;
	int err;

	change->fresh = NULL;
	change_widen(map, change);
	change_measure(map, change);
	if (change->nr_needed <= change->nr_chunks)
		return 0;

	nr_fresh = change->nr_needed - change->nr_chunks;
	err = top_reserve(map, map->nr_chunks + nr_fresh);
	if (!err)
		err = fresh_alloc(change, nr_fresh);
	if (err)
		fresh_free(change);
	return err;
}

/* The rewritten chunks become nr_needed ones; the pointers behind them move. */
static void change_resize_top(struct extent_map *map, struct change *change)
{
	size_t old_end = change->first_chunk + change->nr_chunks;
	size_t new_end = change->first_chunk + change->nr_needed;

	for (size_t i = new_end; i < old_end; i++)
		env_free(map->chunks[i]);
	if (map->nr_chunks > old_end)
		memmove(&map->chunks[new_end], &map->chunks[old_end],
			(map->nr_chunks - old_end) * sizeof(*map->chunks));
	for (size_t i = old_end; i < new_end; i++) {
		map->chunks[i] = change->fresh;
		change->fresh = change->fresh->next_fresh;
	}
	map->nr_chunks = map->nr_chunks - change->nr_chunks + change->nr_needed;
	assert(!change->fresh);
}

/* A run of records on its way into empty chunks. */
struct stream {
	struct extent_chunk **chunk; /* the one being filled */
	size_t nr_chunks; /* it and those behind it */
	size_t nr_records; /* still to come, with those in *chunk */
	bool fill; /* fill each chunk, else share evenly */
};

static size_t stream_quota(const struct stream *stream)
{
	if (stream->fill)
		return CHUNK_RECORDS;
	return (stream->nr_records + stream->nr_chunks - 1) / stream->nr_chunks;
}

static void stream_write(struct stream *stream, const struct extent *records, size_t nr)
{
	while (nr > 0) {
		struct extent_chunk *chunk = *stream->chunk;
		size_t quota = stream_quota(stream);
		size_t room = quota - chunk->nr;
		size_t n = nr < room ? nr : room;

		memcpy(&chunk->records[chunk->nr], records, n * sizeof(*records));
		chunk->nr += n;
		records += n;
		nr -= n;
		if (chunk->nr == quota) {
			stream->nr_records -= quota;
			stream->nr_chunks--;
			stream->chunk++;
		}
	}
}

/*
 * The result needs another number of chunks: spread it evenly, for the next insertions may be
 * anywhere; but at the end of the map fill the chunks, for files are mostly written in order.
 */
static void __attribute__((noinline)) change_spread(struct extent_map *map, struct change *change)
{
	size_t total = change->before + change->list.nr + change->after;
	bool at_end =
		change->after == 0 && change->first_chunk + change->nr_chunks == map->nr_chunks;
	struct extent before[CHUNK_RECORDS];
	struct extent after[CHUNK_RECORDS];
	struct stream stream;

	if (change->before > 0)
		memcpy(before, map->chunks[change->first_chunk]->records,
		       change->before * sizeof(before[0]));
	if (change->after > 0) {
		const struct extent_chunk *last =
			map->chunks[change->first_chunk + change->nr_chunks - 1];

		memcpy(after, &last->records[last->nr - change->after],
		       change->after * sizeof(after[0]));
	}
	change_resize_top(map, change);
	for (size_t i = 0; i < change->nr_needed; i++)
		map->chunks[change->first_chunk + i]->nr = 0;

	stream.chunk = &map->chunks[change->first_chunk];
	stream.nr_chunks = change->nr_needed;
	stream.nr_records = total;
	stream.fill = at_end;
	stream_write(&stream, before, change->before);
	stream_write(&stream, change->list.records, change->list.nr);
	stream_write(&stream, after, change->after);
}

/* The result stays in one chunk. */
static void change_in_place(struct extent_map *map, struct change *change)
{
	struct extent_chunk *chunk = map->chunks[change->first_chunk];
	struct extent *records = &chunk->records[change->before];

	if (change->list.nr != change->nr_old)
		memmove(records + change->list.nr, records + change->nr_old,
			change->after * sizeof(*records));
	memcpy(records, change->list.records, change->list.nr * sizeof(*records));
	chunk->nr = change->before + change->list.nr + change->after;
}

/* Move the records of chunk i + 1 to chunk i if both are small. */
static bool chunk_join_next(struct extent_map *map, size_t i)
{
	struct extent_chunk *chunk = map->chunks[i];
	struct extent_chunk *next = map->chunks[i + 1];

	if (chunk->nr + next->nr > CHUNK_RECORDS / 2)
		return false;
	memcpy(&chunk->records[chunk->nr], next->records, next->nr * sizeof(next->records[0]));
	chunk->nr += next->nr;
	env_free(next);
	map->nr_chunks--;
	memmove(&map->chunks[i + 1], &map->chunks[i + 2],
		(map->nr_chunks - i - 1) * sizeof(*map->chunks));
	return true;
}

static void chunk_join_small(struct extent_map *map, size_t i)
{
	if (i >= map->nr_chunks || map->chunks[i]->nr > CHUNK_FEW)
		return;
	if (i > 0 && chunk_join_next(map, i - 1))
		return;
	if (i + 1 < map->nr_chunks)
		chunk_join_next(map, i);
}

static bool is_delayed(const struct extent *extent)
{
	return extent->state == EXTENT_DELAYED;
}

/* Count the records that go and those that come. */
static void change_count(struct extent_map *map, const struct change *change)
{
	struct place at = change->place;

	map->nr = map->nr - change->nr_old + change->list.nr;
	for (size_t i = 0; i < change->nr_old; i++) {
		if (at.slot == map->chunks[at.chunk]->nr)
			at = (struct place){.chunk = at.chunk + 1};
		map->nr_delayed -= is_delayed(&map->chunks[at.chunk]->records[at.slot++]);
	}
	for (size_t i = 0; i < change->list.nr; i++)
		map->nr_delayed += is_delayed(&change->list.records[i]);
}

static void change_commit(struct extent_map *map, struct change *change)
{
	change_count(map, change);
	if (change->nr_chunks == 1 && change->nr_needed == 1)
		change_in_place(map, change);
	else
		change_spread(map, change);
	if (change->list.nr < change->nr_old)
		chunk_join_small(map, change->first_chunk);
}

/* ---- changes -------------------------------------------------------------------------------- */

void extent_map_init(struct extent_map *map, uint64_t max_len, uint64_t max_unwritten)
{
	assert(max_len > 0);
	assert(max_unwritten > 0);
	memset(map, 0, sizeof(*map));
	map->max_len = max_len;
	map->max_unwritten = max_unwritten;
}

void extent_map_destroy(struct extent_map *map)
{
	for (size_t i = 0; i < map->nr_chunks; i++)
		env_free(map->chunks[i]);
	env_free(map->chunks);
	extent_map_init(map, map->max_len, map->max_unwritten);
}

int extent_map_insert(struct extent_map *map, const struct extent *extent)
{
	struct extent record = *extent;
	struct change change;
	int err;

	assert(extent->len > 0);
	assert(extent->len <= UINT64_MAX - extent->file);
	assert(extent->state == EXTENT_DELAYED || extent->reserved == 0);
	if (record.state == EXTENT_DELAYED)
		record.start = EXTENT_NO_START;
	change.place = place_find(map, extent->file);
	change.nr_old = 0;
	assert(place_is_end(map, change.place) ||
	       record_at(map, change.place)->file >= extent_end(extent));

	list_start(&change.list);
	err = list_add_record(&change.list, map, &record);
	if (!err)
		err = change_prepare(map, &change);
	if (!err)
		change_commit(map, &change);
	list_finish(&change.list);
	return err;
}

/* What the part of a record that lies in the converted range [file, ..) becomes. */
static struct extent extent_converted(const struct extent *middle, uint64_t file, uint64_t start,
				      enum extent_state state)
{
	struct extent extent = *middle;

	assert(start != EXTENT_NO_START || middle->state != EXTENT_DELAYED);
	if (start != EXTENT_NO_START)
		extent.start = start + (middle->file - file);
	extent.state = state;
	extent.reserved = 0;
	return extent;
}

int extent_map_convert(struct extent_map *map, uint64_t file, uint64_t len, uint64_t start,
		       enum extent_state state, uint32_t *reserved)
{
	uint64_t end = file + len;
	uint64_t pos = file;
	uint32_t given_back = 0;
	struct change change;
	struct place place;
	int err = 0;

	assert(len > 0);
	assert(state != EXTENT_DELAYED);
	change.place = place_find(map, file);
	change.nr_old = 0;
	list_start(&change.list);

	for (place = change.place; pos < end && !err; place = place_next(map, place)) {
		struct extent converted;
		struct cut cut;

		assert(!place_is_end(map, place));
		assert(record_at(map, place)->file <= pos);
		cut = extent_cut(record_at(map, place), file, end);
		converted = extent_converted(&cut.middle, file, start, state);
		pos = extent_end(&cut.middle);
		given_back += cut.middle.reserved;
		change.nr_old++;

		err = list_add_record(&change.list, map, &cut.head);
		if (!err)
			err = list_add_record(&change.list, map, &converted);
		if (!err)
			err = list_add_record(&change.list, map, &cut.tail);
	}
	if (!err)
		err = change_prepare(map, &change);
	if (!err) {
		change_commit(map, &change);
		if (reserved)
			*reserved = given_back;
	}
	list_finish(&change.list);
	return err;
}

static bool extent_goes(const struct extent *extent, bool only_delayed)
{
	return !only_delayed || extent->state == EXTENT_DELAYED;
}

/* Collect what stays of the records that the range touches, from the first that goes on. */
static int remove_plan(const struct extent_map *map, struct change *change, uint64_t file,
		       uint64_t end, bool only_delayed)
{
	struct place place = change->place;
	int err = 0;

	for (; !place_is_end(map, place) && !err; place = place_next(map, place)) {
		const struct extent *record = record_at(map, place);

		if (record->file >= end)
			break;
		if (change->nr_old == 0 && !extent_goes(record, only_delayed)) {
			change->place = place_next(map, place);
			continue;
		}
		change->nr_old++;
		if (extent_goes(record, only_delayed)) {
			struct cut cut = extent_cut(record, file, end);

			err = list_add_record(&change->list, map, &cut.head);
			if (!err)
				err = list_add_record(&change->list, map, &cut.tail);
		} else {
			err = list_add_record(&change->list, map, record);
		}
	}
	return err;
}

static void remove_report(const struct extent_map *map, struct place place, uint64_t file,
			  uint64_t end, bool only_delayed,
			  void (*fn)(void *arg, const struct extent *piece), void *arg)
{
	for (; !place_is_end(map, place); place = place_next(map, place)) {
		const struct extent *record = record_at(map, place);

		if (record->file >= end)
			break;
		if (extent_goes(record, only_delayed)) {
			struct cut cut = extent_cut(record, file, end);

			fn(arg, &cut.middle);
		}
	}
}

int extent_map_remove(struct extent_map *map, uint64_t file, uint64_t len, bool only_delayed,
		      void (*fn)(void *arg, const struct extent *piece), void *arg)
{
	uint64_t end = len <= UINT64_MAX - file ? file + len : UINT64_MAX;
	struct place first = place_find(map, file);
	struct change change;
	int err;

	change.place = first;
	change.nr_old = 0;
	list_start(&change.list);
	err = remove_plan(map, &change, file, end, only_delayed);
	if (!err && change.nr_old > 0) {
		err = change_prepare(map, &change);
		if (!err) {
			if (fn)
				remove_report(map, first, file, end, only_delayed, fn, arg);
			change_commit(map, &change);
		}
	}
	list_finish(&change.list);
	return err;
}

/* ---- checks --------------------------------------------------------------------------------- */

bool extent_map_ok(const struct extent_map *map)
{
	const struct extent *before = NULL;
	uint64_t nr = 0, nr_delayed = 0;

	assert(map->nr_chunks <= map->max_chunks);
	for (size_t c = 0; c < map->nr_chunks; c++) {
		const struct extent_chunk *chunk = map->chunks[c];

		assert(chunk->nr > 0);
		assert(chunk->nr <= CHUNK_RECORDS);
		for (size_t i = 0; i < chunk->nr; i++) {
			const struct extent *record = &chunk->records[i];

			assert(record->len > 0);
			assert(record->len <= len_limit(map, record->state));
			assert(record->state == EXTENT_DELAYED || record->reserved == 0);
			assert((record->state == EXTENT_DELAYED) ==
			       (record->start == EXTENT_NO_START));
			if (before) {
				assert(extent_end(before) <= record->file);
				assert(!extents_can_join(map, before, record));
			}
			before = record;
			nr_delayed += is_delayed(record);
		}
		nr += chunk->nr;
	}
	assert(nr == map->nr);
	assert(nr_delayed == map->nr_delayed);
	return true;
}

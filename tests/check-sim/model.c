/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * model.c - what a file must hold
 *
 * A read is checked against what was done before it began and what had begun when it ended.
 */
#include "check.h"

#include <string.h>

static uint64_t word_of(unsigned int nr, unsigned int cell, uint32_t version, unsigned int i)
{
	return (uint64_t)nr << 56 | (uint64_t)cell << 40 | (uint64_t)version << 16 | i << 8 | 0xa5;
}

static uint32_t version_of(uint64_t word)
{
	return (uint32_t)(word >> 16) & 0xffffff;
}

void model_init(struct model *model, unsigned int nr)
{
	memset(model, 0, sizeof(*model));
	model->nr = nr;
}

/* ---- changes ---- */

void model_write_start(struct model *model, unsigned int first, unsigned int nr, uint64_t *memory)
{
	uint32_t version = ++model->last_version;
	uint64_t now = ++model->now;
	uint64_t end = (uint64_t)(first + nr) * CELL;

	for (unsigned int i = 0; i < nr; i++) {
		model->cells[first + i].started = version;
		model->cells[first + i].ever = version;
		model->cells[first + i].started_at = now;
		for (unsigned int j = 0; j < CELL_WORDS; j++)
			*memory++ = word_of(model->nr, first + i, version, j);
	}
	if (end > model->size_started)
		model->size_started = end;
}

void model_write_done(struct model *model, unsigned int first, unsigned int nr,
		      unsigned int nr_accepted)
{
	uint64_t end = (uint64_t)(first + nr_accepted) * CELL;

	for (unsigned int i = 0; i < nr; i++) {
		struct cell *cell = &model->cells[first + i];

		if (i < nr_accepted) {
			cell->done = cell->started;
			cell->words = CELL_WORDS;
			cell->begun_at = cell->started_at;
			cell->done_at = ++model->now;
		}
	}
	if (nr_accepted && end > model->size_done)
		model->size_done = end;
}

/* The zeroes may be lost as any write. */
static void cut_cell(struct cell *cell, uint32_t words)
{
	cell->words = words;
	cell->durable = 0;
}

void model_resize(struct model *model, uint64_t size)
{
	for (unsigned int i = 0; i < FILE_CELLS; i++) {
		struct cell *cell = &model->cells[i];
		uint64_t pos = (uint64_t)i * CELL;

		if (pos >= size)
			*cell = (struct cell){.ever = cell->ever};
		else if (pos + cell->words * sizeof(uint64_t) > size)
			cut_cell(cell, (uint32_t)((size - pos) / sizeof(uint64_t)));
	}
	model->size_done = model->size_started = size;
}

void model_zero(struct model *model, unsigned int first, unsigned int nr, bool failed)
{
	for (unsigned int i = first; i < first + nr; i++) {
		struct cell *cell = &model->cells[i];

		if (failed)
			cell->durable = 0;
		else
			*cell = (struct cell){.ever = cell->ever};
	}
}

static void keep_cell(struct cell *cell)
{
	cell->durable = cell->done;
	cell->durable_words = cell->words;
}

/*
 * What was done before it is durable, unless an error was told since it began: that may have
 * been its own.
 */
void model_synced(struct model *model, uint64_t start, uint64_t told_at)
{
	for (unsigned int i = 0; i < FILE_CELLS; i++) {
		struct cell *cell = &model->cells[i];

		if (cell->done && cell->done_at <= start && cell->begun_at > told_at)
			keep_cell(cell);
	}
}

/* ---- checks ---- */

void model_expect(const struct model *model, unsigned int first, unsigned int nr,
		  struct expected *expected)
{
	memcpy(expected->cells, &model->cells[first], nr * sizeof(model->cells[0]));
	expected->size = model->size_done;
}

enum verdict { RIGHT, OLD, WRONG };

/* OLD: what it was, and may be again only after a failure, if nobody was promised more. */
static enum verdict judge(const struct model *model, unsigned int cell, unsigned int i,
			  uint64_t word, const struct cell *before)
{
	uint32_t version;

	if (word == 0 && (before->done == 0 || i >= before->words))
		return RIGHT;
	if (word == 0)
		return before->durable && i < before->durable_words ? WRONG : OLD;
	version = version_of(word);
	if (word != word_of(model->nr, cell, version, i) || version == 0)
		return WRONG;
	if (version > model->cells[cell].ever || version < before->durable)
		return WRONG;
	/* The zeroes of a cut. */
	if (version > model->cells[cell].started)
		return OLD;
	if (version < before->done)
		return OLD;
	return version > before->done || i < before->words ? RIGHT : OLD;
}

static void check_cell(struct model *model, unsigned int cell, unsigned int nr_words,
		       const struct cell *before, const uint64_t *words)
{
	for (unsigned int i = 0; i < nr_words; i++) {
		enum verdict verdict = judge(model, cell, i, words[i], before);

		if (verdict == RIGHT)
			continue;
		if (verdict == OLD && world_has_failed()) {
			model->lost = true;
			continue;
		}
		fail("file %u, cell %u (byte %u), word %u: read %016llx (version %u), should be "
		     "version %u to %u, %u words%s",
		     model->nr, cell, cell * CELL, i, (unsigned long long)words[i],
		     version_of(words[i]), before->done, model->cells[cell].started, before->words,
		     before->durable ? ", and was durable" : "");
	}
}

static void check_any_cell(const struct model *model, unsigned int cell, unsigned int nr_words,
			   const uint64_t *words)
{
	for (unsigned int i = 0; i < nr_words; i++) {
		uint32_t version = version_of(words[i]);

		check(words[i] == 0 || (words[i] == word_of(model->nr, cell, version, i) &&
					version <= model->cells[cell].ever),
		      "file %u, cell %u (byte %u), word %u: read %016llx, which it never was",
		      model->nr, cell, cell * CELL, i, (unsigned long long)words[i]);
	}
}

void model_check_any(const struct model *model, unsigned int first, unsigned int nr,
		     const uint64_t *memory, ssize_t got)
{
	check(got >= 0 || world_has_failed(), "a read gave %zd", got);
	for (unsigned int i = 0; i < nr && (ssize_t)(i * CELL) < got; i++) {
		uint64_t left = (uint64_t)got - i * CELL;

		left = left < CELL ? left : CELL;
		check_any_cell(model, first + i, (unsigned int)(left / sizeof(uint64_t)),
			       memory + i * CELL_WORDS);
	}
}

void model_check(struct model *model, unsigned int first, unsigned int nr,
		 const struct expected *expected, const uint64_t *memory, ssize_t got)
{
	uint64_t pos = (uint64_t)first * CELL, end = pos + nr * CELL;
	uint64_t least = expected->size < end ? expected->size : end;
	uint64_t most = model->size_started < end ? model->size_started : end;

	least = least < pos ? 0 : least - pos;
	most = most < pos ? 0 : most - pos;
	if (world_has_failed()) {
		least = 0;
		if (got < 0)
			return;
	}
	check(got >= 0 && (uint64_t)got >= least && (uint64_t)got <= most,
	      "file %u: a read of %llu bytes at %llu gave %lld, should be %llu to %llu", model->nr,
	      (unsigned long long)(nr * CELL), (unsigned long long)pos, (long long)got,
	      (unsigned long long)least, (unsigned long long)most);
	for (unsigned int i = 0; i < nr && i * CELL < (uint64_t)got; i++) {
		uint64_t left = (uint64_t)got - i * CELL;

		left = left < CELL ? left : CELL;
		check_cell(model, first + i, (unsigned int)(left / sizeof(uint64_t)),
			   &expected->cells[i], memory + i * CELL_WORDS);
	}
}

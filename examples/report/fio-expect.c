/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * fio-expect.c - the bytes that fio's arithmetic prescribes, without running anything
 *
 * A clone makes passes.  In one pass each file takes as many whole blocks as it has room
 * for, unless blocks may repeat; all passes together stop at size (or io_size) times loops.
 */
#include "fio-run.h"

#include <string.h>

struct pass {
	struct fio_span bytes; /* what the files can take */
	bool endless; /* blocks may repeat: only the limit ends a pass */
};

static const struct fio_span unknown = {0, UINT64_MAX};

static uint64_t smallest(const struct fio_options *opt)
{
	if (opt->reads && opt->writes)
		return opt->bs[FIO_READ].min < opt->bs[FIO_WRITE].min ? opt->bs[FIO_READ].min
								      : opt->bs[FIO_WRITE].min;
	return opt->bs[opt->reads ? FIO_READ : FIO_WRITE].min;
}

/* Does this job write a number of bytes that can be told beforehand? */
static bool is_known(const struct fio_options *opt)
{
	return !opt->time_based && !opt->runtime && !opt->file_append && !opt->exitall &&
	       !opt->size.is_percent && !opt->io_size.is_percent &&
	       (opt->size.value || opt->filesize.max) && opt->filesize.min == opt->filesize.max;
}

/* One of nr_files files takes io_size bytes, less what does not fill a block. */
static uint64_t file_bytes(const struct fio_options *opt, const struct fio_scale *scale,
			   uint64_t clone, uint64_t nr)
{
	uint64_t unit = smallest(opt);
	uint64_t offset;
	uint64_t size;

	if (opt->filesize.max) {
		offset = opt->offset.is_percent ? 0
						: fio_scale_bytes(scale, opt->offset.value, unit);
		if (!opt->offset_increment.is_percent)
			offset += fio_scale_bytes(scale, opt->offset_increment.value, unit) * clone;
		size = fio_scale_bytes(scale, opt->filesize.max, unit);
		return size > offset ? size - offset : 0;
	}
	size = fio_scale_bytes(scale, opt->size.value, unit);
	return size / opt->nrfiles + (nr < size % opt->nrfiles / unit ? unit : 0);
}

static struct pass one_pass(const struct fio_options *opt, const struct fio_scale *scale,
			    uint64_t clone, uint64_t *total)
{
	uint64_t block = opt->bs[FIO_WRITE].max;
	struct pass pass = {.bytes = {0, 0}};

	*total = 0;
	for (uint64_t i = 0; i < opt->nrfiles; i++) {
		uint64_t size = file_bytes(opt, scale, clone, i);

		*total += size;
		pass.bytes.min += size - size % block;
		pass.bytes.max += size - size % opt->bs[FIO_WRITE].min;
	}
	pass.endless = opt->random && (opt->norandommap || opt->rand_run > 1 ||
				       opt->percentage_random[FIO_WRITE] < 100);
	return pass;
}

static uint64_t round_up(uint64_t bytes, uint64_t block)
{
	return (bytes + block - 1) / block * block;
}

static uint64_t at_most(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Passes of `room` bytes until the limits are met; io_size asks for more than loops. */
static uint64_t sum_passes(const struct fio_options *opt, uint64_t room, uint64_t once,
			   uint64_t block)
{
	uint64_t limit = round_up(once * opt->loops, block);
	uint64_t sum = at_most(room * opt->loops, limit);

	if (!opt->io_size.value || room == 0)
		return sum;
	while (sum < once && once - sum >= block)
		sum = at_most(sum + room, limit);
	return sum;
}

static struct fio_span clone_bytes(const struct fio_options *opt, const struct fio_scale *scale,
				   uint64_t clone)
{
	uint64_t block = opt->bs[FIO_WRITE].max;
	uint64_t total;
	struct pass pass = one_pass(opt, scale, clone, &total);
	uint64_t once = total;
	struct fio_span bytes;

	if (opt->size.value)
		once = at_most(once, fio_scale_bytes(scale, opt->size.value, smallest(opt)));
	if (opt->io_size.value)
		once = fio_scale_bytes(scale, opt->io_size.value, smallest(opt));
	if (pass.bytes.max == 0)
		return (struct fio_span){0, 0};
	if (pass.endless) {
		bytes.min = round_up(once * opt->loops, opt->bs[FIO_WRITE].min);
		bytes.max = once * opt->loops + block - 1;
		if (opt->bs[FIO_WRITE].min == block)
			bytes.max = bytes.min;
	} else {
		bytes.min = sum_passes(opt, pass.bytes.min, once, block);
		bytes.max = sum_passes(opt, pass.bytes.max, once, block);
	}
	if (opt->number_ios) {
		bytes.min =
			at_most(bytes.min, opt->number_ios * opt->loops * opt->bs[FIO_WRITE].min);
		bytes.max = at_most(bytes.max, opt->number_ios * opt->loops * block);
	}
	/* Reads take a share by chance, and holes may leave the end of a pass out. */
	if (opt->reads || opt->seq_hole)
		bytes.min = 0;
	if (opt->seq_hole)
		bytes.max = round_up(once * opt->loops, block);
	return bytes;
}

static struct fio_span job_bytes(const struct fio_options *opt, const struct fio_scale *scale)
{
	struct fio_span sum = {0, 0};

	if (!opt->writes || opt->create_only)
		return sum;
	if (!is_known(opt))
		return unknown;
	if (!opt->offset_increment.value) {
		sum = clone_bytes(opt, scale, 0);
		return (struct fio_span){sum.min * opt->numjobs, sum.max * opt->numjobs};
	}
	for (uint64_t i = 0; i < opt->numjobs; i++) {
		struct fio_span bytes = clone_bytes(opt, scale, i);

		sum.min += bytes.min;
		sum.max += bytes.max;
	}
	return sum;
}

struct fio_span fio_workload_expected_bytes(const struct fio_workload *workload,
					    const struct fio_scale *scale)
{
	struct fio_span sum = {0, 0};

	for (unsigned int i = 0; i < workload->nr_jobs; i++) {
		struct fio_span bytes = job_bytes(&workload->jobs[i].opt, scale);

		sum.min += bytes.min;
		sum.max = bytes.max == UINT64_MAX || sum.max == UINT64_MAX ? UINT64_MAX
									   : sum.max + bytes.max;
	}
	return sum;
}

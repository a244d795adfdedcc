/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * model-service.c - when each request is served and done, as arithmetic on given times (VC21)
 *
 * A bio longer than the longest request becomes several requests and completes with the last of
 * them.  What has no tag waits in order of submission until a request completes.
 *
 * Solid state: a request with a tag is given to the channels at once, which fixes when it
 * completes.
 *
 * Disk: a request begins when the head is free.  The window is those oldest ones that have tags;
 * from it goes the one with the lowest address at or beyond the head, else the one with the
 * lowest address.  The oldest is overtaken a bounded number of times.  A bio that continues a
 * request not begun, with a tag or without, is added to it instead of becoming one.
 */
#include "internal.h"
#include "model.h"

#include <iomap/trace.h>

#include <assert.h>
#include <errno.h>
#include <string.h>

#define NS_IN_S 1000000000ull

#define QUEUE_DEPTH_MAX 65536

/* About half a second of long requests, when all go on at the head. */
#define OVERTAKES_IN_WINDOWS 4

/* ---- one request ---- */

/* count at so many a second, rounded up; without a limit, 0. */
static uint64_t time_at_rate(uint64_t count, uint64_t rate)
{
	if (rate == 0)
		return 0;
	return (uint64_t)(((unsigned __int128)count * NS_IN_S + rate - 1) / rate);
}

static uint64_t later_of(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t sooner_of(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t bandwidth_of(const struct blkdev_profile *profile, enum bio_op op)
{
	return op == BIO_READ ? profile->read_bandwidth : profile->write_bandwidth;
}

/* Widen the write to whole units; those at its two ends are read if it lacks a part. */
static void cost_of_units(struct model_cost *cost, uint64_t unit, uint64_t addr, uint64_t len)
{
	uint64_t end = addr + len;
	uint64_t first = addr / unit;
	uint64_t last = (end - 1) / unit;
	bool first_is_partial = addr % unit != 0 || (first == last && end % unit != 0);
	bool last_is_partial = last != first && end % unit != 0;

	cost->media_written = (last - first + 1) * unit;
	cost->partial_units = (uint64_t)first_is_partial + last_is_partial;
	cost->media_read = cost->partial_units * unit;
}

struct model_cost model_cost(const struct blkdev_profile *profile, enum bio_op op, uint64_t addr,
			     uint64_t len)
{
	struct model_cost cost = {.latency_ns = profile->latency_ns};
	uint64_t iops = op == BIO_READ ? profile->read_iops : profile->write_iops;
	uint64_t media_ns;

	if (op == BIO_READ)
		cost.media_read = len;
	else if (op == BIO_WRITE)
		cost.media_written = len;
	if (op == BIO_WRITE && profile->unit)
		cost_of_units(&cost, profile->unit, addr, len);
	/* A unit must have been read before it can be written. */
	if (cost.partial_units)
		cost.latency_ns += profile->latency_ns;

	/* With requests in flight, the medium reads for one while it writes for another. */
	media_ns = later_of(time_at_rate(cost.media_read, profile->read_bandwidth),
			    time_at_rate(cost.media_written, profile->write_bandwidth));
	cost.service_ns = later_of(media_ns, time_at_rate(1, iops));
	return cost;
}

/* The greatest number whose square is not above n. */
static uint64_t square_root(uint64_t n)
{
	uint64_t root = 0;

	for (uint64_t bit = 1ull << 31; bit; bit >>= 1)
		if ((root + bit) * (root + bit) <= n)
			root += bit;
	return root;
}

uint64_t model_seek_ns(const struct blkdev_profile *profile, uint64_t size, enum bio_op op,
		       uint64_t from, uint64_t to)
{
	uint64_t distance = from < to ? to - from : from - to;
	uint64_t longest = profile->seek_max_ns - profile->seek_min_ns;
	uint64_t share; /* root of distance / size, in 1/65536 */
	uint64_t seek_ns;

	if (distance == 0)
		return 0;
	share = square_root((uint64_t)(((unsigned __int128)distance << 32) / size));
	seek_ns = profile->seek_min_ns + (uint64_t)((unsigned __int128)longest * share >> 16) +
		  profile->rotation_ns / 2;
	if (profile->passes_gaps && from < to)
		seek_ns = sooner_of(seek_ns, time_at_rate(distance, bandwidth_of(profile, op)));
	return seek_ns;
}

uint64_t model_copy_ns(const struct blkdev_profile *profile, enum bio_op op, uint64_t len,
		       unsigned int nr_copying)
{
	uint64_t shared_ns = time_at_rate(len * nr_copying, bandwidth_of(profile, op));

	return later_of(shared_ns, time_at_rate(len, profile->cpu_bandwidth));
}

/* ---- bios ---- */

static struct model_request request_of(const struct blkdev_profile *profile, struct model_io *io,
				       uint64_t i)
{
	struct model_request request = {.first = io, .last = io};
	uint64_t off = i * profile->max_request;

	request.addr = io->bio->addr + off;
	request.len = io->bio->len - off;
	if (profile->max_request)
		request.len = sooner_of(request.len, profile->max_request);
	return request;
}

struct model_io *model_io_create(const struct blkdev_profile *profile, struct bio *bio)
{
	struct model_io *io;
	uint64_t nr = 1;

	if (profile->max_request && bio->len > profile->max_request)
		nr = (bio->len - 1) / profile->max_request + 1;
	io = env_alloc(sizeof(*io) + nr * sizeof(io->requests[0]));
	if (!io)
		return NULL;
	*io = (struct model_io){.bio = bio, .nr = nr, .nr_left = nr};
	for (uint64_t i = 0; i < nr; i++)
		io->requests[i] = request_of(profile, io, i);
	return io;
}

static const struct bio *bio_of(const struct model_request *request)
{
	return request->first->bio;
}

/* Does it count for the limits of queue_bytes and queue_requests? */
static bool is_data(const struct bio *bio)
{
	return bio->op == BIO_WRITE && bio->kind == BIO_DATA;
}

/* ---- completions: a heap ---- */

static bool completes_before(const struct model_flight *a, const struct model_flight *b)
{
	return a->done_ns != b->done_ns ? a->done_ns < b->done_ns : a->nr < b->nr;
}

static void flights_add(struct model_queue *queue, struct model_flight flight)
{
	struct model_flight *heap = queue->flights;
	uint32_t i = queue->nr_flights++;

	while (i > 0 && completes_before(&flight, &heap[(i - 1) / 2])) {
		heap[i] = heap[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	heap[i] = flight;
}

/* The smaller child of i, or nr if it has none. */
static uint32_t first_child(const struct model_flight *heap, uint32_t nr, uint32_t i)
{
	uint32_t child = 2 * i + 1;

	if (child >= nr)
		return nr;
	if (child + 1 < nr && completes_before(&heap[child + 1], &heap[child]))
		child++;
	return child;
}

static struct model_request *flights_pop(struct model_queue *queue)
{
	struct model_flight *heap = queue->flights;
	struct model_request *request = heap[0].request;
	uint32_t nr = --queue->nr_flights;
	struct model_flight last = heap[nr];
	uint32_t i = 0;
	uint32_t child;

	while ((child = first_child(heap, nr, i)) < nr && completes_before(&heap[child], &last)) {
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = last;
	return request;
}

/* ---- waiting requests ---- */

/* The one of the list that the request continues and that has room for it. */
static struct model_request *continued_by(const struct blkdev_profile *profile,
					  struct model_request *list,
					  const struct model_request *request)
{
	for (; list; list = list->next)
		if (list->addr + list->len == request->addr &&
		    list->len + request->len <= profile->max_request &&
		    bio_of(list)->op == bio_of(request)->op &&
		    bio_of(list)->kind == bio_of(request)->kind)
			return list;
	return NULL;
}

/* Add the io to a request that it continues; false if there is none. */
static bool merge(struct model_queue *queue, struct model_io *io)
{
	struct model_request *request = &io->requests[0];
	struct model_request *before;

	if (!queue->profile->rotational || io->nr > 1 || io->bio->op == BIO_FLUSH)
		return false;
	before = continued_by(queue->profile, queue->window, request);
	if (!before)
		before = continued_by(queue->profile, queue->waiting, request);
	if (!before)
		return false;
	before->last->next = io;
	before->last = io;
	before->len += request->len;
	queue->stats.merged++;
	return true;
}

static void waiting_add(struct model_queue *queue, struct model_request *request)
{
	uint64_t nr = ++queue->nr_waiting + queue->nr_flights;

	*queue->waiting_end = request;
	queue->waiting_end = &request->next;
	queue->stats.queue_max = later_of(queue->stats.queue_max, nr);
}

/* The oldest gets a tag. */
static struct model_request *waiting_take(struct model_queue *queue)
{
	struct model_request *request = queue->waiting;

	queue->waiting = request->next;
	if (!queue->waiting)
		queue->waiting_end = &queue->waiting;
	request->next = NULL;
	return request;
}

/* There is one that waits for a tag, and there is a tag. */
static bool may_take(const struct model_queue *queue)
{
	return queue->waiting && queue->nr_window + queue->nr_flights < queue->profile->queue_depth;
}

/* ---- a disk's window ---- */

static void window_fill(struct model_queue *queue)
{
	while (may_take(queue)) {
		struct model_request *request = waiting_take(queue);

		*queue->window_end = request;
		queue->window_end = &request->next;
		queue->nr_window++;
	}
}

/* Take out the one that link points to. */
static struct model_request *window_take(struct model_queue *queue, struct model_request **link)
{
	struct model_request *request = *link;

	if (link == &queue->window)
		queue->nr_overtakes = 0;
	else
		queue->nr_overtakes++;
	*link = request->next;
	if (queue->window_end == &request->next)
		queue->window_end = link;
	request->next = NULL;
	queue->nr_window--;
	return request;
}

/* May the head go to a request before it goes to best?  The older of equals stays best. */
static bool goes_before(const struct model_request *request, const struct model_request *best,
			uint64_t head_addr)
{
	bool is_ahead = request->addr >= head_addr;
	bool best_is_ahead = best->addr >= head_addr;

	if (is_ahead != best_is_ahead)
		return is_ahead;
	return request->addr < best->addr;
}

static struct model_request **elevator_choose(struct model_queue *queue)
{
	struct model_request **best = &queue->window;
	struct model_request **link;

	if (queue->nr_overtakes >= OVERTAKES_IN_WINDOWS * queue->profile->queue_depth)
		return best;
	for (link = &queue->window; *link; link = &(*link)->next) {
		/* It does not move the head. */
		if (bio_of(*link)->op == BIO_FLUSH)
			return link;
		if (goes_before(*link, *best, queue->head_addr))
			best = link;
	}
	return best;
}

/* ---- service ---- */

static unsigned int free_first(const struct model_queue *queue)
{
	unsigned int first = 0;

	for (unsigned int i = 1; i < queue->profile->channels; i++)
		if (queue->free_ns[i] < queue->free_ns[first])
			first = i;
	return first;
}

/* Give the channel that is free first a piece of the bio; returns when it begins. */
static uint64_t channel_serve(struct model_queue *queue, enum bio_op op, uint64_t len, uint64_t ns,
			      uint64_t *end_ns)
{
	static const char *const names[BIO_NR_OPS] = {"read", "write", "flush"};
	unsigned int channel = free_first(queue);
	uint64_t begin_ns = later_of(queue->now_ns, queue->free_ns[channel]);

	queue->free_ns[channel] = begin_ns + ns;
	queue->stats.busy_ns[channel] += ns;
	*end_ns = later_of(*end_ns, begin_ns + ns);
	env_trace_span(ENV_TRACK_CHANNEL, channel, names[op], begin_ns, begin_ns + ns, len);
	return begin_ns;
}

/* How many channels serve a request together. */
static unsigned int nr_pieces(const struct blkdev_profile *profile, uint64_t len)
{
	uint64_t nr;

	if (profile->stripe == 0 || len <= profile->stripe)
		return 1;
	nr = (len - 1) / profile->stripe + 1;
	return (unsigned int)sooner_of(nr, profile->channels);
}

/* Bytes of piece i of nr: the first ones have one more. */
static uint64_t piece_len(uint64_t len, unsigned int nr, unsigned int i)
{
	return len / nr + (i < len % nr);
}

static uint64_t move_head(struct model_queue *queue, const struct model_request *request)
{
	uint64_t from = queue->head_addr;
	uint64_t seek_ns;

	if (!queue->profile->rotational || bio_of(request)->op == BIO_FLUSH)
		return 0;
	queue->head_addr = request->addr + request->len;
	seek_ns = model_seek_ns(queue->profile, queue->size, bio_of(request)->op, from,
				request->addr);
	queue->stats.seeks += from != request->addr;
	queue->stats.seek_ns += seek_ns;
	return seek_ns;
}

void model_stats_add(struct blkdev_model_stats *stats, const struct model_cost *cost)
{
	stats->ios++;
	stats->media_read += cost->media_read;
	stats->media_written += cost->media_written;
	stats->partial_units += cost->partial_units;
}

/* The request has its tag: settle when it completes. */
static void begin(struct model_queue *queue, struct model_request *request)
{
	const struct blkdev_profile *profile = queue->profile;
	enum bio_op op = bio_of(request)->op;
	uint64_t len = request->len;
	struct model_cost cost = model_cost(profile, op, request->addr, len);
	unsigned int nr = nr_pieces(profile, len);
	uint64_t channels_ns = cost.service_ns * profile->channels;
	uint64_t piece_ns = (channels_ns + nr - 1) / nr + move_head(queue, request);
	uint64_t end_ns = 0;
	/* The first piece gets the channel that is free first. */
	uint64_t begin_ns = channel_serve(queue, op, piece_len(len, nr, 0), piece_ns, &end_ns);

	for (unsigned int i = 1; i < nr; i++)
		channel_serve(queue, op, piece_len(len, nr, i), piece_ns, &end_ns);
	queue->nr_waiting--;
	model_stats_add(&queue->stats, &cost);
	queue->stats.queue_wait_ns += begin_ns - queue->now_ns;
	flights_add(queue, (struct model_flight){.done_ns = end_ns + cost.latency_ns,
						 .nr = queue->nr_begun++,
						 .request = request});
}

/* ---- time ---- */

/* More or less data in the device. */
static void count_data(struct model_queue *queue, const struct bio *bio, int64_t nr, int64_t bytes)
{
	if (!is_data(bio))
		return;
	__atomic_store_n(&queue->nr_data, queue->nr_data + nr, __ATOMIC_RELAXED);
	__atomic_store_n(&queue->data_bytes, queue->data_bytes + bytes, __ATOMIC_RELAXED);
}

static void request_done(struct model_queue *queue, struct model_io *io)
{
	if (--io->nr_left > 0)
		return;
	io->next = NULL;
	*queue->done_end = io;
	queue->done_end = &io->next;
}

static void complete_first(struct model_queue *queue)
{
	struct model_request *request = flights_pop(queue);
	struct model_io *last = request->last;
	struct model_io *io, *next = request->first;

	count_data(queue, bio_of(request), -1, -(int64_t)request->len);
	do {
		io = next;
		next = io->next;
		request_done(queue, io);
	} while (io != last);
}

/* All that happens now. */
static void settle(struct model_queue *queue)
{
	while (queue->nr_flights > 0 && queue->flights[0].done_ns <= queue->now_ns)
		complete_first(queue);
	if (!queue->profile->rotational) {
		while (may_take(queue))
			begin(queue, waiting_take(queue));
	} else {
		window_fill(queue);
		while (queue->window && queue->free_ns[0] <= queue->now_ns)
			begin(queue, window_take(queue, elevator_choose(queue)));
	}
}

/* When settle() has work again.  What has just begun may be done already. */
static uint64_t next_event(const struct model_queue *queue)
{
	uint64_t next = queue->nr_flights > 0 ? queue->flights[0].done_ns : UINT64_MAX;

	if (queue->window)
		next = sooner_of(next, queue->free_ns[0]);
	return next;
}

static void set_time(struct model_queue *queue, uint64_t now_ns)
{
	if (now_ns <= queue->now_ns)
		return;
	queue->stats.queue_wait_ns += queue->nr_waiting * (now_ns - queue->now_ns);
	queue->now_ns = now_ns;
}

void model_queue_advance(struct model_queue *queue, uint64_t now_ns)
{
	uint64_t next;

	now_ns = later_of(now_ns, queue->now_ns);
	while ((next = next_event(queue)) <= now_ns) {
		set_time(queue, next);
		settle(queue);
	}
	set_time(queue, now_ns);
}

bool model_queue_submit(struct model_queue *queue, struct model_io *io, uint64_t now_ns)
{
	struct model_request *request = &io->requests[io->nr_submitted++];
	bool more = io->nr_submitted < io->nr;

	model_queue_advance(queue, now_ns);
	if (!merge(queue, io)) {
		waiting_add(queue, request);
		count_data(queue, io->bio, 1, request->len);
	} else {
		count_data(queue, io->bio, 0, request->len);
	}
	settle(queue);
	return more;
}

struct model_io *model_queue_take_done(struct model_queue *queue)
{
	struct model_io *done = queue->done;

	queue->done = NULL;
	queue->done_end = &queue->done;
	return done;
}

uint64_t model_queue_next(const struct model_queue *queue)
{
	return queue->done ? queue->now_ns : next_event(queue);
}

bool model_queue_is_idle(const struct model_queue *queue)
{
	return queue->nr_waiting == 0 && queue->nr_flights == 0 && !queue->done;
}

/* ---- life ---- */

int model_check_profile(const struct blkdev_profile *profile)
{
	if (profile->channels == 0 || profile->channels > BLKDEV_MODEL_CHANNELS_MAX)
		return -EINVAL;
	if (profile->queue_depth == 0 || profile->queue_depth > QUEUE_DEPTH_MAX)
		return -EINVAL;
	if (profile->seek_min_ns > profile->seek_max_ns)
		return -EINVAL;
	if (profile->rotational && (profile->channels > 1 || profile->synchronous))
		return -EINVAL;
	if (profile->max_request % BLKDEV_SECTOR)
		return -EINVAL;
	return 0;
}

int model_queue_init(struct model_queue *queue, const struct blkdev_profile *profile, uint64_t size)
{
	assert(model_check_profile(profile) == 0);

	*queue = (struct model_queue){.profile = profile, .size = size};
	queue->flights = env_alloc(profile->queue_depth * sizeof(queue->flights[0]));
	if (!queue->flights)
		return -ENOMEM;
	queue->waiting_end = &queue->waiting;
	queue->window_end = &queue->window;
	queue->done_end = &queue->done;
	queue->stats.channels = profile->channels;
	return 0;
}

void model_queue_uninit(struct model_queue *queue)
{
	env_free(queue->flights);
}

void model_queue_reset_stats(struct model_queue *queue)
{
	queue->stats = (struct blkdev_model_stats){
		.channels = queue->profile->channels,
		.queue_max = queue->nr_waiting + queue->nr_flights,
	};
}

/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * published-jobs.h - workloads that several published tables were measured with
 */
#ifndef REPORT_PUBLISHED_JOBS_H
#define REPORT_PUBLISHED_JOBS_H

#define JOB_IN_DIRECTORY(n) "[job" #n "]\ndirectory=/mnt/dir" #n "\n\n"

/* 12 jobs of 1 GiB, each in 12 files of its own directory. */
#define JOB_TWELVE_DIRECTORIES                                                                     \
	"[global]\n"                                                                               \
	"bs=4k\n"                                                                                  \
	"iodepth=1\n"                                                                              \
	"rw=randwrite\n"                                                                           \
	"ioengine=io_uring\n"                                                                      \
	"nrfiles=12\n"                                                                             \
	"numjobs=1                # Each job writes to a different file\n"                         \
	"size=1g\n"                                                                                \
	"direct=0                 # Buffered I/O to trigger writeback\n"                           \
	"group_reporting=1\n"                                                                      \
	"create_on_open=1\n"                                                                       \
	"name=test\n"                                                                              \
	"\n" JOB_IN_DIRECTORY(1) JOB_IN_DIRECTORY(2) JOB_IN_DIRECTORY(3) JOB_IN_DIRECTORY(4)       \
		JOB_IN_DIRECTORY(5) JOB_IN_DIRECTORY(6) JOB_IN_DIRECTORY(7) JOB_IN_DIRECTORY(8)    \
			JOB_IN_DIRECTORY(9) JOB_IN_DIRECTORY(10) JOB_IN_DIRECTORY(11)              \
				JOB_IN_DIRECTORY(12)

/* 12 jobs, each with one file that is laid out before, for a minute. */
#define JOB_TWELVE_FILES                                                                           \
	"fio --directory=/mnt --name=test --bs=4k --iodepth=1024 --rw=randwrite "                  \
	"--ioengine=io_uring --time_based=1 --runtime=60 --numjobs=12 --size=450M --direct=0 "     \
	"--group_reporting"

#endif

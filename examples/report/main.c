/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * main.c - iomap-report
 */
#include "cli.h"

int main(int argc, char **argv)
{
	return report_main(argc, argv);
}

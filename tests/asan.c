/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * asan.c - what the leak checker shall not report
 *
 * The test runner itself loses a few bytes for each job it runs; ours it must report.
 */
#if defined(__SANITIZE_ADDRESS__)
#define UNDER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNDER_ASAN 1
#endif
#endif

#ifdef UNDER_ASAN
const char *__lsan_default_suppressions(void);
const char *__lsan_default_options(void);

__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void)
{
	return "leak:libcriterion\n";
}

__attribute__((visibility("default"))) const char *__lsan_default_options(void)
{
	return "print_suppressions=0";
}
#endif

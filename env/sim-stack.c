/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * sim-stack.c - names of functions, from the symbol table of the file they were loaded from
 *
 * dladdr() knows exported names only; most of ours are not.  The last file looked at is kept
 * mapped.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "sim.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
	const void *base; /* where it is loaded; NULL: none */
	const char *map; /* the file, NULL: cannot be read */
	size_t size;
} image;

static void image_unmap(void)
{
	if (image.map)
		munmap((void *)(uintptr_t)image.map, image.size);
	image.map = NULL;
	image.base = NULL;
}

static void image_map(const Dl_info *info)
{
	int fd = open(info->dli_fname, O_RDONLY | O_CLOEXEC);
	struct stat stat;
	void *map = MAP_FAILED;

	image_unmap();
	image.base = info->dli_fbase;
	/* The name of the program is what it was called by. */
	if (fd < 0)
		fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (fstat(fd, &stat) == 0 && stat.st_size > (off_t)sizeof(ElfW(Ehdr)))
		map = mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (map == MAP_FAILED)
		return;
	image.map = map;
	image.size = (size_t)stat.st_size;
}

/* Section number i, or NULL if it is not all in the file. */
static const ElfW(Shdr) * section(unsigned int i)
{
	const ElfW(Ehdr) *header = (const void *)image.map;
	const ElfW(Shdr) *sections = (const void *)(image.map + header->e_shoff);

	if (header->e_shoff > image.size ||
	    image.size - header->e_shoff < header->e_shnum * sizeof(*sections) ||
	    i >= header->e_shnum)
		return NULL;
	if (sections[i].sh_type == SHT_NOBITS || sections[i].sh_offset > image.size ||
	    sections[i].sh_size > image.size - sections[i].sh_offset)
		return NULL;
	return &sections[i];
}

static const ElfW(Shdr) * symbol_table(void)
{
	const ElfW(Ehdr) *header = (const void *)image.map;

	if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
		return NULL;
	for (unsigned int i = 0; i < header->e_shnum; i++) {
		const ElfW(Shdr) *table = section(i);

		if (table && table->sh_type == SHT_SYMTAB)
			return table;
	}
	return NULL;
}

static const char *string_at(const ElfW(Shdr) * strings, size_t at)
{
	const char *start = image.map + strings->sh_offset;

	if (at >= strings->sh_size || !memchr(start + at, '\0', strings->sh_size - at))
		return NULL;
	return start + at;
}

/* The function at the address as the file counts it. */
static const char *image_function(uintptr_t value, size_t *offset)
{
	const ElfW(Shdr) *table = symbol_table();
	const ElfW(Shdr) *strings = table ? section(table->sh_link) : NULL;
	const ElfW(Sym) * symbol;

	if (!strings)
		return NULL;
	symbol = (const void *)(image.map + table->sh_offset);
	for (size_t n = table->sh_size / sizeof(*symbol); n > 0; n--, symbol++) {
		if ((symbol->st_info & 0xf) != STT_FUNC || value < symbol->st_value ||
		    value - symbol->st_value >= symbol->st_size)
			continue;
		*offset = value - symbol->st_value;
		return string_at(strings, symbol->st_name);
	}
	return NULL;
}

static uintptr_t load_offset(const Dl_info *info)
{
	const ElfW(Ehdr) *header = (const void *)image.map;

	return header->e_type == ET_EXEC ? 0 : (uintptr_t)info->dli_fbase;
}

bool sim_stack_name(const void *addr, char *name, size_t size, size_t *offset)
{
	const char *found = NULL;
	Dl_info info;

	if (!dladdr(addr, &info))
		return false;
	if (image.base != info.dli_fbase)
		image_map(&info);
	if (image.map)
		found = image_function((uintptr_t)addr - load_offset(&info), offset);
	if (!found && info.dli_sname) {
		found = info.dli_sname;
		*offset = (size_t)((uintptr_t)addr - (uintptr_t)info.dli_saddr);
	}
	if (!found) {
		found = strrchr(info.dli_fname, '/');
		found = found ? found + 1 : info.dli_fname;
		*offset = (size_t)((uintptr_t)addr - (uintptr_t)info.dli_fbase);
	}
	snprintf(name, size, "%s", found);
	return true;
}

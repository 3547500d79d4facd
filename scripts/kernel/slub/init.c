// SPDX-License-Identifier: GPL-2.0
/*
 * init.c - the only program of the machine: prints the counters of the test's caches, shrinks and destroys
 * them, and powers off.  It waits for nothing: slubtest.c has run when it starts.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <unistd.h>

#define SLABS "/sys/kernel/slab"

static int get(const char *path, char *text, int size)
{
	int fd = open(path, O_RDONLY), n = fd < 0 ? -1 : (int)read(fd, text, size - 1);

	if (fd >= 0)
		close(fd);
	text[n < 0 ? 0 : n] = 0;
	return n;
}

static int put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY), n = fd < 0 ? -1 : (int)write(fd, text, strlen(text));

	if (fd >= 0)
		close(fd);
	return n;
}

static void show(const char *label, const char *path)
{
	char text[8192];

	if (get(path, text, sizeof text) > 0)
		printf("%s%s: %s", label, strrchr(path, '/') + 1, text);
}

static void show_slab(const char *slab)
{
	static const char *const names[] = {
		"alloc_fastpath", "alloc_slowpath", "free_fastpath", "free_remote", "free_slowpath",
		"barn_get", "barn_get_fail", "barn_put", "barn_put_fail", "barn_raise", "sheaf_refill",
		"sheaf_flush", "sheaf_alloc", "sheaf_free", "alloc_slab", "free_slab", "free_add_partial",
		"free_remove_partial", "free_rcu_sheaf", "free_rcu_sheaf_fail", "cmpxchg_double_fail",
		"sheaf_capacity", "objs_per_slab", "slab_size", "slabs", "objects", "total_objects",
	};

	for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
		char path[256];
		snprintf(path, sizeof path, SLABS "/%s/%s", slab, names[i]);
		show("", path);
	}
}

/* Frees what CPUs and barns keep; then nothing is in use. */
static void shrink_slab(const char *slab)
{
	char path[256];

	snprintf(path, sizeof path, SLABS "/%s/shrink", slab);
	put(path, "1");
	snprintf(path, sizeof path, SLABS "/%s/slabs", slab);
	show("shrunk ", path);
	snprintf(path, sizeof path, SLABS "/%s/objects", slab);
	show("shrunk ", path);
}

static int each_slab(void (*what)(const char *slab))
{
	DIR *dir = opendir(SLABS);
	struct dirent *entry;
	int n = 0;

	while (dir && (entry = readdir(dir)))
		if (strncmp(entry->d_name, "slubtest", 8) == 0) {
			n++;
			if (what) {
				printf("== %s\n", entry->d_name);
				what(entry->d_name);
			}
		}
	if (dir)
		closedir(dir);
	return n;
}

/* A CPU of four goes: what it has must not be lost. */
static void hotplug(void)
{
	for (int cpu = 2; cpu < 64; cpu += 4) {
		char path[128];
		snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/online", cpu);
		if (put(path, "0") < 0)
			printf("cpu %d stays\n", cpu);
	}
	show("gone ", "/sys/devices/system/cpu/online");
}

int main(void)
{
	char line[4096];

	mount("proc", "/proc", "proc", 0, 0);
	mount("sysfs", "/sys", "sysfs", 0, 0);
	mount("dev", "/dev", "devtmpfs", 0, 0);
	show("", "/proc/version");
	show("", "/proc/cmdline");
	show("", "/sys/devices/system/cpu/online");
	show("", "/sys/devices/system/node/online");
	show("", "/sys/devices/system/node/has_normal_memory");
	each_slab(show_slab);
	get("/proc/cmdline", line, sizeof line);
	if (strstr(line, "hotplug"))
		hotplug();
	each_slab(shrink_slab);
	put("/sys/module/slubtest/parameters/finish", "1");
	printf("left %d caches\nDONE\n", each_slab(NULL));
	fflush(stdout);
	sync();
	reboot(RB_POWER_OFF);
	return 0;
}

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# needs: tool preload
"""Call sites in a library that was closed keep its name and their functions; a stack goes on beyond code that was made at run time (JIT),
which has the names that its compiler wrote for perf; names of Rust, of both manglings, are readable."""
import json
import os
import platform
import subprocess
import sys
import tempfile

from tool import CLEAN, SANITIZED, STOOK, stook

if SANITIZED or platform.libc_ver()[0] != "glibc" or tuple(map(int, platform.libc_ver()[1].split("."))) < (2, 35):
    sys.exit(77)
work = tempfile.mkdtemp()
LIBRARY = """
#include <stdlib.h>
__attribute__((noinline)) void *in_library(void) { return malloc(1000); }
"""
PROGRAM = """
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
void *kept[20000];
typedef void *function(size_t);
__attribute__((noinline)) void *calls_jit(function *f) { void *p = f(3000); return kept[0] = p; }
int main(int argc, char **argv)
{
    void *library = dlopen("./lib.so", RTLD_NOW);
    function *in_library = (function *)dlsym(library, "in_library");
    for (int i = 0; i < 5000; i++)
        kept[i] = in_library(0);
    dlclose(library);
#ifdef __x86_64__ /* push %rbp; mov %rsp, %rbp; mov $malloc, %rax; call *%rax; pop %rbp; ret */
    unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xd0, 0x5d, 0xc3};
    unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *to = (void *)malloc;
    memcpy(code + 6, &to, 8);
    memcpy(page, code, sizeof(code));
    char name[64];
    snprintf(name, sizeof(name), "/tmp/perf-%d.map", (int)getpid());
    FILE *map = argc > 1 ? fopen(name, "wx") : NULL;
    if (map && fprintf(map, "%lx 12 made_at_run_time\\n", (unsigned long)page) > 0)
        fclose(map);
    for (int i = 5000; i < 10000; i++)
        kept[i] = calls_jit((function *)page);
#endif
    puts("ready");
    fflush(stdout);
    while (argc > 1 && getchar() != EOF)
        continue;
    return 0;
}
"""


def compile_it(text, name, *flags):
    with open(f"{work}/{name}.c", "w", encoding="ascii") as file:
        file.write(text)
    subprocess.run([os.environ["CC"], "-g", "-O1", "-fno-omit-frame-pointer", "-w", "-o", f"{work}/{name}", f"{work}/{name}.c", *flags], check=True)


compile_it(LIBRARY, "lib.so", "-shared", "-fPIC")
compile_it(PROGRAM, "program", "-ldl")
JIT = platform.machine() == "x86_64"
for settings in ({"STOOK_TAGS": "1"}, {"STOOK_SAMPLE": "16K"}, {"STOOK_DEBUG": "U"}):
    # While it runs, from outside.
    process = subprocess.Popen([STOOK, "run", "--", "./program", "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=work,
                               env={**CLEAN, **settings})
    assert process.stdout.readline() == "ready\n"
    page = f"{work}/page.html"
    stook("report", "--html", page, process.pid)
    with open(page, encoding="utf-8") as file:
        text = file.read()
    assert "in_library" in text, settings
    if JIT:
        assert "made_at_run_time" in text, settings
    process.communicate()
    if JIT:
        os.unlink(f"/tmp/perf-{process.pid}.map")
    if "STOOK_DEBUG" in settings:
        continue
    # Afterwards, by a profile; without names for perf.
    subprocess.run([STOOK, "run", "--", "./program"], stdout=subprocess.DEVNULL, cwd=work, check=True,
                   env={**CLEAN, **settings, "STOOK_PROFILE": f"{work}/profile"})
    with open(f"{work}/profile", encoding="utf-8") as file:
        mappings = json.load(file)["mappings"]
    assert len({(one["start"], one["path"]) for one in mappings}) == len(mappings), mappings
    closed = [one for one in mappings if one["path"].endswith("/lib.so")]
    assert len(closed) == 1 and closed[0]["path"].startswith("/") and len(closed[0]["build_id"]) == 40, closed
    table = stook("profile", "--top", "3", f"{work}/profile")
    assert "in_library" in table and (not JIT or "[JIT]" in table), table
    stook("profile", "--collapsed", f"{work}/folded", f"{work}/profile")
    with open(f"{work}/folded", encoding="utf-8") as file:
        lines = [line for line in file if "[JIT]" in line]
    if JIT and "STOOK_SAMPLE" in settings:
        assert lines and all(";calls_jit" in line and ";main" in line for line in lines), lines

# Rust's names, of both manglings.
compile_it("""
#include <stdlib.h>
void *kept[2000];
void *of_v0(void) __asm__("_RNvNtCsbmNqQUJIY6D_7mycrate5table3add");
void *of_legacy(void) __asm__("_ZN7mycrate5table6remove17h0123456789abcdefE");
__attribute__((noinline)) void *of_v0(void) { return malloc(1000); }
__attribute__((noinline)) void *of_legacy(void) { return malloc(2000); }
int main(void) { for (int i = 0; i < 1000; i++) { kept[i] = of_v0(); kept[1000 + i] = of_legacy(); } return 0; }
""", "rust", "-g0")
stook("profile", "--save", f"{work}/profile", "--", "./rust", cwd=work)
said = json.loads(stook("profile", "--json", f"{work}/profile"))
names = [site["frames"][-1]["function"] for site in said["sites"] if site["frames"]]
assert "mycrate::table::add" in names and "mycrate::table::remove" in names, names

#!/bin/bash
# SPDX-License-Identifier: MIT
# needs: tool preload
# modes: default locked debug
# python3 with all of its objects from malloc: JSON, dictionaries, lists, regular expressions,
# decimal numbers, threads, programs it starts, and extension modules, which it loads by dlopen.
. "$STOOK_SOURCE_DIR/tests/programs/lib_preload.sh"
need python3
export PYTHONMALLOC=malloc PYTHONHASHSEED=1
[ -z "${STOOK_DEBUG:-}" ] || export STOOK_DEBUG=FZP # U walks the stack of each of its millions of calls

cat >"$work/work.py" <<'PYTHON'
import collections, ctypes, decimal, hashlib, json, random, re, subprocess, sys, threading, zlib

random.seed(1)
data = [{"k%d" % i: [random.random(), "v" * (i % 97), None], "n": i} for i in range(20000)]
text = json.dumps(data)
assert json.loads(text) == data
print(len(text), len(re.findall(r"v+", text)), hashlib.sha256(text.encode()).hexdigest())

words = collections.Counter(re.sub(r"\W+", " ", text).split())
print(words.most_common(5), len(words))
table = {}
for i in range(200000):
    table[i * 7919 % 100003] = str(i)
    if i % 3 == 0:
        table.pop(i // 3, None)
print(len(table), sum(map(len, table.values())))
rows = sorted(([i * 31 % 1009, str(i)] for i in range(50000)), key=lambda r: (r[0], r[1]))
del rows[::2]
rows[100:200] = []
print(rows[:2], rows[-1], len(rows))
grown = bytearray()
for i in range(3000):
    grown += bytes([i % 256]) * (i % 1500)
print(len(grown), zlib.crc32(zlib.decompress(zlib.compress(bytes(grown)))))
print(decimal.getcontext().__class__.__name__, sum(map(decimal.Decimal, range(1000))), 7**9000 % 10**30)

results = [None] * 8


def thread(n):
    kept = [[str(i) * (i % 9), (i, n)] for i in range(10000)]
    results[n] = sum(len(a) for a, _ in kept)


threads = [threading.Thread(target=thread, args=(n,)) for n in range(8)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(results)

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
for n in (0, 1, 100, 40000, 3000000):
    libc.free(libc.malloc(ctypes.c_size_t(n)))
done = subprocess.run([sys.executable, "-c", "print(sum(len(str(i)) for i in range(10000)))"],
                      stdout=subprocess.PIPE, text=True, check=True)
print(done.stdout)
PYTHON
same python 'python*' "$python" "$work/work.py"
# With its own allocator too, which asks malloc for arenas and large objects.
unset PYTHONMALLOC
same own 'python*' "$python" "$work/work.py"

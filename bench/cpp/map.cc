// SPDX-License-Identifier: MIT
//
// A std::map<std::string, long> of a million nodes: filled, searched, walked, half replaced, emptied.  One program
// for each allocator: with BENCH_TYPED nodes come from stook::allocator, else from std::allocator on the malloc that is
// preloaded.  Prints one line of JSON: nanoseconds an operation, and resident bytes a node.
//
//   stook-bench-map-NAME NODES KEY_BYTES     keys up to 15 bytes are within the node, longer ones outside
//
#ifdef BENCH_TYPED
#include <stook/stook.hpp>
#endif

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <map>
#include <string>
#include <unistd.h>
#include <vector>

namespace
{

using entry = std::pair<const std::string, long>;
#ifdef BENCH_TYPED
using map = std::map<std::string, long, std::less<>, stook::allocator<entry>>;
#else
using map = std::map<std::string, long, std::less<>>;
#endif

double now()
{
    return std::chrono::duration<double, std::nano>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

// Without a buffer of stdio's, which is malloc's.
double resident()
{
    char text[128] = {};
    const int file = open("/proc/self/statm", O_RDONLY);
    if (file < 0 || read(file, text, sizeof(text) - 1) <= 0)
        std::abort();
    close(file);
    char *at = text;
    std::strtol(at, &at, 10);
    return static_cast<double>(std::strtol(at, nullptr, 10) * sysconf(_SC_PAGESIZE));
}

// A key of the length, which only its number decides.
void key_of(std::uint64_t number, std::string &key)
{
    number *= 0x9e3779b97f4a7c15u; // one to one, and without order
    number ^= number >> 32;
    number *= 0xd6e8feb86659fd93u | 1;
    for (char &c : key) {
        c = static_cast<char>('a' + number % 26);
        number = number / 26 ? number / 26 : 0x2545f4914f6cdd1du;
    }
}

} // namespace

int main(int argc, char **argv)
{
    const auto nodes = static_cast<std::uint64_t>(argc > 1 ? std::atol(argv[1]) : 1000000);
    std::string key(static_cast<std::size_t>(argc > 2 ? std::atol(argv[2]) : 12), 'x');
    auto *map = new ::map;
    long sum = 0;

    const double before = resident(), t0 = now();
    for (std::uint64_t i = 0; i < nodes; i++) {
        key_of(i, key);
        map->emplace(key, static_cast<long>(i));
    }
    const double t1 = now(), full = resident();
    const auto size = map->size();
    for (std::uint64_t i = 0; i < nodes; i++) {
        key_of(i * 7 % nodes, key);
        sum += map->find(key)->second;
    }
    const double t2 = now();
    for (const auto &[name, number] : *map)
        sum += number + name[0];
    const double t3 = now();
    // Every second node is replaced by another.
    for (std::uint64_t i = 0; i < nodes; i += 2) {
        key_of(i, key);
        map->erase(key);
        key_of(nodes + i, key);
        map->emplace(key, static_cast<long>(i));
    }
    const double t4 = now(), churned = resident();
    delete map;
    const double t5 = now(), empty = resident();
    const auto n = static_cast<double>(nodes), s = static_cast<double>(size);

    std::printf(
        "{\"nodes\": %zu, \"sum\": %ld, \"insert_ns\": %.1f, \"find_ns\": %.1f, \"walk_ns\": %.1f, "
        "\"replace_ns\": %.1f, \"delete_ns\": %.1f, \"node_bytes\": %.1f, \"churned_bytes\": %.1f, "
        "\"left_bytes\": %.1f}\n",
        size, sum, (t1 - t0) / n, (t2 - t1) / n, (t3 - t2) / s, (t4 - t3) / (n / 2), (t5 - t4) / s,
        (full - before) / s, (churned - before) / s, (empty - before) / s);
    return 0;
}

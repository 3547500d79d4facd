/* SPDX-License-Identifier: MIT */
/* link: none */
/* A C++ module for a program that is C: the C++ library comes and goes with it. */
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>

namespace
{
struct alignas(128) Shape {
    std::string name;
    std::vector<int> points;
};
std::map<std::string, std::shared_ptr<Shape>> shapes; /* destructed by dlclose */
thread_local std::string last = std::string(100, '-');

} // namespace

extern "C" __attribute__((visibility("default"))) char *shapes_add(int n)
{
    auto shape = std::make_shared<Shape>();

    shape->name = std::string(1 + n % 70, static_cast<char>('a' + n % 26));
    shape->points.resize(n % 500, n);
    shapes[shape->name] = shape;
    last = shape->name;
    char *copy = static_cast<char *>(std::malloc(last.size() + 1)); /* the caller frees it */
    std::strcpy(copy, last.c_str());
    return copy;
}

/* 1: too much was refused as C++ does. */
extern "C" __attribute__((visibility("default"))) int shapes_refuse()
{
    volatile std::size_t much = std::size_t{1} << 61;
    try {
        std::vector<Shape> many(much / sizeof(Shape));
    } catch (const std::bad_alloc &) {
        return operator new(much, std::nothrow) == nullptr;
    }
    return 0;
}

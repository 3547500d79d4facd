// SPDX-License-Identifier: MIT
// Allocates and frees by calls that belong together, or by such that do not: preload_mismatch.sh
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

struct alignas(64) line {
    char bytes[192];
};

static void right()
{
    std::vector<std::string> strings;
    for (int i = 0; i < 1000; i++)
        strings.push_back(std::string(static_cast<std::size_t>(i), 'x'));
    std::vector<std::unique_ptr<line>> lines;
    for (int i = 0; i < 100; i++) {
        lines.push_back(std::make_unique<line>());
        if (reinterpret_cast<std::uintptr_t>(lines.back().get()) % 64 != 0)
            std::abort();
    }
    std::unique_ptr<int[]> numbers(new int[77]());
    delete new (std::nothrow) line;
    ::operator delete(::operator new(33, std::nothrow), std::nothrow);
    ::operator delete[](::operator new[](33), static_cast<std::size_t>(33));
    for (std::size_t align = 8; align <= 65536; align *= 2)
        for (std::size_t size = 1; size < 40000; size = size * 3 + 1) {
            void *object = nullptr;
            if (posix_memalign(&object, align, size) != 0 ||
                reinterpret_cast<std::uintptr_t>(object) % align != 0)
                std::abort();
            std::memset(object, 1, size);
            std::free(object);
        }
    char *grows = nullptr;
    for (std::size_t size = 1; size < 5000000; size = size * 5 / 4 + 1) {
        grows = static_cast<char *>(std::realloc(grows, size));
        grows[0] = 'a';
        std::memset(grows + size / 2 + 1, 'b', size - size / 2 - 1);
        if (grows[0] != 'a')
            std::abort();
    }
    for (std::size_t size = 4000000; size > 1; size = size * 4 / 5) {
        grows = static_cast<char *>(std::realloc(grows, size));
        if (grows[0] != 'a' && size > 1)
            std::abort();
        grows[size - 1] = 'c';
    }
    std::free(grows);
    char *zeros = static_cast<char *>(std::calloc(300, 7));
    for (int i = 0; i < 2100; i++)
        if (zeros[i])
            std::abort();
    std::free(zeros);
}

int main(int argc, char **argv)
{
    void *volatile object;

    if (argc != 2)
        return 2;
    if (!std::strcmp(argv[1], "right")) {
        right();
    } else if (!std::strcmp(argv[1], "new-free")) {
        object = ::operator new(24);
        std::free(object);
    } else if (!std::strcmp(argv[1], "malloc-delete")) {
        object = std::malloc(24);
        ::operator delete(object);
    } else if (!std::strcmp(argv[1], "array")) {
        object = ::operator new[](24);
        ::operator delete(object);
    } else if (!std::strcmp(argv[1], "size")) {
        object = ::operator new(24);
        ::operator delete(object, static_cast<std::size_t>(25));
    } else if (!std::strcmp(argv[1], "realloc")) {
        object = std::malloc(24);
        std::free(object);
        object = std::realloc(object, 30);
        return object != nullptr;
    } else if (!std::strcmp(argv[1], "large")) {
        volatile std::size_t size = 100000; /* or the compiler sees what is wrong */
        volatile char *bytes = static_cast<char *>(std::malloc(size));
        bytes[size] = 1;
        std::free(const_cast<char *>(bytes));
    } else if (!std::strcmp(argv[1], "fail")) {
        void *volatile kept = std::malloc(3000); /* or the compiler needs no malloc to know */
        object = kept;
        return object != nullptr;
    }
    return 0;
}

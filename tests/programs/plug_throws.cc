/* SPDX-License-Identifier: MIT */
/* A plug-in in C++ for a host in C: its operator new is Stook's, the C++ library came with it. */
#include <cstddef>
#include <new>
#include <string>

extern "C" int plug_throws(void);

static volatile std::size_t much = std::size_t{1} << 62;
static int handled;

int plug_throws(void)
{
    int right = 0;
    std::string text(1000, 'x');

    try {
        text += *new char[much];
    } catch (const std::bad_alloc &) {
        right++;
    }
    right += new (std::nothrow) char[much] == nullptr;
    std::set_new_handler([] {
        handled++;
        throw std::bad_alloc();
    });
    right += new (std::nothrow) char[much] == nullptr;
    right += new (std::align_val_t{64}, std::nothrow) char[much] == nullptr;
    right += handled == 2;
    std::set_new_handler(nullptr);
    return right == 5 && text.size() == 1000 ? 0 : 1;
}

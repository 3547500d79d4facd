// SPDX-License-Identifier: MIT
//
// Sessions of a server in C++: objects of a cache, nodes of a map from a cache of their own, and the report.
//
#include <stook/stook.hpp>

#include <cstdio>
#include <map>
#include <memory>
#include <string>

namespace
{

struct session {
    std::string user;
    int requests = 0;

    explicit session(std::string name) : user(std::move(name))
    {
    }
};

stook::static_cache<session> sessions{"session"};
using session_ptr = std::unique_ptr<session, stook::deleter_of<sessions>>;
using session_map =
    std::map<int, session_ptr, std::less<>, stook::allocator<std::pair<const int, session_ptr>>>;

} // namespace

int main()
{
    session_map by_number;

    for (int i = 0; i < 1000; i++)
        by_number.emplace(i, sessions.make("user " + std::to_string(i)));
    by_number.at(7)->requests++;
    std::printf("%zu sessions, a pointer has %zu bytes\n", by_number.size(), sizeof(session_ptr));
    std::fflush(stdout);
    return stook_report(1, STOOK_REPORT_TABLE);
}

// SPDX-License-Identifier: MIT
//
// group.hpp - stook::group and stook::group_scope: memory by owner, and limits (docs/groups.md).
// Include <stook/stook.hpp>.
//
#ifndef STOOK_CPP_GROUP_HPP
#define STOOK_CPP_GROUP_HPP

#include <stook/cpp/base.hpp>

// struct stook_group_stat and the call of that name are two things, in C++ too; GCC warns of them.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#include <stook/group.h>
#pragma GCC diagnostic pop

namespace stook
{

//
// A group.  Objects of caches with STOOK_CACHE_ACCOUNT are charged to the group that the thread is in; at its limit
// an allocation is std::bad_alloc with errno EDQUOT.  The destructor destroys the group, whose
// objects may live on: the parent has their charge.  Children must end before.
//
class group
{
  public:
    // std::bad_alloc; errno as of stook_group_create().
    explicit group(const char *name, std::size_t limit = STOOK_UNLIMITED)
        : group(name, STOOK_NO_GROUP, limit)
    {
    }

    group(const char *name, const group &parent, std::size_t limit = STOOK_UNLIMITED)
        : group(name, parent.id_, limit)
    {
    }

    group(group &&other) noexcept : id_(std::exchange(other.id_, STOOK_NO_GROUP))
    {
    }

    group &operator=(group &&other) noexcept
    {
        std::swap(id_, other.id_);
        return *this;
    }

    ~group()
    {
        static_cast<void>(stook_group_destroy(id_));
    }

    // The library's number of it, for its other calls.
    [[nodiscard]] struct stook_group get() const noexcept
    {
        return id_;
    }

    void set_limit(std::size_t bytes) noexcept
    {
        static_cast<void>(stook_group_set_limit(id_, bytes));
    }

    [[nodiscard]] struct stook_group_stat stat() const noexcept
    {
        struct stook_group_stat stat = {};

        stat.size = sizeof(stat);
        static_cast<void>(stook_group_stat(id_, &stat));
        return stat;
    }

    // Bytes that live objects are charged, here and in groups below.
    [[nodiscard]] std::uint64_t usage() const noexcept
    {
        return stat().usage;
    }

  private:
    group(const char *name, struct stook_group parent, std::size_t limit)
        : id_(stook_group_create(name, parent, limit))
    {
        if (stook_group_is_none(id_))
            detail::fail();
    }

    struct stook_group id_;
};

//
// The thread is in a group from the constructor to the destructor, which must run in the same thread.
//
class [[nodiscard]] group_scope
{
  public:
    explicit group_scope(const group &entered) noexcept : group_scope(entered.get())
    {
    }

    // STOOK_NO_GROUP: in none.
    explicit group_scope(struct stook_group entered) noexcept : before_(stook_group_enter(entered))
    {
    }

    group_scope(const group_scope &) = delete;
    group_scope &operator=(const group_scope &) = delete;

    ~group_scope()
    {
        stook_group_leave(before_);
    }

  private:
    struct stook_group before_;
};

} // namespace stook

#endif // STOOK_CPP_GROUP_HPP

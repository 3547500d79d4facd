// SPDX-License-Identifier: MIT
//
// What users of stook.hpp are compiled to, beside inline_pair.c; scripts/golden-instructions.py compares
// them.  A plain object has nothing to construct.
//
#include <stook/stook.hpp>

struct plain {
    long member[4];
};
struct typed : stook::typed_new<typed> {
    long member[4];
    typed() noexcept
    {
    }
};
extern stook::cache<plain> golden_plains;
extern stook::static_cache<plain> golden_lazy;

extern "C" {

plain *golden_make(stook::cache_view<plain> cache)
{
    return cache.make_for_overwrite();
}

void golden_destroy(stook::cache_view<plain> cache, plain *object)
{
    cache.destroy(object);
}

plain *golden_make_static()
{
    return golden_plains.make_for_overwrite();
}

void golden_destroy_static(plain *object)
{
    golden_plains.destroy(object);
}

plain *golden_make_lazy()
{
    return golden_lazy.make_for_overwrite();
}

void golden_destroy_lazy(plain *object)
{
    golden_lazy.destroy(object);
}

typed *golden_new()
{
    return new typed;
}

void golden_delete(typed *object)
{
    delete object;
}

plain *golden_node(stook::allocator<plain> allocator)
{
    return allocator.allocate(1);
}

void golden_node_free(stook::allocator<plain> allocator, plain *object)
{
    allocator.deallocate(object, 1);
}
}

/* SPDX-License-Identifier: MIT */
/*
 * _alloc.c - Python's memory from Stook: up to SIZES_MAX bytes from caches by size, above that from the allocator
 * that was there.
 *
 * Invariant: a pointer is freed by the allocator that made it.  Objects from before the install, and those above
 * SIZES_MAX, lie in no cache of Stook, so stook_cache_of() tells the two apart by the address.  An object that moves
 * between the two is copied.  The install cannot be undone: live objects would be left to the old allocator.
 *
 * Locks: none.  Python calls `mem` and `obj` with its GIL, `raw` without; the caches are safe in either case.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stook/inline.h>

#include <stdint.h>
#include <string.h>

enum {
    STEP = 16,
    FINE_MAX = 512,   /* steps of 16 up to here, where most of Python's objects are */
    SIZES_MAX = 8192, /* 8 a doubling up to here */
    FINE = FINE_MAX / STEP,
    CLASSES = FINE + 4 * 8,
    DOMAINS = 3,
};

static struct stook_cache *caches[CLASSES];
static struct stook_cache *by_step[SIZES_MAX / STEP + 1]; /* for sizes up to this many steps */
static PyMemAllocatorEx old[DOMAINS];
static int installed;
static const char *const domain_names[DOMAINS] = {"raw", "mem", "obj"};

static size_t class_size(unsigned class)
{
    unsigned k = class - FINE;

    if (class < FINE)
        return ((size_t) class + 1) * STEP;
    return ((size_t)FINE_MAX << k / 8) + ((size_t)(k % 8 + 1) << (6 + k / 8));
}

/* Of a size up to SIZES_MAX, in one load; 0 bytes are an object too, as Python asks. */
static inline struct stook_cache *cache_for(size_t size)
{
    return by_step[(size + STEP - 1) / STEP];
}

static void *alloc(void *context, size_t size)
{
    PyMemAllocatorEx *under = context;

    if (__builtin_expect(size > SIZES_MAX, 0))
        return under->malloc(under->ctx, size);
    return stook_alloc_inline(cache_for(size), STOOK_WAIT);
}

static void *alloc_zeroed(void *context, size_t count, size_t size)
{
    PyMemAllocatorEx *under = context;
    size_t bytes;
    void *object;

    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZES_MAX)
        return under->calloc(under->ctx, count, size); /* which refuses what overflows */
    object = stook_alloc_inline(cache_for(bytes), STOOK_WAIT);
    return object ? memset(object, 0, bytes) : NULL;
}

static void release(void *context, void *object)
{
    PyMemAllocatorEx *under = context;
    struct stook_cache *cache = stook_cache_of(object);

    if (__builtin_expect(cache != NULL, 1))
        stook_free_inline(cache, object);
    else
        under->free(under->ctx, object);
}

static void *resize(void *context, void *object, size_t size)
{
    PyMemAllocatorEx *under = context;
    struct stook_cache *cache;
    size_t had;
    void *fresh;

    if (!object)
        return alloc(context, size);
    cache = stook_cache_of(object);
    if (!cache)
        return under->realloc(under->ctx, object,
                              size); /* its old size is not known: it stays there */
    had = stook_cache_object_size(cache);
    if (size <= had && (size > had / 2 || had <= 2 * STEP))
        return object;
    fresh = alloc(context, size);
    if (!fresh)
        return size <= had ? object : NULL; /* what shrinks need not move */
    memcpy(fresh, object, had < size ? had : size);
    stook_free_inline(cache, object);
    return fresh;
}

static int make_caches(void)
{
    char name[32];

    for (unsigned i = 0; i < CLASSES; i++) {
        PyOS_snprintf(name, sizeof(name), "python-%zu", class_size(i));
        if (!caches[i])
            caches[i] = stook_cache_create(name, class_size(i), NULL);
        if (!caches[i])
            return -1;
    }
    for (unsigned step = 0, class = 0; step <= SIZES_MAX / STEP; step++) {
        class += class_size(class) < (size_t)step * STEP;
        by_step[step] = caches[class];
    }
    return 0;
}

static PyObject *install(PyObject *module, PyObject *args)
{
    int wanted[DOMAINS];

    (void)module;
    if (!PyArg_ParseTuple(args, "ppp", &wanted[0], &wanted[1], &wanted[2]))
        return NULL;
    if (make_caches() != 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    for (int i = 0; i < DOMAINS; i++) {
        PyMemAllocatorEx ours = {&old[i], alloc, alloc_zeroed, resize, release};

        if (!wanted[i] || installed & 1 << i)
            continue;
        PyMem_GetAllocator((PyMemAllocatorDomain)i, &old[i]);
        PyMem_SetAllocator((PyMemAllocatorDomain)i, &ours);
        installed |= 1 << i;
    }
    Py_RETURN_NONE;
}

static PyObject *domains(PyObject *module, PyObject *unused)
{
    PyObject *list = PyList_New(0);

    (void)module, (void)unused;
    for (int i = 0; list && i < DOMAINS; i++) {
        PyObject *name;

        if (!(installed & 1 << i))
            continue;
        name = PyUnicode_FromString(domain_names[i]);
        if (!name || PyList_Append(list, name) != 0)
            Py_CLEAR(list);
        Py_XDECREF(name);
    }
    return list;
}

static int count_object(void *object, void *n)
{
    (void)object;
    ++*(size_t *)n;
    return 0;
}

/* Live objects by size.  Nothing is allocated while a cache is walked. */
static PyObject *live(PyObject *module, PyObject *unused)
{
    PyObject *sizes = PyDict_New();

    (void)module, (void)unused;
    for (unsigned i = 0; sizes && i < CLASSES && caches[i]; i++) {
        PyObject *key, *value;
        size_t n = 0;

        if (stook_cache_walk(caches[i], count_object, &n) != 0) {
            Py_DECREF(sizes);
            return PyErr_SetFromErrno(PyExc_OSError);
        }
        if (!n)
            continue;
        key = PyLong_FromSize_t(class_size(i));
        value = PyLong_FromSize_t(n);
        if (!key || !value || PyDict_SetItem(sizes, key, value) != 0)
            Py_CLEAR(sizes);
        Py_XDECREF(key);
        Py_XDECREF(value);
    }
    return sizes;
}

static PyObject *is_ours(PyObject *module, PyObject *object)
{
    /* An object that the collector knows begins behind its head. */
    (void)module;
    return PyBool_FromLong(stook_cache_of(object) != NULL);
}

static PyMethodDef methods[] = {
    {"install", install, METH_VARARGS, "install(raw, mem, obj)"},
    {"domains", domains, METH_NOARGS, "The domains that are installed."},
    {"live", live, METH_NOARGS, "Live objects: a dict of sizes and counts."},
    {"is_ours", is_ours, METH_O, "Whether an object's memory is Stook's."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "stook._alloc", NULL, -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__alloc(void);
PyMODINIT_FUNC PyInit__alloc(void)
{
    return PyModule_Create(&definition);
}

/* What a small exchange costs most, in C: to read a push that has come as a whole, and to add it.

   Python has the same: what is not plain is left to it. Numbers are added and divided one by one,
   in their own dtype, as numpy does it. */

#include "_exchange.h"

#include <fenv.h>
#include <string.h>

/* One copy for each generation of processors; the loader takes the best. It does so before a
   sanitizer is ready. */
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__) &&                        \
    !defined(__SANITIZE_ADDRESS__)
#define FOR_EACH_PROCESSOR __attribute__((noinline, target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EACH_PROCESSOR __attribute__((noinline))
#endif

/* Bytes of a vector from which other threads may run meanwhile. */
#define LONG 65536

#define OVERFLOWED 1
#define INVALID 2
/* Nothing was done: it is no pair of vectors of float32 or float64. */
#define OTHERWISE -1

#define ADDING(name, type)                                                                         \
    FOR_EACH_PROCESSOR                                                                             \
    static void add_##name(type *center, type *delta, Py_ssize_t size) {                           \
        for (Py_ssize_t i = 0; i < size; i++) {                                                    \
            type sum = center[i] + delta[i];                                                       \
            center[i] = sum;                                                                       \
            delta[i] = sum;                                                                        \
        }                                                                                          \
    }                                                                                              \
    FOR_EACH_PROCESSOR                                                                             \
    static void divide_##name(type *center, type *delta, Py_ssize_t size, type divisor) {          \
        for (Py_ssize_t i = 0; i < size; i++) {                                                    \
            type sum = center[i] + delta[i] / divisor;                                             \
            center[i] = sum;                                                                       \
            delta[i] = sum;                                                                        \
        }                                                                                          \
    }                                                                                              \
    static int merge_##name(void *center, void *delta, Py_ssize_t nbytes, double divisor) {        \
        Py_ssize_t size = nbytes / (Py_ssize_t)sizeof(type);                                       \
        feclearexcept(FE_OVERFLOW | FE_INVALID);                                                   \
        if (divisor == 1)                                                                          \
            add_##name(center, delta, size);                                                       \
        else                                                                                       \
            divide_##name(center, delta, size, (type)divisor);                                     \
        int raised = fetestexcept(FE_OVERFLOW | FE_INVALID);                                       \
        return (raised & FE_OVERFLOW ? OVERFLOWED : 0) | (raised & FE_INVALID ? INVALID : 0);      \
    }

ADDING(float, float)
ADDING(double, double)

/* Whether both are vectors of one length, both float32 or float64, that lie apart. */
static int fit(const Py_buffer *center, const Py_buffer *delta) {
    uintptr_t one = (uintptr_t)center->buf, other = (uintptr_t)delta->buf;
    uintptr_t apart = one < other ? other - one : one - other;
    return center->ndim == 1 && delta->ndim == 1 && center->len == delta->len &&
           strcmp(center->format, delta->format) == 0 &&
           (strcmp(center->format, "f") == 0 || strcmp(center->format, "d") == 0) &&
           one % (uintptr_t)center->itemsize == 0 && other % (uintptr_t)center->itemsize == 0 &&
           apart >= (uintptr_t)center->len;
}

int merge_vectors(void *center, void *delta, Py_ssize_t nbytes, int wide, double divisor) {
    return (wide ? merge_double : merge_float)(center, delta, nbytes, divisor);
}

static int add(const Py_buffer *center, const Py_buffer *delta, double divisor) {
    int raised, wide = center->itemsize == (Py_ssize_t)sizeof(double);
    if (center->len < LONG)
        return merge_vectors(center->buf, delta->buf, center->len, wide, divisor);
    Py_BEGIN_ALLOW_THREADS
    raised = merge_vectors(center->buf, delta->buf, center->len, wide, divisor);
    Py_END_ALLOW_THREADS
    return raised;
}

static PyObject *py_add_delta(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *into, *from;
    double divisor;
    Py_buffer center = {0}, delta = {0};
    const int kind = PyBUF_WRITABLE | PyBUF_FORMAT | PyBUF_C_CONTIGUOUS;
    int raised = OTHERWISE;
    if (!PyArg_ParseTuple(args, "OOd", &into, &from, &divisor)) return NULL;
    if (PyObject_GetBuffer(into, &center, kind) == 0) {
        if (PyObject_GetBuffer(from, &delta, kind) == 0) {
            if (fit(&center, &delta)) raised = add(&center, &delta, divisor);
            PyBuffer_Release(&delta);
        }
        PyBuffer_Release(&center);
    }
    /* Whatever is no such vector, numpy may know, or complains of itself. */
    PyErr_Clear();
    return PyLong_FromLong(raised);
}

uint64_t big_endian(const uint8_t *bytes, int count) {
    uint64_t value = 0;
    for (int i = 0; i < count; i++) value = value << 8 | bytes[i];
    return value;
}

static int64_t whole_at(const uint8_t *bytes) { return (int64_t)big_endian(bytes, 8); }

static double float_at(const uint8_t *bytes) {
    uint64_t bits = big_endian(bytes, 8);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Whether all numbers that have limits are at least 0, and together at most the lowest limit. */
static int within(const Numbers *numbers, double high) {
    double sum = (double)numbers->memory;
    if (numbers->memory < 0) return 0;
    for (int i = 0; i < WHOLE_NUMBERS; i++) {
        if (numbers->wholes[i] < 0) return 0;
        sum += (double)numbers->wholes[i];
    }
    /* The first is the loss, which has no limit. */
    for (int i = 1; i < TIMES; i++) {
        if (!(numbers->times[i] >= 0)) return 0;
        sum += numbers->times[i];
    }
    return sum <= high;
}

int read_numbers(const uint8_t *body, Py_ssize_t length, double high, Numbers *numbers) {
    for (int i = 0; i < WHOLE_NUMBERS; i++) numbers->wholes[i] = whole_at(body + 8 * i);
    const uint8_t *at = body + 8 * WHOLE_NUMBERS;
    numbers->finite = *at++ != 0;
    for (int i = 0; i < TIMES; i++) numbers->times[i] = float_at(at + 8 * i);
    numbers->memory = whole_at(at + 8 * TIMES);
    numbers->metrics = (Py_ssize_t)big_endian(body + BODY - 2, 2);
    return numbers->metrics <= MOST_METRICS && length == BODY + 8 * numbers->metrics &&
           within(numbers, high);
}

PyObject *values_of(const Numbers *numbers, const uint8_t *body) {
    PyObject *metrics = PyTuple_New(numbers->metrics);
    if (metrics == NULL) return NULL;
    for (Py_ssize_t i = 0; i < numbers->metrics; i++) {
        PyObject *value = PyFloat_FromDouble(float_at(body + BODY + 8 * i));
        if (value == NULL || PyTuple_SetItem(metrics, i, value) < 0) {
            Py_DECREF(metrics);
            return NULL;
        }
    }
    const int64_t *w = numbers->wholes;
    const double *t = numbers->times;
    return Py_BuildValue("(LLLLLLOdddddLNy#)", w[0], w[1], w[2], w[3], w[4], w[5],
                         numbers->finite ? Py_True : Py_False, t[0], t[1], t[2], t[3], t[4],
                         numbers->memory, metrics, body + BODY - 2 - DIGEST, (Py_ssize_t)DIGEST);
}

static PyObject *read_push(const uint8_t *data, Py_ssize_t got, const char *prefix, double high) {
    Numbers numbers;
    if (got < HEADER + BODY || memcmp(data, prefix, BEGINS) != 0) Py_RETURN_NONE;
    uint64_t sequence = big_endian(data + 8, 4), body = big_endian(data + 12, 4);
    uint64_t payload = big_endian(data + 16, 8), rest = (uint64_t)(got - HEADER);
    if (body > rest || payload != rest - body) Py_RETURN_NONE;
    if (!read_numbers(data + HEADER, (Py_ssize_t)body, high, &numbers)) Py_RETURN_NONE;
    PyObject *values = values_of(&numbers, data + HEADER);
    if (values == NULL) return NULL;
    return Py_BuildValue("(KnN)", sequence, HEADER + (Py_ssize_t)body, values);
}

static PyObject *py_read_push(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *source, *result = NULL;
    Py_ssize_t got, length;
    const char *prefix;
    double high;
    Py_buffer data = {0};
    if (!PyArg_ParseTuple(args, "On" "y#d", &source, &got, &prefix, &length, &high)) return NULL;
    if (PyObject_GetBuffer(source, &data, PyBUF_SIMPLE) < 0) return NULL;
    if (length != BEGINS || got > data.len)
        PyErr_SetString(PyExc_ValueError, "Expected 8 bytes of a header, and data of the length.");
    else
        result = read_push(data.buf, got, prefix, high);
    PyBuffer_Release(&data);
    return result;
}

static PyMethodDef METHODS[] = {
    {"add_delta", py_add_delta, METH_VARARGS, NULL},
    {"read_push", py_read_push, METH_VARARGS, NULL},
    {"receive_reply", py_receive_reply, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot SLOTS[] = {{Py_mod_exec, add_fast_path}, {0, NULL}};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_exchange",
    .m_methods = METHODS,
    .m_slots = SLOTS,
};

PyMODINIT_FUNC PyInit__exchange(void) { return PyModuleDef_Init(&MODULE); }

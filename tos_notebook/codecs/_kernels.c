/* The inner loops of the codecs int8 and sign: one pass, or two, where numpy needs many.

   A bucket is 512 values that share a scale; the last one may be shorter. Numbers are rounded as
   numpy rounds them, and no product is fused with a sum, so that one end of a connection may have
   these and the other not. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define BUCKET 512
#define LANES 32

/* One copy for each generation of processors; the loader takes the best. It does so before a
   sanitizer is ready. */
#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__) &&                        \
    !defined(__SANITIZE_ADDRESS__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif

/* Added and taken away again, it rounds to the nearest whole number, a tie to the even one. */
#define ROUNDER 12582912.0f

static inline Py_ssize_t smaller(Py_ssize_t a, Py_ssize_t b) { return a < b ? a : b; }

static inline float as_float(int32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* A payload may lie anywhere in a frame: its scales need not be aligned. */
static inline float scale_at(const void *scales, Py_ssize_t number) {
    float scale;
    memcpy(&scale, (const char *)scales + number * (Py_ssize_t)sizeof scale, sizeof scale);
    return scale;
}

static inline void put_scale(void *scales, Py_ssize_t number, float scale) {
    memcpy((char *)scales + number * (Py_ssize_t)sizeof scale, &scale, sizeof scale);
}

FOR_EACH_PROCESSOR
static void subtract(const float *values, const float *known, float *out, Py_ssize_t size) {
    for (Py_ssize_t i = 0; i < size; i++) out[i] = values[i] - known[i];
}

/* As whole numbers, magnitudes are in the order they have as floats, with NaN above infinity. */
FOR_EACH_PROCESSOR
static int32_t largest_magnitude(const float *values, Py_ssize_t size) {
    int32_t found = 0;
    for (Py_ssize_t i = 0; i < size; i++) {
        int32_t bits;
        memcpy(&bits, values + i, sizeof bits);
        bits &= 0x7fffffff;
        found = bits > found ? bits : found;
    }
    return found;
}

FOR_EACH_PROCESSOR
static void round_values(const float *values, const float *dither, float inverse, int8_t *codes,
                         Py_ssize_t size) {
    if (dither == NULL)
        for (Py_ssize_t i = 0; i < size; i++)
            codes[i] = (int8_t)(int32_t)(values[i] * inverse + ROUNDER - ROUNDER);
    else
        for (Py_ssize_t i = 0; i < size; i++)
            codes[i] = (int8_t)(int32_t)(values[i] * inverse + dither[i] + ROUNDER - ROUNDER);
}

FOR_EACH_PROCESSOR
static void int8_values(const void *payload, float scale, float *out, Py_ssize_t size) {
    const int8_t *codes = payload;
    for (Py_ssize_t i = 0; i < size; i++) out[i] = (float)codes[i] * scale;
}

FOR_EACH_PROCESSOR
static float sum_of_magnitudes(const float *values, Py_ssize_t size) {
    float sums[LANES] = {0};
    Py_ssize_t i = 0;
    for (; i + LANES <= size; i += LANES)
        for (int lane = 0; lane < LANES; lane++) sums[lane] += fabsf(values[i + lane]);
    for (; i < size; i++) sums[0] += fabsf(values[i]);
    for (int half = LANES / 2; half; half /= 2)
        for (int lane = 0; lane < half; lane++) sums[lane] += sums[lane + half];
    return sums[0];
}

/* The first of eight values is a byte's highest bit. */
FOR_EACH_PROCESSOR
static void pack_signs(const float *values, uint8_t *codes, Py_ssize_t size) {
    uint8_t negative[BUCKET] = {0};
    for (Py_ssize_t i = 0; i < size; i++) negative[i] = values[i] < 0.0f;
    for (Py_ssize_t byte = 0; byte < (size + 7) / 8; byte++) {
        const uint8_t *bits = negative + 8 * byte;
        codes[byte] = (uint8_t)(bits[0] << 7 | bits[1] << 6 | bits[2] << 5 | bits[3] << 4 |
                                bits[4] << 3 | bits[5] << 2 | bits[6] << 1 | bits[7]);
    }
}

/* What the eight bits of each byte stand for. */
typedef float Eight __attribute__((vector_size(8 * sizeof(float))));
static Eight SIGNS[256];

static void fill_signs(void) {
    for (int byte = 0; byte < 256; byte++)
        for (int bit = 0; bit < 8; bit++) SIGNS[byte][bit] = byte >> (7 - bit) & 1 ? -1.0f : 1.0f;
}

FOR_EACH_PROCESSOR
static void sign_values(const void *payload, float scale, float *out, Py_ssize_t size) {
    const uint8_t *codes = payload;
    for (; size >= 8; size -= 8, out += 8) {
        Eight values = SIGNS[*codes++] * scale;
        memcpy(out, &values, sizeof values);
    }
    for (Py_ssize_t i = 0; i < size; i++) out[i] = SIGNS[*codes][i] * scale;
}

FOR_EACH_PROCESSOR
static void add(const float *values, float *out, Py_ssize_t size) {
    for (Py_ssize_t i = 0; i < size; i++) out[i] += values[i];
}

/* Vectors of one piece: values, perhaps others to subtract from them, and what becomes of them. */
typedef struct {
    Py_buffer values, known, scales, codes;
    Py_ssize_t size;
} Piece;

/* Returns the values of a bucket, or in `work` how they differ from the known ones. */
static const float *bucket_of(const Piece *piece, Py_ssize_t at, Py_ssize_t count, float *work) {
    const float *values = (const float *)piece->values.buf + at;
    if (piece->known.buf == NULL) return values;
    subtract(values, (const float *)piece->known.buf + at, work, count);
    return work;
}

static float encode_int8(const Piece *piece, const float *dither, float levels, float least) {
    int32_t largest = 0;
    _Alignas(64) float work[BUCKET];
    int8_t *codes = piece->codes.buf;
    for (Py_ssize_t at = 0; at < piece->size; at += BUCKET) {
        Py_ssize_t count = smaller(BUCKET, piece->size - at);
        const float *values = bucket_of(piece, at, count, work);
        int32_t bits = largest_magnitude(values, count);
        largest = bits > largest ? bits : largest;
        if (!(as_float(bits) < INFINITY)) break;
        float scale = as_float(bits) / levels;
        scale = scale > least ? scale : least;
        put_scale(piece->scales.buf, at / BUCKET, scale);
        round_values(values, dither ? dither + at : NULL, 1.0f / scale, codes + at, count);
    }
    return as_float(largest);
}

static float encode_sign(const Piece *piece) {
    _Alignas(64) float work[BUCKET];
    float largest = 0;
    uint8_t *codes = piece->codes.buf;
    for (Py_ssize_t at = 0; at < piece->size; at += BUCKET) {
        Py_ssize_t count = smaller(BUCKET, piece->size - at);
        const float *values = bucket_of(piece, at, count, work);
        float sum = sum_of_magnitudes(values, count);
        if (!(sum <= largest)) largest = sum;
        if (!(sum < INFINITY)) break;
        put_scale(piece->scales.buf, at / BUCKET, sum / (float)count);
        pack_signs(values, codes + at / 8, count);
    }
    return largest;
}

/* What is done with decoded values. */
typedef enum { WRITE, ADD, RESIDUAL } Use;

typedef struct {
    void (*values)(const void *codes, float scale, float *out, Py_ssize_t size);
    int per_byte;
} Format;

static const Format INT8 = {int8_values, 1}, SIGN = {sign_values, 8};

static void decode(const Piece *piece, const Format *format, Use use) {
    _Alignas(64) float work[BUCKET];
    float *out = piece->values.buf;
    const char *codes = piece->codes.buf;
    for (Py_ssize_t at = 0; at < piece->size; at += BUCKET) {
        Py_ssize_t count = smaller(BUCKET, piece->size - at);
        float scale = scale_at(piece->scales.buf, at / BUCKET);
        format->values(codes + at / format->per_byte, scale, use == WRITE ? out + at : work, count);
        if (use == ADD) add(work, out + at, count);
        if (use == RESIDUAL) subtract((const float *)piece->known.buf + at, work, out + at, count);
    }
}

/* What Python sees. */

static const char FLOATS[] = "f", BYTES[] = "bB";

static int take(PyObject *object, Py_buffer *view, const char *formats, int writable,
                const char *name) {
    int flags = PyBUF_ND | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(object, view, flags) < 0) {
        view->obj = NULL;
        return 0;
    }
    const char *format = view->format ? view->format : "B";
    /* numpy says so of what is not aligned. */
    if (format[0] == '=') format++;
    if (view->ndim == 1 && format[0] && !format[1] && strchr(formats, format[0])) return 1;
    PyErr_Format(PyExc_ValueError,
                 "%s: expected 1 dimension of items of format %s, got %d of items of format %s.",
                 name, formats, view->ndim, format);
    return 0;
}

/* Takes floats that are read where they are; scales may have any address. */
static int take_floats(PyObject *object, Py_buffer *view, int writable, const char *name) {
    if (!take(object, view, FLOATS, writable, name)) return 0;
    if ((uintptr_t)view->buf % sizeof(float) == 0) return 1;
    PyErr_Format(PyExc_ValueError, "%s: expected an address that is a multiple of 4.", name);
    return 0;
}

static int fits(const Py_buffer *view, Py_ssize_t expected, const char *name) {
    if (view->shape[0] == expected) return 1;
    PyErr_Format(PyExc_ValueError, "%s: expected %zd items, got %zd.", name, expected,
                 view->shape[0]);
    return 0;
}

static void release(Piece *piece) {
    PyBuffer_Release(&piece->values);
    PyBuffer_Release(&piece->known);
    PyBuffer_Release(&piece->scales);
    PyBuffer_Release(&piece->codes);
}

/* Fills a piece from Python's objects; what it holds is to be released whether or not it can. */
static int fill(Piece *piece, PyObject *values, PyObject *known, PyObject *scales, PyObject *codes,
                const Format *format, int encodes) {
    if (!take_floats(values, &piece->values, !encodes, "values")) return 0;
    Py_ssize_t size = piece->size = piece->values.shape[0];
    if (known != Py_None && !(take_floats(known, &piece->known, 0, "known") &&
                              fits(&piece->known, size, "known")))
        return 0;
    return take(scales, &piece->scales, FLOATS, encodes, "scales") &&
           take(codes, &piece->codes, BYTES, encodes, "codes") &&
           fits(&piece->scales, (size + BUCKET - 1) / BUCKET, "scales") &&
           fits(&piece->codes, (size + format->per_byte - 1) / format->per_byte, "codes");
}

static PyObject *py_encode_int8(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *values, *known, *scales, *codes, *dither, *result = NULL;
    float levels, least, largest;
    Piece piece = {0};
    Py_buffer chance = {0};
    if (!PyArg_ParseTuple(args, "OOOOOff", &values, &known, &scales, &codes, &dither, &levels,
                          &least))
        return NULL;
    if (!(levels >= 1 && levels <= INT8_MAX && least > 0 && least < INFINITY)) {
        PyErr_SetString(PyExc_ValueError,
                        "levels, least: expected 1 to 127 and a positive scale.");
        return NULL;
    }
    if (fill(&piece, values, known, scales, codes, &INT8, 1) &&
        (dither == Py_None || (take_floats(dither, &chance, 0, "dither") &&
                               fits(&chance, piece.size, "dither")))) {
        Py_BEGIN_ALLOW_THREADS
        largest = encode_int8(&piece, chance.buf, levels, least);
        Py_END_ALLOW_THREADS
        result = PyFloat_FromDouble(largest);
    }
    PyBuffer_Release(&chance);
    release(&piece);
    return result;
}

static PyObject *py_encode_sign(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *values, *known, *scales, *codes, *result = NULL;
    float largest;
    Piece piece = {0};
    if (!PyArg_ParseTuple(args, "OOOO", &values, &known, &scales, &codes)) return NULL;
    if (fill(&piece, values, known, scales, codes, &SIGN, 1)) {
        Py_BEGIN_ALLOW_THREADS
        largest = encode_sign(&piece);
        Py_END_ALLOW_THREADS
        result = PyFloat_FromDouble(largest);
    }
    release(&piece);
    return result;
}

static PyObject *py_decode(PyObject *args, const Format *format, Use use) {
    PyObject *codes, *scales, *out, *values = Py_None, *result = NULL;
    Piece piece = {0};
    if (!PyArg_ParseTuple(args, use == RESIDUAL ? "OOOO" : "OOO", &codes, &scales, &out, &values))
        return NULL;
    if (use == RESIDUAL && values == Py_None) {
        PyErr_SetString(PyExc_TypeError, "values: expected what was encoded, got None.");
        return NULL;
    }
    if (fill(&piece, out, values, scales, codes, format, 0)) {
        Py_BEGIN_ALLOW_THREADS
        decode(&piece, format, use);
        Py_END_ALLOW_THREADS
        result = Py_NewRef(Py_None);
    }
    release(&piece);
    return result;
}

#define DECODER(name, format, use)                                                                 \
    static PyObject *py_##name(PyObject *module, PyObject *args) {                                 \
        (void)module;                                                                              \
        return py_decode(args, &format, use);                                                      \
    }

DECODER(decode_int8, INT8, WRITE)
DECODER(add_int8, INT8, ADD)
DECODER(residual_int8, INT8, RESIDUAL)
DECODER(decode_sign, SIGN, WRITE)
DECODER(add_sign, SIGN, ADD)
DECODER(residual_sign, SIGN, RESIDUAL)

static PyMethodDef METHODS[] = {
    {"encode_int8", py_encode_int8, METH_VARARGS, NULL},
    {"decode_int8", py_decode_int8, METH_VARARGS, NULL},
    {"add_int8", py_add_int8, METH_VARARGS, NULL},
    {"residual_int8", py_residual_int8, METH_VARARGS, NULL},
    {"encode_sign", py_encode_sign, METH_VARARGS, NULL},
    {"decode_sign", py_decode_sign, METH_VARARGS, NULL},
    {"add_sign", py_add_sign, METH_VARARGS, NULL},
    {"residual_sign", py_residual_sign, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static int execute(PyObject *module) {
    (void)module;
    fill_signs();
    return 0;
}

static PyModuleDef_Slot SLOTS[] = {{Py_mod_exec, execute}, {0, NULL}};

static struct PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_kernels",
    .m_methods = METHODS,
    .m_slots = SLOTS,
};

PyMODINIT_FUNC PyInit__kernels(void) { return PyModuleDef_Init(&MODULE); }

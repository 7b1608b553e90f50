/* What both halves of the extension know: vectors that are added, and a push's numbers. */

#ifndef TOS_EXCHANGE_H
#define TOS_EXCHANGE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>

/* A frame's header and a push's body, as wire.frames and wire.packed describe them. */
#define HEADER 24
#define BODY 115
#define WHOLE_NUMBERS 6
#define TIMES 5
#define DIGEST 16
#define MOST_METRICS 256
/* A reply's header, version, version of the settings, status, directive and length. */
#define REPLY (HEADER + 22)
/* Bytes at the begin of a header, up to the request's number. */
#define BEGINS 8

/* The numbers of a push, each at its place in the body. */
typedef struct {
    int64_t wholes[WHOLE_NUMBERS], memory;
    double times[TIMES];
    int finite;
    Py_ssize_t metrics;
} Numbers;

enum { EPOCH, SEQUENCE, STEPS, SAMPLES, BASE_VERSION, SETTINGS_VERSION };

uint64_t big_endian(const uint8_t *bytes, int count);

/* Whether a body is a push's, with no number beyond its limits. */
int read_numbers(const uint8_t *body, Py_ssize_t length, double high, Numbers *numbers);

/* The fields of wire.messages.Push, as a tuple. */
PyObject *values_of(const Numbers *numbers, const uint8_t *body);

/* Do center += delta / divisor and delta = center for vectors of float32, or of float64 if they
   are wide. Returns 1 if a sum has overflowed, 2 if one is NaN, 3 for both, else 0. */
int merge_vectors(void *center, void *delta, Py_ssize_t nbytes, int wide, double divisor);

/* Takes a descriptor, a chunk, a buffer for parameters or None, 8 bytes that a reply begins with,
   and the request's number. Returns the numbers of a plain reply; or how many bytes of what else
   has come are in the chunk, -1 for none, -2 if none has come in time. */
PyObject *py_receive_reply(PyObject *module, PyObject *args);

/* Add the types of the fast path to the module, where the system has what they need. */
int add_fast_path(PyObject *module);

#endif

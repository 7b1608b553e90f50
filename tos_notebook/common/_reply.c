/* Receives the answer to a push, the parameters straight where they belong.

   Whatever else comes is left to Python, as bytes in its chunk. */

#include "_exchange.h"

#include <errno.h>
#include <string.h>

/* Nothing has come: it takes too long, or Python's own call has to say what is wrong. */
#define LATE -2
#define NOTHING -1

#ifdef __linux__

#include <sys/socket.h>
#include <sys/uio.h>

static Py_ssize_t receive(int fd, Py_buffer *chunk, Py_buffer *target) {
    Py_ssize_t after = REPLY + target->len;
    struct iovec parts[3] = {
        {chunk->buf, REPLY},
        {target->buf, (size_t)target->len},
        {(uint8_t *)chunk->buf + after, (size_t)(chunk->len - after)},
    };
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 3};
    Py_ssize_t got = recvmsg(fd, &message, 0);
    if (got > 0) return got;
    return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? LATE : NOTHING;
}

static Py_ssize_t receive_rest(int fd, Py_buffer *target, Py_ssize_t got) {
    while (got < REPLY + target->len) {
        Py_ssize_t had = got - REPLY;
        Py_ssize_t more = recv(fd, (uint8_t *)target->buf + had, (size_t)(target->len - had), MSG_WAITALL);
        if (more <= 0) break;
        got += more;
    }
    return got;
}

#else

static Py_ssize_t receive(int fd, Py_buffer *chunk, Py_buffer *target) {
    (void)fd, (void)chunk, (void)target;
    return NOTHING;
}

static Py_ssize_t receive_rest(int fd, Py_buffer *target, Py_ssize_t got) {
    (void)fd, (void)target;
    return got;
}

#endif

/* Whether what has come begins as the answer to a request, with parameters of the length. */
static int is_reply(const uint8_t *frame, Py_ssize_t got, const char *begins, uint64_t sequence,
                    Py_ssize_t payload) {
    return got >= REPLY && got <= REPLY + payload && memcmp(frame, begins, BEGINS) == 0 &&
           big_endian(frame + 8, 4) == sequence && big_endian(frame + 12, 4) == REPLY - HEADER &&
           big_endian(frame + 16, 8) == (uint64_t)payload && big_endian(frame + REPLY - 4, 4) == 0;
}

static PyObject *receive_into(int fd, Py_buffer *chunk, Py_buffer *target, const char *begins,
                              uint64_t sequence) {
    uint8_t *frame = chunk->buf;
    Py_ssize_t got;
    int plain;
    Py_BEGIN_ALLOW_THREADS
    got = receive(fd, chunk, target);
    plain = is_reply(frame, got, begins, sequence, target->len);
    if (plain) got = receive_rest(fd, target, got);
    Py_END_ALLOW_THREADS
    if (plain && got == REPLY + target->len) {
        int64_t version = (int64_t)big_endian(frame + HEADER, 8);
        int64_t settings = (int64_t)big_endian(frame + HEADER + 8, 8);
        return Py_BuildValue("(LLii)", version, settings, frame[HEADER + 16], frame[HEADER + 17]);
    }
    if (got > REPLY && target->len > 0) {
        Py_ssize_t here = got - REPLY < target->len ? got - REPLY : target->len;
        memcpy(frame + REPLY, target->buf, (size_t)here);
    }
    return PyLong_FromSsize_t(got);
}

PyObject *py_receive_reply(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *scratch, *into, *result = NULL;
    const char *begins;
    Py_ssize_t length;
    unsigned long long sequence;
    int fd;
    Py_buffer chunk = {0}, target = {0};
    if (!PyArg_ParseTuple(args, "iOOy#K", &fd, &scratch, &into, &begins, &length, &sequence))
        return NULL;
    if (length != BEGINS) {
        PyErr_SetString(PyExc_ValueError, "Expected 8 bytes of a header.");
        return NULL;
    }
    if (PyObject_GetBuffer(scratch, &chunk, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS) < 0) return NULL;
    if (into != Py_None &&
        PyObject_GetBuffer(into, &target, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS) < 0) {
        PyBuffer_Release(&chunk);
        return NULL;
    }
    if (REPLY + target.len < chunk.len)
        result = receive_into(fd, &chunk, &target, begins, sequence);
    else
        result = PyLong_FromLong(NOTHING);
    PyBuffer_Release(&target);
    PyBuffer_Release(&chunk);
    return result;
}

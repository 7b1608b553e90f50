/* The fast path of a small push: received, merged, noted and answered without the interpreter.

   Python finds out what it may do, while it holds the run's lock and the center's, and calls
   `Peer.arm`. A thread that takes one of these locks later stops the fast path until it releases
   the lock. If it may have changed what the fast path relies on, no peer is armed from then on. What
   the fast path does not understand, or may not do, it leaves to Python as it came. */

#ifndef TOS_FAST_PATH_H
#define TOS_FAST_PATH_H

#include "_exchange.h"

#ifdef __linux__

#include <pthread.h>

#define MOST_PARTS 64
#define MOST_NOTED 1024
#define MOST_NOTED_METRICS 8
#define MOST_EVENTS 64
/* Seconds until Python is told of a push: one by one costs as much as without this. */
#define LINGER 0.05

enum { BY_ONE, BY_STEPS, BY_STALENESS };

/* A stripe of the center, and what a change of it is divided by. */
typedef struct {
    Py_ssize_t start, nbytes;
    int wide, rule;
    double exponent;
} Part;

/* A push that was merged: Python has yet to count it. */
typedef struct {
    Py_ssize_t who, length;
    int64_t staleness, version;
    double time, monotonic;
    uint8_t body[BODY + 8 * MOST_NOTED_METRICS];
} Note;

/* Of one center. The mutex guards all that changes but for `settle` and `members`, for which
   the interpreter's lock does. */
typedef struct {
    PyObject_HEAD
    pthread_mutex_t mutex;
    Py_buffer center;
    uint8_t begins[BEGINS], reply[REPLY];
    double high;
    PyObject *settle, *members;
    Part parts[MOST_PARTS];
    int count, held, raised;
    int64_t version;
    uint64_t agreed;
    Note *notes, *spare;
    int noted;
    double since;
} Path;

/* Of one connection: only the thread that serves it touches it. */
typedef struct {
    PyObject_HEAD
    int fd, apart;
    PyObject *key;
    Py_buffer chunk, update;
    /* NULL while it is not armed. */
    Path *path;
    uint64_t agreed;
    Py_ssize_t who, metrics;
    int64_t epoch, sequence, settings;
    uint8_t reply[REPLY];
    /* What Python has yet to look at, and to send. */
    Py_ssize_t received, owed;
    uint8_t *unsent;
} Peer;

typedef struct {
    PyObject_HEAD
    int open, epoll, wakes;
    /* That of the last push, whose notes are to be settled; `kept` holds it. */
    Path *owing;
    PyObject *kept;
} Poller;

void put_big_endian(uint8_t *bytes, int count, uint64_t value);

/* Wait for peers of a poller's, and serve them, without the interpreter's lock. Return how many
   are ready for Python, -1 with errno. Sets `woken` if it was told to end, or `due` if notes are to
   be settled. */
int poll_peers(Poller *poller, Peer **ready, int *woken, int *due);

#endif

#endif

/* The types by which Python knows the fast path; see transport.fast_path. */

#include "_fast_path.h"

#ifndef __linux__

int add_fast_path(PyObject *module) {
    (void)module;
    return 0;
}

#else

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* The types, for their instances to be known by. */
static PyTypeObject *paths, *peers;

/* Take the mutex from a thread of Python's: its owner may wait for the interpreter. */
static void enter(Path *path) {
    if (pthread_mutex_trylock(&path->mutex) == 0) return;
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&path->mutex);
    Py_END_ALLOW_THREADS
}

static void leave(Path *path) { pthread_mutex_unlock(&path->mutex); }

/* ---- Path ---- */

static int path_init(Path *self, PyObject *args, PyObject *kwargs) {
    (void)kwargs;
    PyObject *center;
    const char *begins, *reply;
    Py_ssize_t length, other;
    pthread_mutexattr_t kind;
    if (self->center.obj != NULL) {
        PyErr_SetString(PyExc_RuntimeError, "Expected a path that is new.");
        return -1;
    }
    if (!PyArg_ParseTuple(args, "Oy#dy#", &center, &begins, &length, &self->high, &reply,
                          &other))
        return -1;
    if (length != BEGINS || other != REPLY) {
        PyErr_SetString(PyExc_ValueError, "Expected 8 bytes of a header, and the head of a reply.");
        return -1;
    }
    memcpy(self->begins, begins, BEGINS);
    memcpy(self->reply, reply, REPLY);
    self->notes = malloc(MOST_NOTED * sizeof(Note));
    self->spare = malloc(MOST_NOTED * sizeof(Note));
    self->members = PyList_New(0);
    if (self->notes == NULL || self->spare == NULL || self->members == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&self->mutex, &kind);
    pthread_mutexattr_destroy(&kind);
    return PyObject_GetBuffer(center, &self->center, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS);
}

static int path_traverse(Path *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE((PyObject *)self));
    Py_VISIT(self->settle);
    Py_VISIT(self->members);
    return 0;
}

static int path_clear(Path *self) {
    Py_CLEAR(self->settle);
    Py_CLEAR(self->members);
    return 0;
}

static void path_dealloc(Path *self) {
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    PyObject_GC_UnTrack(self);
    path_clear(self);
    PyBuffer_Release(&self->center);
    free(self->notes);
    free(self->spare);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *path_pause(Path *self, PyObject *unused) {
    (void)unused;
    enter(self);
    Py_RETURN_NONE;
}

static PyObject *path_resume(Path *self, PyObject *changed) {
    int forget = PyObject_IsTrue(changed);
    if (forget < 0) return NULL;
    if (forget) {
        __atomic_store_n(&self->agreed, self->agreed + 1, __ATOMIC_RELAXED);
        if (!self->noted && PyList_SetSlice(self->members, 0, PY_SSIZE_T_MAX, NULL) < 0)
            PyErr_Clear();
    }
    leave(self);
    Py_RETURN_NONE;
}

static PyObject *path_hold(Path *self, PyObject *unused) {
    (void)unused;
    enter(self);
    self->held++;
    leave(self);
    Py_RETURN_NONE;
}

static PyObject *path_release(Path *self, PyObject *unused) {
    (void)unused;
    enter(self);
    self->held--;
    leave(self);
    Py_RETURN_NONE;
}

static PyObject *path_forget(Path *self, PyObject *unused) {
    (void)unused;
    enter(self);
    __atomic_store_n(&self->agreed, self->agreed + 1, __ATOMIC_RELAXED);
    leave(self);
    Py_RETURN_NONE;
}

static PyObject *told(Path *self, const Note *note) {
    Numbers numbers;
    PyObject *who = PyList_GetItem(self->members, note->who), *values;
    if (who == NULL) return NULL;
    /* It was read before, so that it is within its limits. */
    read_numbers(note->body, note->length, self->high, &numbers);
    values = values_of(&numbers, note->body);
    if (values == NULL) return NULL;
    return Py_BuildValue("(OddLLN)", who, note->time, note->monotonic, note->staleness,
                         note->version, values);
}

static PyObject *path_take(Path *self, PyObject *unused) {
    (void)unused;
    enter(self);
    Note *notes = self->notes;
    int count = self->noted;
    self->notes = self->spare;
    self->spare = notes;
    __atomic_store_n(&self->noted, 0, __ATOMIC_RELAXED);
    leave(self);
    PyObject *list = PyList_New(count);
    for (int i = 0; list != NULL && i < count; i++) {
        PyObject *one = told(self, &notes[i]);
        if (one == NULL || PyList_SetItem(list, i, one) < 0) Py_CLEAR(list);
    }
    return list;
}

static int read_part(PyObject *tuple, const Py_buffer *center, Part *part) {
    if (!PyArg_ParseTuple(tuple, "nnpid", &part->start, &part->nbytes, &part->wide, &part->rule,
                          &part->exponent))
        return 0;
    Py_ssize_t size = part->wide ? (Py_ssize_t)sizeof(double) : (Py_ssize_t)sizeof(float);
    if (part->start >= 0 && part->nbytes >= 0 && part->nbytes <= center->len &&
        part->start <= center->len - part->nbytes && part->start % size == 0 &&
        part->nbytes % size == 0 && part->rule >= BY_ONE && part->rule <= BY_STALENESS)
        return 1;
    PyErr_SetString(PyExc_ValueError, "Expected a part of the center, and one of three rules.");
    return 0;
}

static PyObject *path_use(Path *self, PyObject *parts) {
    Part found[MOST_PARTS];
    Py_ssize_t count = PyTuple_Size(parts);
    if (count < 0) return NULL;
    if (count > MOST_PARTS) Py_RETURN_FALSE;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!read_part(PyTuple_GetItem(parts, i), &self->center, &found[i])) return NULL;
    enter(self);
    memcpy(self->parts, found, (size_t)count * sizeof(Part));
    self->count = (int)count;
    leave(self);
    Py_RETURN_TRUE;
}

static PyObject *path_get_version(Path *self, void *closure) {
    (void)closure;
    return PyLong_FromLongLong(__atomic_load_n(&self->version, __ATOMIC_RELAXED));
}

static int path_set_version(Path *self, PyObject *value, void *closure) {
    (void)closure;
    long long version = value == NULL ? -1 : PyLong_AsLongLong(value);
    if (version == -1 && PyErr_Occurred()) return -1;
    enter(self);
    __atomic_store_n(&self->version, version, __ATOMIC_RELAXED);
    leave(self);
    return 0;
}

static PyObject *path_get_raised(Path *self, void *closure) {
    (void)closure;
    return PyLong_FromLong(__atomic_load_n(&self->raised, __ATOMIC_RELAXED));
}

static int path_set_settle(Path *self, PyObject *value, void *closure) {
    (void)closure;
    Py_XINCREF(value);
    PyObject *before = self->settle;
    self->settle = value;
    Py_XDECREF(before);
    return 0;
}

static PyMethodDef PATH_METHODS[] = {
    {"pause", (PyCFunction)path_pause, METH_NOARGS, NULL},
    {"resume", (PyCFunction)path_resume, METH_O, NULL},
    {"hold", (PyCFunction)path_hold, METH_NOARGS, NULL},
    {"release", (PyCFunction)path_release, METH_NOARGS, NULL},
    {"forget", (PyCFunction)path_forget, METH_NOARGS, NULL},
    {"take", (PyCFunction)path_take, METH_NOARGS, NULL},
    {"use", (PyCFunction)path_use, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef PATH_GETSET[] = {
    {"version", (getter)path_get_version, (setter)path_set_version, NULL, NULL},
    {"raised", (getter)path_get_raised, NULL, NULL, NULL},
    {"settle", NULL, (setter)path_set_settle, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot PATH_SLOTS[] = {
    {Py_tp_init, path_init},       {Py_tp_traverse, path_traverse}, {Py_tp_clear, path_clear},
    {Py_tp_dealloc, path_dealloc}, {Py_tp_methods, PATH_METHODS},   {Py_tp_getset, PATH_GETSET},
    {0, NULL},
};

static PyType_Spec PATH_SPEC = {
    .name = "tos_notebook.common._exchange.Path",
    .basicsize = sizeof(Path),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = PATH_SLOTS,
};

/* ---- Peer ---- */

static void disarm(Peer *self) {
    Py_CLEAR(self->path);
    PyBuffer_Release(&self->update);
}

static int peer_init(Peer *self, PyObject *args, PyObject *kwargs) {
    (void)kwargs;
    PyObject *chunk;
    if (self->chunk.obj != NULL) {
        PyErr_SetString(PyExc_RuntimeError, "Expected a peer that is new.");
        return -1;
    }
    if (!PyArg_ParseTuple(args, "iO", &self->fd, &chunk)) return -1;
    self->received = -1;
    return PyObject_GetBuffer(chunk, &self->chunk, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS);
}

static int peer_traverse(Peer *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE((PyObject *)self));
    Py_VISIT(self->key);
    Py_VISIT((PyObject *)self->path);
    return 0;
}

static int peer_clear(Peer *self) {
    Py_CLEAR(self->key);
    Py_CLEAR(self->path);
    return 0;
}

static void peer_dealloc(Peer *self) {
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    PyObject_GC_UnTrack(self);
    disarm(self);
    peer_clear(self);
    PyBuffer_Release(&self->chunk);
    free(self->unsent);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* Return the number of a member of the path's, which knows it from now on; -1 after an error. */
static Py_ssize_t number_of(Path *path, PyObject *who) {
    Py_ssize_t count = PyList_Size(path->members);
    for (Py_ssize_t i = 0; i < count; i++)
        if (PyList_GetItem(path->members, i) == who) return i;
    return PyList_Append(path->members, who) < 0 ? -1 : count;
}

static int fits(const Peer *peer, const Path *path, const Py_buffer *update, int apart) {
    uintptr_t one = (uintptr_t)path->center.buf, other = (uintptr_t)update->buf;
    uintptr_t distance = one < other ? other - one : one - other;
    Py_ssize_t head = HEADER + BODY + 8 * peer->metrics;
    return path->notes != NULL && update->len == path->center.len && distance >= (uintptr_t)update->len &&
           one % sizeof(double) == 0 && other % sizeof(double) == 0 && peer->metrics >= 0 &&
           peer->metrics <= MOST_NOTED_METRICS &&
           head + (apart ? update->len : 0) < peer->chunk.len;
}

/* Of a path that is paused, so that what was agreed upon still holds. */
static PyObject *peer_arm(Peer *self, PyObject *args) {
    PyObject *path, *who, *into;
    Py_buffer update = {0};
    disarm(self);
    if (!PyArg_ParseTuple(args, "O!OOpLLLn", paths, &path, &who, &into, &self->apart, &self->epoch,
                          &self->sequence, &self->settings, &self->metrics))
        return NULL;
    if (PyObject_GetBuffer(into, &update, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS) < 0) return NULL;
    if (!fits(self, (Path *)path, &update, self->apart)) {
        PyBuffer_Release(&update);
        Py_RETURN_FALSE;
    }
    self->who = number_of((Path *)path, who);
    if (self->who < 0) {
        PyBuffer_Release(&update);
        return NULL;
    }
    memcpy(self->reply, ((Path *)path)->reply, REPLY);
    put_big_endian(self->reply + 16, 8, self->apart ? (uint64_t)update.len : 0);
    put_big_endian(self->reply + HEADER + 8, 8, (uint64_t)self->settings);
    self->update = update;
    self->agreed = ((Path *)path)->agreed;
    self->path = (Path *)Py_NewRef(path);
    Py_RETURN_TRUE;
}

static PyObject *peer_take_received(Peer *self, PyObject *unused) {
    (void)unused;
    Py_ssize_t received = self->received;
    self->received = -1;
    return PyLong_FromSsize_t(received);
}

static PyObject *peer_take_unsent(Peer *self, PyObject *unused) {
    (void)unused;
    PyObject *unsent = PyBytes_FromStringAndSize((const char *)self->unsent, self->owed);
    free(self->unsent);
    self->unsent = NULL;
    self->owed = 0;
    return unsent;
}

static PyObject *peer_get_key(Peer *self, void *closure) {
    (void)closure;
    return Py_NewRef(self->key == NULL ? Py_None : self->key);
}

static int peer_set_key(Peer *self, PyObject *value, void *closure) {
    (void)closure;
    Py_XINCREF(value);
    PyObject *before = self->key;
    self->key = value;
    Py_XDECREF(before);
    return 0;
}

static PyMethodDef PEER_METHODS[] = {
    {"arm", (PyCFunction)peer_arm, METH_VARARGS, NULL},
    {"take_received", (PyCFunction)peer_take_received, METH_NOARGS, NULL},
    {"take_unsent", (PyCFunction)peer_take_unsent, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef PEER_GETSET[] = {
    {"key", (getter)peer_get_key, (setter)peer_set_key, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot PEER_SLOTS[] = {
    {Py_tp_init, peer_init},       {Py_tp_traverse, peer_traverse}, {Py_tp_clear, peer_clear},
    {Py_tp_dealloc, peer_dealloc}, {Py_tp_methods, PEER_METHODS},   {Py_tp_getset, PEER_GETSET},
    {0, NULL},
};

static PyType_Spec PEER_SPEC = {
    .name = "tos_notebook.common._exchange.Peer",
    .basicsize = sizeof(Peer),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = PEER_SLOTS,
};

/* ---- Poller ---- */

static int poller_init(Poller *self, PyObject *args, PyObject *kwargs) {
    (void)kwargs;
    struct epoll_event wakes = {.events = EPOLLIN};
    if (self->open) {
        PyErr_SetString(PyExc_RuntimeError, "Expected a poller that is new.");
        return -1;
    }
    if (!PyArg_ParseTuple(args, "")) return -1;
    self->open = 1;
    self->epoll = epoll_create1(EPOLL_CLOEXEC);
    self->wakes = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (self->epoll >= 0 && self->wakes >= 0 &&
        epoll_ctl(self->epoll, EPOLL_CTL_ADD, self->wakes, &wakes) == 0)
        return 0;
    PyErr_SetFromErrno(PyExc_OSError);
    return -1;
}

static int poller_traverse(Poller *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE((PyObject *)self));
    Py_VISIT(self->kept);
    return 0;
}

static int poller_clear(Poller *self) {
    self->owing = NULL;
    Py_CLEAR(self->kept);
    return 0;
}

static void close_poller(Poller *self) {
    if (!self->open) return;
    self->open = 0;
    if (self->epoll >= 0) close(self->epoll);
    if (self->wakes >= 0) close(self->wakes);
}

static void poller_dealloc(Poller *self) {
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    PyObject_GC_UnTrack(self);
    close_poller(self);
    poller_clear(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *poller_close(Poller *self, PyObject *unused) {
    (void)unused;
    close_poller(self);
    poller_clear(self);
    Py_RETURN_NONE;
}

static PyObject *poller_register(Poller *self, PyObject *peer) {
    struct epoll_event wanted = {.events = EPOLLIN, .data.ptr = peer};
    if (!PyObject_TypeCheck(peer, peers)) {
        PyErr_SetString(PyExc_TypeError, "Expected a peer.");
        return NULL;
    }
    Py_INCREF(peer);
    if (epoll_ctl(self->epoll, EPOLL_CTL_ADD, ((Peer *)peer)->fd, &wanted) == 0) Py_RETURN_NONE;
    Py_DECREF(peer);
    return PyErr_SetFromErrno(PyExc_OSError);
}

/* Of a peer that was registered; the thread that waits calls it. */
static PyObject *poller_unregister(Poller *self, PyObject *peer) {
    struct epoll_event unused = {0};
    if (!PyObject_TypeCheck(peer, peers)) {
        PyErr_SetString(PyExc_TypeError, "Expected a peer.");
        return NULL;
    }
    disarm((Peer *)peer);
    /* One that cannot be removed is kept for good: the system may still name it. */
    if (epoll_ctl(self->epoll, EPOLL_CTL_DEL, ((Peer *)peer)->fd, &unused) == 0) Py_DECREF(peer);
    Py_RETURN_NONE;
}

static PyObject *poller_wake(Poller *self, PyObject *unused) {
    (void)unused;
    uint64_t one = 1;
    if (self->open && write(self->wakes, &one, sizeof one) < 0 && errno != EAGAIN)
        return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
}

/* Keep the path whose notes are due: its peers may leave before. */
static void keep_owing(Poller *self) {
    PyObject *before = self->kept;
    self->kept = Py_XNewRef((PyObject *)self->owing);
    Py_XDECREF(before);
}

static void settle(Poller *self) {
    PyObject *call = self->owing->settle;
    self->owing = NULL;
    if (call == NULL) return;
    Py_INCREF(call);
    PyObject *done = PyObject_CallNoArgs(call);
    if (done == NULL) PyErr_WriteUnraisable(call);
    Py_XDECREF(done);
    Py_DECREF(call);
}

static PyObject *keys_of(Peer **ready, int count, int woken) {
    PyObject *keys = PyList_New(count + woken);
    for (int i = 0; keys != NULL && i < count + woken; i++) {
        PyObject *key = i < count ? peer_get_key(ready[i], NULL) : Py_NewRef(Py_None);
        if (PyList_SetItem(keys, i, key) < 0) Py_CLEAR(keys);
    }
    return keys;
}

static PyObject *poller_wait(Poller *self, PyObject *unused) {
    (void)unused;
    Peer *ready[MOST_EVENTS];
    int count, woken = 0, due = 0;
    do {
        Py_BEGIN_ALLOW_THREADS
        count = poll_peers(self, ready, &woken, &due);
        Py_END_ALLOW_THREADS
        keep_owing(self);
        if (count < 0) return PyErr_SetFromErrno(PyExc_OSError);
        if (due) settle(self);
    } while (due);
    return keys_of(ready, count, woken);
}

static PyMethodDef POLLER_METHODS[] = {
    {"register", (PyCFunction)poller_register, METH_O, NULL},
    {"unregister", (PyCFunction)poller_unregister, METH_O, NULL},
    {"wait", (PyCFunction)poller_wait, METH_NOARGS, NULL},
    {"wake", (PyCFunction)poller_wake, METH_NOARGS, NULL},
    {"close", (PyCFunction)poller_close, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot POLLER_SLOTS[] = {
    {Py_tp_init, poller_init},       {Py_tp_traverse, poller_traverse},
    {Py_tp_clear, poller_clear},     {Py_tp_dealloc, poller_dealloc},
    {Py_tp_methods, POLLER_METHODS}, {0, NULL},
};

static PyType_Spec POLLER_SPEC = {
    .name = "tos_notebook.common._exchange.Poller",
    .basicsize = sizeof(Poller),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = POLLER_SLOTS,
};

static PyTypeObject *added(PyObject *module, PyType_Spec *spec) {
    PyTypeObject *type = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    if (type != NULL && PyModule_AddType(module, type) < 0) Py_CLEAR(type);
    return type;
}

int add_fast_path(PyObject *module) {
    paths = added(module, &PATH_SPEC);
    peers = added(module, &PEER_SPEC);
    PyTypeObject *pollers = added(module, &POLLER_SPEC);
    Py_XDECREF((PyObject *)pollers);
    return paths == NULL || peers == NULL || pollers == NULL ? -1 : 0;
}

#endif

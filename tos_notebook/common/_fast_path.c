/* What the fast path does by itself; see _fast_path.h. */

#include "_fast_path.h"

#ifdef __linux__

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

static double now(clockid_t clock) {
    struct timespec at;
    clock_gettime(clock, &at);
    return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

void put_big_endian(uint8_t *bytes, int count, uint64_t value) {
    for (int i = count - 1; i >= 0; i--, value >>= 8) bytes[i] = (uint8_t)value;
}

static double divisor_of(const Part *part, int64_t steps, int64_t staleness) {
    if (part->rule == BY_STEPS) return (double)steps;
    if (part->rule == BY_STALENESS) return pow((double)(staleness + 1), part->exponent);
    return 1;
}

/* Merge an update; return whether it was, and all sums are numbers. The mutex is held. */
static int merge(Path *path, uint8_t *update, int64_t steps, int64_t staleness) {
    int raised = path->raised;
    for (int i = 0; i < path->count; i++)
        if (!isfinite(divisor_of(&path->parts[i], steps, staleness))) return 0;
    for (int i = 0; i < path->count; i++) {
        const Part *part = &path->parts[i];
        double divisor = divisor_of(part, steps, staleness);
        raised |= merge_vectors((uint8_t *)path->center.buf + part->start, update + part->start,
                                part->nbytes, part->wide, divisor);
    }
    if (!raised) return 1;
    __atomic_store_n(&path->raised, raised, __ATOMIC_RELAXED);
    __atomic_store_n(&path->agreed, path->agreed + 1, __ATOMIC_RELAXED);
    return 0;
}

static void note(Path *path, const Peer *peer, int64_t staleness, const uint8_t *body) {
    Note *note = &path->notes[path->noted];
    note->who = peer->who;
    note->length = BODY + 8 * peer->metrics;
    note->staleness = staleness;
    note->version = path->version;
    note->time = now(CLOCK_REALTIME);
    note->monotonic = now(CLOCK_MONOTONIC);
    memcpy(note->body, body, (size_t)note->length);
    if (path->noted == 0) path->since = note->monotonic;
    __atomic_store_n(&path->noted, path->noted + 1, __ATOMIC_RELAXED);
}

/* Merge and note a push if that is still agreed upon; return the version made, or -1. */
static int64_t commit(Peer *peer, const Numbers *numbers, const uint8_t *body) {
    Path *path = peer->path;
    int64_t made = -1;
    pthread_mutex_lock(&path->mutex);
    int64_t staleness = path->version - numbers->wholes[BASE_VERSION];
    if (peer->agreed == path->agreed && !path->held && path->noted < MOST_NOTED &&
        staleness >= 0 && merge(path, peer->update.buf, numbers->wholes[STEPS], staleness)) {
        made = path->version + 1;
        __atomic_store_n(&path->version, made, __ATOMIC_RELAXED);
        note(path, peer, staleness, body);
    }
    pthread_mutex_unlock(&path->mutex);
    return made;
}

/* Whether what has come is the push that the peer makes next, as a whole. */
static int is_next(const Peer *peer, const uint8_t *frame, Py_ssize_t got, Numbers *numbers) {
    Py_ssize_t length = BODY + 8 * peer->metrics;
    Py_ssize_t payload = peer->apart ? peer->update.len : 0;
    const int64_t *wholes = numbers->wholes;
    return got == HEADER + length + payload && memcmp(frame, peer->path->begins, BEGINS) == 0 &&
           big_endian(frame + 12, 4) == (uint64_t)length &&
           big_endian(frame + 16, 8) == (uint64_t)payload &&
           read_numbers(frame + HEADER, length, peer->path->high, numbers) && numbers->finite &&
           wholes[EPOCH] == peer->epoch && wholes[SEQUENCE] == peer->sequence &&
           wholes[SETTINGS_VERSION] == peer->settings && wholes[STEPS] >= 1 &&
           wholes[SAMPLES] >= wholes[STEPS];
}

/* Receive what has come: of a push, the update where it belongs. Return how many bytes. */
static Py_ssize_t receive(Peer *peer, Py_ssize_t head) {
    uint8_t *chunk = peer->chunk.buf;
    Py_ssize_t apart = peer->apart ? peer->update.len : 0, after = head + apart;
    struct iovec parts[3] = {
        {chunk, (size_t)head},
        {peer->update.buf, (size_t)apart},
        {chunk + after, (size_t)(peer->chunk.len - after)},
    };
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 3};
    return recvmsg(peer->fd, &message, MSG_DONTWAIT);
}

/* Send what the socket takes at once; keep the rest for Python. */
static void answer(Peer *peer, int64_t version) {
    Py_ssize_t apart = peer->apart ? peer->update.len : 0, sent;
    memcpy(peer->reply + 8, (uint8_t *)peer->chunk.buf + 8, 4);
    put_big_endian(peer->reply + HEADER, 8, (uint64_t)version);
    struct iovec parts[2] = {{peer->reply, REPLY}, {peer->update.buf, (size_t)apart}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = apart ? 2 : 1};
    sent = sendmsg(peer->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK) shutdown(peer->fd, SHUT_RDWR);
    if (sent < 0) sent = 0;
    if (sent == REPLY + apart) return;
    peer->owed = REPLY + apart - sent;
    peer->unsent = malloc((size_t)peer->owed);
    if (peer->unsent == NULL) {
        shutdown(peer->fd, SHUT_RDWR);
        peer->owed = 0;
        return;
    }
    Py_ssize_t begun = sent < REPLY ? REPLY - sent : 0;
    memcpy(peer->unsent, peer->reply + (REPLY - begun), (size_t)begun);
    memcpy(peer->unsent + begun, (uint8_t *)peer->update.buf + (apart - (peer->owed - begun)),
           (size_t)(peer->owed - begun));
}

/* Serve what a peer has sent; return whether nothing is left to Python. */
static int serve(Poller *poller, Peer *peer) {
    Path *path = peer->path;
    if (path == NULL || __atomic_load_n(&path->agreed, __ATOMIC_RELAXED) != peer->agreed) return 0;
    uint8_t *chunk = peer->chunk.buf;
    Py_ssize_t head = HEADER + BODY + 8 * peer->metrics, got = receive(peer, head);
    Numbers numbers;
    if (got > 0 && is_next(peer, chunk, got, &numbers)) {
        int64_t made = commit(peer, &numbers, chunk + HEADER);
        if (made >= 0) {
            peer->sequence++;
            poller->owing = path;
            answer(peer, made);
            return !peer->owed;
        }
    }
    /* Python may serve the push that comes next: none does until it arms the peer again. */
    peer->sequence = -1;
    if (got <= 0) return 0;
    if (peer->apart && got > head) {
        Py_ssize_t apart = got - head < peer->update.len ? got - head : peer->update.len;
        memcpy(chunk + head, peer->update.buf, (size_t)apart);
    }
    peer->received = got;
    return 0;
}

/* Milliseconds until notes are to be settled; -1 if there are none. */
static int remaining(const Poller *poller) {
    Path *path = poller->owing;
    if (path == NULL || __atomic_load_n(&path->noted, __ATOMIC_RELAXED) == 0) return -1;
    double left = path->since + LINGER - now(CLOCK_MONOTONIC);
    return left <= 0 ? 0 : left > LINGER ? (int)(1e3 * LINGER) : 1 + (int)(1e3 * left);
}

/* Wait, and serve; return how many peers are ready for Python, or -1 with errno. */
int poll_peers(Poller *poller, Peer **ready, int *woken, int *due) {
    struct epoll_event events[MOST_EVENTS];
    int count = 0;
    while (!count && !*woken) {
        int left = remaining(poller);
        if ((*due = left == 0)) return 0;
        int found = epoll_wait(poller->epoll, events, MOST_EVENTS, left);
        if (found < 0 && errno != EINTR) return -1;
        for (int i = 0; i < found; i++) {
            Peer *peer = events[i].data.ptr;
            if (peer == NULL)
                *woken = 1;
            else if (!serve(poller, peer))
                ready[count++] = peer;
        }
    }
    return count;
}

#endif

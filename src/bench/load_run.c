/* The users of a load test (load_run.h). One thread: it begins what is due, waits in the transport, notes what comes. */
#include "bench/load_run.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/rng.h"
#include "bench/sse.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NS_MS 1000000ull
#define LONGEST_WAIT_MS 100 /* so that an interrupt is seen */
#define DEAD_AFTER 5        /* failed connections in a row: nobody is there */
#define BACK_OFF_MS 100     /* after a refusal without Retry-After, doubled each time */
#define BACK_OFF_MOST_MS 5000
#define PAGE_BYTES 2048 /* of an error's answer that are kept */

enum slot_state {
    SLOT_FREE,
    SLOT_WAITING, /* a request is due */
    SLOT_RUNNING
};

struct slot {
    enum slot_state state;
    uint64_t due_ns, heard_ns;
    struct load_request *now; /* the level's */
    struct sse sse;
    struct buf answer, page;
    json_t *messages; /* of the conversation; NULL: the next one begins */
    int64_t chat;
    int32_t turn, refusals;
    bool finished, events; /* of the answer: its end was seen; anything was */
    enum load_end bad;     /* LOAD_OK, or what is wrong with it */
};

struct load_run {
    struct load_settings s;
    struct load_transport t;
    struct slot *slots;
    int32_t n_slots, running;
    int64_t chats; /* conversations begun, in all levels */

    /* of the level */
    struct load_level *level;
    int64_t begun, ended, level_chats;
    uint64_t end_ns, arrival_ns; /* 0: none */
    bool closing;                /* nothing more is begun */
    int32_t unreachable;         /* in a row */
    int64_t arrivals;
};

static hasten_status out_of_memory(struct hasten_error *err)
{
    return error_set(err, HASTEN_ERR_MEMORY, "bench: out of memory");
}

int32_t load_run_slots(const struct load_settings *s)
{
    return s->open ? LIMIT_LOAD_STREAMS : s->streams;
}

hasten_status load_run_open(const struct load_settings *s, const struct load_transport *t,
                            struct load_run **out, struct hasten_error *err)
{
    struct load_run *r = mem_calloc(1, sizeof *r);
    if (r)
        r->slots = mem_calloc((size_t)load_run_slots(s), sizeof *r->slots);
    if (!r || !r->slots) {
        load_run_close(r);
        return out_of_memory(err);
    }
    r->s = *s;
    r->t = *t;
    r->n_slots = load_run_slots(s);
    r->chats = s->first_chat;
    *out = r;
    return HASTEN_OK;
}

void load_run_close(struct load_run *r)
{
    if (!r)
        return;
    for (int32_t i = 0; i < r->n_slots; i++) {
        sse_free(&r->slots[i].sse);
        buf_free(&r->slots[i].answer);
        buf_free(&r->slots[i].page);
        json_decref(r->slots[i].messages);
    }
    mem_free(r->slots);
    mem_free(r);
}

int64_t load_run_chats(const struct load_run *r)
{
    return r->chats;
}

/* ---- beginning ----------------------------------------------------------------------------------------- */

/* A user has nothing to ask: from now on fewer of them are at work, which is not the load that was asked for. */
static void run_dry(struct load_run *r, uint64_t now)
{
    r->closing |= r->s.requests > 0 && r->begun >= r->s.requests; /* else chats that have begun go on */
    if (!r->s.open && !r->level->to_ns)
        r->level->to_ns = now;
}

static bool may_begin(const struct load_run *r, const struct slot *s)
{
    if (r->closing || (r->s.requests > 0 && r->begun >= r->s.requests))
        return false;
    return s->messages || r->s.chats == 0 || r->level_chats < r->s.chats;
}

static int put_json(const char *text, size_t len, void *ctx)
{
    return buf_put(ctx, text, len);
}

static hasten_status put_body(const struct load_run *r, const struct slot *s, struct buf *out,
                              struct hasten_error *err)
{
    const uint64_t seed = r->s.seed * 1000003u + (uint64_t)s->chat * LOAD_TURNS + (uint64_t)s->turn;
    json_t *body = json_pack("{s:s, s:O, s:i, s:b, s:{s:b}, s:I}", "model", r->s.model, "messages",
                             s->messages, "max_tokens", (int)r->s.max_tokens, "stream", 1, "stream_options",
                             "include_usage", 1, "seed", (json_int_t)(seed & 0x7FFFFFFF));
    const int bad = !body || (r->s.fields && json_object_update(body, (json_t *)r->s.fields)) ||
                    json_dump_callback(body, put_json, out, JSON_COMPACT);
    json_decref(body);
    return bad ? out_of_memory(err) : HASTEN_OK;
}

static hasten_status begin_chat(struct load_run *r, struct slot *s, struct hasten_error *err)
{
    if (s->messages)
        return HASTEN_OK;
    s->chat = r->chats++;
    r->level_chats++;
    s->turn = 0;
    s->messages = talks_begin(r->s.talks, s->chat, r->s.turns == 1);
    return s->messages ? HASTEN_OK : out_of_memory(err);
}

/* The request that is due in slot i, unless nothing more is begun. */
static hasten_status begin(struct load_run *r, int32_t i, uint64_t now, struct hasten_error *err)
{
    struct slot *s = &r->slots[i];
    struct buf body = {0};
    if (!may_begin(r, s)) {
        s->state = SLOT_FREE;
        run_dry(r, now);
        return HASTEN_OK;
    }
    hasten_status st = begin_chat(r, s, err);
    if (!st)
        st = put_body(r, s, &body, err);
    if (!st && !(s->now = load_level_add(r->level)))
        st = error_set(err, HASTEN_ERR_LIMIT, "bench: more than %d requests in a level (expected fewer)",
                       LIMIT_LOAD_REQUESTS);
    if (!st) {
        *s->now = (struct load_request){.user = i,
                                        .chat = (int32_t)s->chat,
                                        .turn = s->turn,
                                        .due_ns = s->due_ns,
                                        .tokens = -1,
                                        .prompt_tokens = -1,
                                        .cached_tokens = -1};
        sse_clear(&s->sse);
        buf_clear(&s->answer);
        buf_clear(&s->page);
        s->finished = s->events = false;
        s->bad = LOAD_OK;
        s->state = SLOT_RUNNING;
        s->now->end = LOAD_STOPPED; /* until it is known better */
        s->now->sent_ns = s->heard_ns = clock_now_ns();
        r->running++;
        r->begun++;
        st = r->t.start(r->t.ctx, i, body.data, body.len, err);
    }
    buf_free(&body);
    return st;
}

/* Exponential, of mean 1: the n-th of the seed. */
static double exponential(uint64_t seed, int64_t n)
{
    const uint32_t counter[4] = {(uint32_t)n, (uint32_t)((uint64_t)n >> 32), 0, 0x6172726Fu},
                   key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    uint32_t out[4];
    philox4x32(counter, key, out);
    return -log(((double)out[0] + 1) / 4294967296.0); /* of (0, 1] */
}

/* The users who have arrived by now (open loop). */
static void arrive(struct load_run *r, uint64_t now)
{
    const struct slot fresh = {0};
    while (r->arrival_ns && r->arrival_ns <= now) {
        int32_t i = 0;
        if (!may_begin(r, &fresh) || (r->end_ns && r->arrival_ns >= r->end_ns)) {
            r->arrival_ns = 0;
            run_dry(r, now);
            return;
        }
        while (i < r->n_slots && r->slots[i].state != SLOT_FREE)
            i++;
        if (i < r->n_slots) {
            r->slots[i].state = SLOT_WAITING;
            r->slots[i].due_ns = r->arrival_ns;
        } else {
            r->level->not_sent++;
            r->begun++;
        }
        r->arrival_ns += (uint64_t)(exponential(r->s.seed, r->arrivals++) / r->s.rate * 1e9);
        if (i < r->n_slots)
            return; /* one at a time, so that may_begin counts it */
    }
}

static hasten_status begin_due(struct load_run *r, uint64_t now, struct hasten_error *err)
{
    hasten_status st = HASTEN_OK;
    uint64_t before;
    do {
        before = r->arrival_ns;
        if (r->s.open)
            arrive(r, now);
        for (int32_t i = 0; i < r->n_slots && !st; i++)
            if (r->slots[i].state == SLOT_WAITING && r->slots[i].due_ns <= now)
                st = begin(r, i, now, err);
    } while (!st && r->s.open && r->arrival_ns != before && r->arrival_ns);
    return st;
}

/* ---- what comes ---------------------------------------------------------------------------------------- */

struct arrival {
    struct load_run *r;
    struct slot *s;
    uint64_t now;
};

static void note_error(struct load_run *r, const char *text)
{
    if (!*r->level->first_error)
        snprintf(r->level->first_error, sizeof r->level->first_error, "%.*s",
                 (int)sizeof r->level->first_error - 1, text);
}

static hasten_status on_event(void *ctx, char *data, size_t len, struct hasten_error *err)
{
    const struct arrival *a = ctx;
    struct slot *s = a->s;
    struct load_event e;
    const bool chat = s->turn + 1 < a->r->s.turns;
    hasten_status st = load_event_parse(data, len, &e, chat ? &s->answer : NULL, err);
    s->events = true;
    if (st)
        return st;
    if (e.failed) {
        s->bad = LOAD_FAILED;
        return error_set(err, HASTEN_ERR_FILE, "the stream says: %s", e.message);
    }
    s->finished |= e.finish || e.done;
    s->now->tokens = e.tokens >= 0 ? e.tokens : s->now->tokens;
    s->now->prompt_tokens = e.prompt_tokens >= 0 ? e.prompt_tokens : s->now->prompt_tokens;
    s->now->cached_tokens = e.cached_tokens >= 0 ? e.cached_tokens : s->now->cached_tokens;
    return e.text && load_request_delta(s->now, a->now) ? out_of_memory(err) : HASTEN_OK;
}

bool load_run_bytes(struct load_run *r, int32_t slot, int32_t status, const char *bytes, size_t n)
{
    struct slot *s = &r->slots[slot];
    struct arrival a = {r, s, clock_now_ns()};
    struct hasten_error err;
    if (s->state != SLOT_RUNNING || s->bad)
        return false;
    s->heard_ns = a.now;
    if (status != 200) {
        const size_t room = PAGE_BYTES - s->page.len;
        return buf_put(&s->page, bytes, n < room ? n : room) == 0;
    }
    if (!sse_push(&s->sse, bytes, n, on_event, &a, &err))
        return true;
    s->bad = s->bad ? s->bad : LOAD_MALFORMED;
    note_error(r, err.message);
    return false;
}

/* "status 429: the queue is full" */
static void note_status(struct load_run *r, const struct slot *s, int32_t status)
{
    char text[280];
    json_t *root = NULL;
    struct hasten_error err;
    const char *why = s->page.data ? s->page.data : "";
    if (s->page.len && !json_parse("answer", s->page.data, s->page.len, &root, &err)) {
        const json_t *e = json_object_get(root, "error"),
                     *m = json_is_string(e) ? e : json_object_get(e, "message");
        why = json_is_string(m) ? json_string_value(m) : why;
    }
    error_set(&err, HASTEN_ERR_NETWORK, "status %d%s%.200s", (int)status, *why ? ": " : "", why);
    snprintf(text, sizeof text, "%.279s", err.message); /* cleaned of control characters */
    json_decref(root);
    note_error(r, text);
}

static enum load_end end_of(const struct slot *s, int32_t status, bool whole)
{
    if (s->bad)
        return s->bad;
    if (status <= 0)
        return status ? LOAD_CUT : LOAD_CONNECT;
    if (status != 200)
        return LOAD_STATUS;
    if (s->finished)
        return LOAD_OK;
    return whole && !s->events ? LOAD_MALFORMED : LOAD_CUT;
}

/* What the user of the slot does next. */
static void go_on(struct load_run *r, struct slot *s, enum load_end end, uint64_t now, uint64_t retry_ms)
{
    const bool ok = end == LOAD_OK, more = ok && s->turn + 1 < r->s.turns;
    s->state = SLOT_WAITING;
    s->due_ns = now;
    if (more) {
        if (talks_next(r->s.talks, s->messages, s->chat, s->turn + 1, s->answer.data, s->answer.len, NULL))
            note_error(r, "out of memory");
        s->turn++;
        s->due_ns = now + r->s.think_ns;
    }
    if ((ok && !more) || (!ok && r->s.open)) {
        json_decref(s->messages);
        s->messages = NULL;
        s->state = r->s.open ? SLOT_FREE : SLOT_WAITING;
    }
    if (ok) {
        s->refusals = 0;
    } else if (!r->s.open) {
        const int32_t n = s->refusals < 6 ? s->refusals++ : 6;
        uint64_t pause = (uint64_t)BACK_OFF_MS << n;
        pause = pause < BACK_OFF_MOST_MS ? pause : BACK_OFF_MOST_MS;
        s->due_ns = now + (retry_ms ? retry_ms : pause) * NS_MS;
    }
}

static void end_request(struct load_run *r, int32_t slot, enum load_end end, int32_t status,
                        uint64_t retry_ms)
{
    struct slot *s = &r->slots[slot];
    const uint64_t now = clock_now_ns();
    s->now->end = end;
    s->now->status = status > 0 ? status : 0;
    s->now->end_ns = now;
    s->now = NULL;
    r->running--;
    r->ended++;
    r->unreachable = end == LOAD_CONNECT ? r->unreachable + 1 : 0;
    go_on(r, s, end, now, retry_ms);
    if (r->s.progress)
        r->s.progress(r->s.progress_ctx, r->ended, r->s.requests);
}

void load_run_end(struct load_run *r, int32_t slot, int32_t status, bool whole, uint64_t retry_after_ms,
                  const char *why)
{
    struct slot *s = &r->slots[slot];
    if (s->state != SLOT_RUNNING)
        return;
    const enum load_end end = end_of(s, status, whole);
    if (end == LOAD_STATUS)
        note_status(r, s, status);
    else if (end == LOAD_MALFORMED)
        note_error(r, "the answer holds no event (expected server-sent events)");
    else if (end != LOAD_OK)
        note_error(r, end == LOAD_CUT && whole ? "the stream ended without a finish_reason" : why);
    end_request(r, slot, end, status, retry_after_ms);
}

/* ---- the level ----------------------------------------------------------------------------------------- */

static void find_stalled(struct load_run *r, uint64_t now)
{
    for (int32_t i = 0; i < r->n_slots && r->s.stall_ns; i++) {
        struct slot *s = &r->slots[i];
        if (s->state != SLOT_RUNNING || now - s->heard_ns < r->s.stall_ns || now < s->heard_ns)
            continue;
        r->t.stop(r->t.ctx, i);
        note_error(r, "no byte for too long (--stall)");
        end_request(r, i, LOAD_STALL, 0, 0);
    }
}

/* Milliseconds until something is due. */
static uint64_t wait_ms(const struct load_run *r, uint64_t now)
{
    uint64_t until = now + LONGEST_WAIT_MS * NS_MS;
    if (!r->closing && r->end_ns && r->end_ns < until)
        until = r->end_ns;
    if (!r->closing && r->arrival_ns && r->arrival_ns < until)
        until = r->arrival_ns;
    for (int32_t i = 0; i < r->n_slots && !r->closing; i++)
        if (r->slots[i].state == SLOT_WAITING && r->slots[i].due_ns < until)
            until = r->slots[i].due_ns;
    return until > now ? (until - now + NS_MS - 1) / NS_MS : 0;
}

static bool is_over(const struct load_run *r)
{
    if (r->running > 0)
        return false;
    if (r->closing)
        return true;
    for (int32_t i = 0; i < r->n_slots; i++)
        if (r->slots[i].state != SLOT_FREE)
            return false;
    return !r->arrival_ns;
}

static void start_level(struct load_run *r, struct load_level *l)
{
    const uint64_t now = clock_now_ns();
    *l =
        (struct load_level){.open = r->s.open, .value = r->s.open ? r->s.rate : r->s.streams, .from_ns = now};
    r->level = l;
    r->begun = r->ended = r->level_chats = r->arrivals = 0;
    r->closing = false;
    r->unreachable = 0;
    r->end_ns = r->s.duration_ns ? now + r->s.duration_ns : 0;
    r->arrival_ns = 0;
    if (r->s.open)
        r->arrival_ns = now + 1 + (uint64_t)(exponential(r->s.seed, r->arrivals++) / r->s.rate * 1e9);
    for (int32_t i = 0; i < r->n_slots; i++) {
        r->slots[i].state = r->s.open ? SLOT_FREE : SLOT_WAITING;
        r->slots[i].due_ns = now;
    }
}

/* Ends what runs, and sets the window's end where nothing else has. */
static void end_level(struct load_run *r, uint64_t cpu_ns)
{
    const uint64_t now = clock_now_ns();
    for (int32_t i = 0; i < r->n_slots; i++)
        if (r->slots[i].state == SLOT_RUNNING) {
            r->t.stop(r->t.ctx, i);
            r->slots[i].state = SLOT_FREE;
        }
    r->running = 0;
    if (r->end_ns && now >= r->end_ns && (r->s.open || !r->level->to_ns || r->level->to_ns > r->end_ns))
        r->level->to_ns = r->end_ns;
    if (!r->level->to_ns)
        r->level->to_ns = now;
    r->level->wall_ns = now - r->level->from_ns;
    r->level->client_ns = clock_thread_ns((int)gettid()) - cpu_ns;
}

hasten_status load_run_level(struct load_run *r, struct load_level *out, const volatile int *cancel,
                             struct hasten_error *err)
{
    const uint64_t cpu_ns = clock_thread_ns((int)gettid());
    hasten_status st = HASTEN_OK;
    start_level(r, out);
    while (!st) {
        const uint64_t now = clock_now_ns();
        if (r->end_ns && now >= r->end_ns) {
            r->closing = true;
            run_dry(r, r->end_ns);
        }
        st = begin_due(r, now, err);
        find_stalled(r, now);
        if (st || is_over(r))
            break;
        if (cancel && *cancel)
            st = error_set(err, HASTEN_ERR_CANCELLED, "interrupted");
        else
            st = r->t.poll(r->t.ctx, wait_ms(r, now), err);
        if (!st && r->unreachable >= DEAD_AFTER)
            st = error_set(err, HASTEN_ERR_NETWORK, "bench: %d requests in a row found nobody: %s",
                           r->unreachable, r->level->first_error);
    }
    end_level(r, cpu_ns);
    return st;
}

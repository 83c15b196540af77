/* Load tests without a server: quantiles by hand, figures of records that are written down, event streams cut at every
 * byte, conversations, and the users against a transport that answers at once on a clock that stands still. */
#include "base/clock.h"
#include "base/limits.h"
#include "bench/load_run.h"
#include "bench/plot.h"
#include "bench/sse.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* */
#include <cmocka.h>
#include <math.h>

#define MS 1000000ull

static void near(double a, double b)
{
    if (fabs(a - b) > 1e-9 * (1 + fabs(b)))
        fail_msg("%.12g is not %.12g", a, b);
}

static void test_quantiles(void **state)
{
    (void)state;
    struct load_quantiles q;
    double v[100];
    for (int i = 0; i < 100; i++)
        v[i] = (double)((i * 37) % 100 + 1); /* 1 .. 100 in disorder */
    load_quantiles_of(v, 100, &q);
    near(q.p50, 50);
    near(q.p95, 95);
    near(q.p99, 99);
    near(q.mean, 50.5);
    near(q.max, 100);
    double few[] = {3, 1, 2};
    load_quantiles_of(few, 3, &q); /* ranks 2, 3, 3 */
    near(q.p50, 2);
    near(q.p95, 3);
    near(q.p99, 3);
    double twenty[20];
    for (int i = 0; i < 20; i++)
        twenty[i] = 20 - i;
    load_quantiles_of(twenty, 20, &q);
    near(q.p95, 19); /* 19 of 20 do not exceed it */
    near(q.p99, 20);
    load_quantiles_of(few, 0, &q);
    assert_int_equal(q.n, 0);
    near(q.max, 0);
}

/* A request of the level: deltas at from, from + step, ... */
static struct load_request *add(struct load_level *l, uint64_t due, uint64_t first, uint64_t step, int n)
{
    struct load_request *r = load_level_add(l);
    assert_non_null(r);
    r->due_ns = r->sent_ns = due * MS;
    for (int i = 0; i < n; i++)
        assert_int_equal(load_request_delta(r, (first + (uint64_t)i * step) * MS), 0);
    r->end_ns = (first + (uint64_t)(n - 1) * step) * MS;
    r->status = 200;
    return r;
}

static void test_summary(void **state)
{
    (void)state;
    struct load_level l = {
        .value = 2, .from_ns = 0, .to_ns = 1000 * MS, .wall_ns = 2000 * MS, .client_ns = 20 * MS};
    struct load_summary s;
    const struct load_bounds bounds = {.ttft_ms = 150, .itl_ms = 100};
    struct load_request *r = add(&l, 0, 100, 50, 10); /* 100 .. 550 */
    r->prompt_tokens = 30;
    r->cached_tokens = 10;
    r->tokens = 20;                /* two in a delta */
    r = add(&l, 100, 300, 200, 5); /* 300 .. 1100: the last is outside */
    r->turn = 1;
    add(&l, 500, 600, 10, 3)->end = LOAD_CUT;
    for (int i = 0; i < 3; i++) {
        r = load_level_add(&l);
        r->end = LOAD_STATUS;
        r->status = i ? 503 : 429;
    }
    add(&l, 0, 5, 5, 5)->end = LOAD_STOPPED;
    l.not_sent = 2;
    assert_int_equal(load_summarise(&l, &bounds, &s, NULL), HASTEN_OK);
    assert_int_equal(s.requests, 8);
    assert_int_equal(s.ok, 2);
    assert_int_equal(s.failed, 6);
    assert_int_equal(s.n_statuses, 2);
    assert_int_equal(s.statuses[1].status, 503);
    assert_int_equal(s.statuses[1].n, 2);
    assert_int_equal(s.ends[LOAD_CUT], 1);
    near(s.tokens_per_s, 20 + 4 + 3); /* what came counts, also of what was cut */
    near(s.requests_per_s, 1);
    assert_int_equal(s.tokens, 25);
    assert_int_equal(s.by_usage, 1);
    assert_int_equal(s.by_deltas, 1);
    near(s.tokens_per_delta, 25.0 / 15);
    assert_int_equal(s.prompt_tokens, 30);
    assert_int_equal(s.cached_tokens, 10);
    assert_int_equal(s.ttft.n, 3);
    near(s.ttft.p50, 100);
    near(s.ttft.max, 200);
    assert_int_equal(s.itl.n, 9 + 4 + 2);
    near(s.itl.p50, 50);
    near(s.longest_ms, 200);
    near(s.tpot.p50, 450.0 / 19);
    near(s.tpot.max, 200);
    near(s.e2e.max, 1000);
    assert_int_equal(s.good, 1); /* the second came too late */
    near(s.good_requests_per_s, 0.5);
    near(s.good_tokens_per_s, 10);
    near(s.client_share, 0.01);
    assert_int_equal(s.n_turns, 2);
    near(s.turns[0].cached_tokens, 10);
    near(s.turns[1].ttft.p50, 200);
    near(s.turns[1].prompt_tokens, -1);
    load_level_free(&l);
    assert_int_equal(load_summarise(&l, &bounds, &s, NULL), HASTEN_OK); /* nothing at all */
    near(s.tokens_per_s, 0);
}

/* ---- events -------------------------------------------------------------------------------------------- */

static hasten_status collect(void *ctx, char *data, size_t len, struct hasten_error *err)
{
    (void)err;
    return buf_put(ctx, "[", 1) || buf_put(ctx, data, len) || buf_putc(ctx, ']') ? HASTEN_ERR_MEMORY
                                                                                 : HASTEN_OK;
}

static void test_sse(void **state)
{
    (void)state;
    static const char text[] =
        "\xEF\xBB\xBF"
        "data: one\n\n: no\r\ndata:two\rdata\rdata:  three\r\n\r\nevent: x\n\nid: 4\ndatum: "
        "5\ndata: \n\ndata: cut";
    for (size_t cut = 0; cut <= sizeof text - 1; cut++) {
        struct sse s = {0};
        struct buf out = {0};
        assert_int_equal(sse_push(&s, text, cut, collect, &out, NULL), HASTEN_OK);
        assert_int_equal(sse_push(&s, text + cut, sizeof text - 1 - cut, collect, &out, NULL), HASTEN_OK);
        assert_string_equal(out.data, "[one][two\n\n three][]");
        sse_clear(&s);
        buf_clear(&out);
        assert_int_equal(sse_push(&s, "data: a\n\n", 9, collect, &out, NULL), HASTEN_OK);
        assert_string_equal(out.data, "[a]");
        sse_free(&s);
        buf_free(&out);
    }
}

static void test_sse_limit(void **state)
{
    (void)state;
    struct sse s = {0};
    struct buf out = {0};
    hasten_status st = HASTEN_OK;
    int n = 0;
    for (; n < 100 && !st; n++)
        st = sse_push(&s, "data: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", 70,
                      collect, &out, NULL);
    assert_int_equal(st, HASTEN_OK);
    char *block = mem_calloc(1, LIMIT_SSE_BYTES);
    assert_int_equal(sse_push(&s, block, LIMIT_SSE_BYTES, collect, &out, NULL), HASTEN_ERR_LIMIT);
    mem_free(block);
    sse_free(&s);
    buf_free(&out);
}

static void parse(const char *text, struct load_event *e, struct buf *answer)
{
    struct hasten_error err;
    if (load_event_parse(text, strlen(text), e, answer, &err))
        fail_msg("%s: %s", text, err.message);
}

static void test_events(void **state)
{
    (void)state;
    struct load_event e;
    struct buf answer = {0};
    parse("[DONE]", &e, NULL);
    assert_true(e.done && !e.text);
    parse("{\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":null}}]}", &e, &answer);
    assert_true(!e.text && !e.finish && e.tokens == -1);
    parse("{\"choices\":[{\"delta\":{\"content\":\"ab\"},\"finish_reason\":null}]}", &e, &answer);
    assert_true(e.text && !e.finish);
    parse("{\"choices\":[{\"text\":\"cd\",\"finish_reason\":\"stop\"}]}", &e, &answer);
    assert_true(e.text && e.finish);
    assert_string_equal(answer.data, "abcd");
    parse("{\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0}]}}]}", &e, NULL);
    assert_true(e.text);
    parse("{\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":5,"
          "\"prompt_tokens_details\":{\"cached_tokens\":3}}}",
          &e, NULL);
    assert_true(e.prompt_tokens == 7 && e.tokens == 5 && e.cached_tokens == 3);
    parse(
        "{\"choices\":[],\"usage\":{\"prompt_tokens\":-7,\"completion_tokens\":\"5\"},\"timings\":{\"cache_n\":9}}",
        &e, NULL);
    assert_true(e.prompt_tokens == -1 && e.tokens == -1 && e.cached_tokens == 9);
    parse("{\"error\":{\"message\":\"no\"}}", &e, NULL);
    assert_true(e.failed);
    assert_string_equal(e.message, "no");
    assert_int_equal(load_event_parse("[1]", 3, &e, NULL, NULL), HASTEN_ERR_FILE);
    assert_int_not_equal(load_event_parse("{", 1, &e, NULL, NULL), HASTEN_OK);
    buf_free(&answer);
}

/* ---- users --------------------------------------------------------------------------------------------- */

#define HELD 64

struct fake { /* answers after `takes` milliseconds, tokens evenly spread */
    struct load_run *run;
    uint64_t now, takes, at[HELD];
    bool busy[HELD];
    int refuse_every, n, most;
};

static void set_clock(struct fake *f, uint64_t ms)
{
    f->now = ms;
    clock_set_fake(1, ms * MS, 0);
}

static hasten_status fake_start(void *ctx, int32_t slot, const char *body, size_t len,
                                struct hasten_error *err)
{
    struct fake *f = ctx;
    int running = 0;
    (void)err;
    assert_true(slot < HELD && !f->busy[slot]);
    assert_int_equal(strlen(body), len);
    f->busy[slot] = true;
    f->at[slot] = f->now + f->takes;
    for (int i = 0; i < HELD; i++)
        running += f->busy[i];
    f->most = running > f->most ? running : f->most;
    return HASTEN_OK;
}

static void answer(struct fake *f, int32_t slot)
{
    static const char text[] =
        "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n";
    f->busy[slot] = false;
    if (f->refuse_every && ++f->n % f->refuse_every == 0) {
        load_run_end(f->run, slot, 429, true, 500, "");
        return;
    }
    assert_true(load_run_bytes(f->run, slot, 200, text, sizeof text - 1));
    load_run_end(f->run, slot, 200, true, 0, "");
}

/* Time passes to the next answer, or by what may be waited. */
static hasten_status fake_poll(void *ctx, uint64_t wait_ms, struct hasten_error *err)
{
    struct fake *f = ctx;
    int next = -1;
    (void)err;
    for (int i = 0; i < HELD; i++)
        if (f->busy[i] && (next < 0 || f->at[i] < f->at[next]))
            next = i;
    if (next >= 0 && f->at[next] <= f->now + wait_ms) {
        set_clock(f, f->at[next] > f->now ? f->at[next] : f->now);
        answer(f, next);
    } else {
        set_clock(f, f->now + wait_ms);
    }
    return HASTEN_OK;
}

static void fake_stop(void *ctx, int32_t slot)
{
    struct fake *f = ctx;
    f->busy[slot] = false;
}

static void simulate(struct fake *f, struct load_settings s, struct load_level *l, struct load_summary *sum)
{
    const struct talks_settings ws = {.prompt_tokens = 16, .turn_tokens = 8, .seed = 3};
    const struct load_bounds none = {0};
    const struct load_transport t = {fake_start, fake_poll, fake_stop, f};
    struct talks w;
    struct hasten_error err = {0};
    assert_int_equal(talks_open(&ws, &w, &err), HASTEN_OK);
    s.talks = &w;
    s.model = "m";
    s.turns = s.turns ? s.turns : 1;
    s.max_tokens = 1;
    set_clock(f, 1000);
    assert_int_equal(load_run_open(&s, &t, &f->run, &err), HASTEN_OK);
    if (load_run_level(f->run, l, NULL, &err))
        fail_msg("%s", err.message);
    load_run_close(f->run);
    clock_set_fake(0, 0, 0);
    talks_close(&w);
    assert_int_equal(load_summarise(l, &none, sum, &err), HASTEN_OK);
}

static void test_closed_loop(void **state)
{
    (void)state;
    struct fake f = {.takes = 10};
    struct load_level l;
    struct load_summary s;
    simulate(&f, (struct load_settings){.streams = 4, .requests = 42}, &l, &s);
    assert_int_equal(s.ok, 42);
    assert_int_equal(f.most, 4);
    near(s.window_s, 0.1); /* two of four have nothing to do after the tenth round */
    near(s.ttft.p50, 10);
    load_level_free(&l);
    f = (struct fake){.takes = 10};
    simulate(&f, (struct load_settings){.streams = 2, .duration_ns = 95 * MS}, &l, &s);
    assert_int_equal(s.ok, 20); /* the last two are awaited */
    near(s.window_s, 0.095);
    near(s.tokens_per_s, 18 / 0.095);
    load_level_free(&l);
    f = (struct fake){.takes = 10};
    simulate(&f, (struct load_settings){.streams = 3, .chats = 5, .turns = 4, .think_ns = 7 * MS}, &l, &s);
    assert_int_equal(s.ok, 20);
    assert_int_equal(s.n_turns, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(s.turns[i].n, 5);
    load_level_free(&l);
}

static void test_refusals(void **state)
{
    (void)state;
    struct fake f = {.takes = 10, .refuse_every = 5};
    struct load_level l;
    struct load_summary s;
    simulate(&f, (struct load_settings){.streams = 1, .requests = 10}, &l, &s);
    assert_int_equal(s.ok, 8);
    assert_int_equal(s.statuses[0].n, 2);
    assert_int_equal(l.requests[5]->due_ns - l.requests[4]->end_ns, 500 * MS); /* Retry-After */
    assert_int_equal(l.requests[5]->chat, l.requests[4]->chat);
    load_level_free(&l);
}

static void test_open_loop(void **state)
{
    (void)state;
    struct fake f = {.takes = 35};
    struct load_level l;
    struct load_summary s;
    simulate(&f, (struct load_settings){.open = true, .rate = 100, .duration_ns = 20000 * MS, .seed = 9}, &l,
             &s);
    assert_true(s.ok > 1850 && s.ok < 2150); /* 2000 ± 45 */
    near(s.window_s, 20);
    assert_true(f.most > 8); /* 3.5 in the mean; a closed loop could not */
    double sum = 0, squares = 0;
    for (int i = 1; i < l.n; i++) {
        const double gap = (double)(l.requests[i]->due_ns - l.requests[i - 1]->due_ns) / 1e6;
        sum += gap;
        squares += gap * gap;
    }
    const double mean = sum / (l.n - 1), deviation = sqrt(squares / (l.n - 1) - mean * mean);
    assert_true(mean > 9.2 && mean < 10.8);
    assert_true(deviation / mean > 0.9 && deviation / mean < 1.1); /* exponential */
    assert_true(s.late_ms <= 1.0);                                 /* waits are whole milliseconds */
    load_level_free(&l);
    f = (struct fake){.takes = 5};
    simulate(&f, (struct load_settings){.open = true, .rate = 50, .requests = 30, .turns = 3}, &l, &s);
    assert_int_equal(s.ok, 30);
    assert_true(s.turns[2].n > 0);
    load_level_free(&l);
}

static void test_talks(void **state)
{
    (void)state;
    struct talks w;
    const struct talks_settings big = {.prompt_tokens = 40000, .seed = 1},
                                small = {.prompt_tokens = 100, .seed = 1};
    assert_int_equal(talks_open(&big, &w, NULL), HASTEN_OK);
    assert_true(talks_repeats(&w));
    json_t *m = talks_begin(&w, 0, true);
    assert_non_null(m);
    const size_t n = json_string_length(json_object_get(json_array_get(m, 0), "content"));
    assert_true(n > 159000 && n < 161000);
    json_decref(m);
    talks_close(&w);
    assert_int_equal(talks_open(&small, &w, NULL), HASTEN_OK);
    assert_false(talks_repeats(&w));
    m = talks_begin(&w, 7, true);
    assert_int_equal(talks_next(&w, m, 7, 1, "yes", 3, NULL), HASTEN_OK);
    assert_int_equal(json_array_size(m), 3);
    assert_string_equal(json_string_value(json_object_get(json_array_get(m, 1), "content")), "yes");
    json_decref(m);
    talks_close(&w);
}

static void test_plot(void **state)
{
    (void)state;
    struct plot p = {.title = "a < b", .x_title = "x", .x = {"1", "4"}, .n_points = 2, .n_panels = 2};
    struct buf out = {0};
    p.panels[0] = (struct plot_panel){.title = "t", .names = {"one"}, .y = {{3, 7}}, .n_lines = 1};
    p.panels[1] = (struct plot_panel){.title = "nothing", .y = {{0, 0}}, .n_lines = 1};
    assert_int_equal(plot_svg(&p, &out), 0);
    assert_non_null(strstr(out.data, "<title>a &lt; b</title>"));
    assert_non_null(strstr(out.data, "<title>7</title>"));
    assert_null(strstr(out.data, "nan"));
    buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantiles), cmocka_unit_test(test_summary),
        cmocka_unit_test(test_sse),       cmocka_unit_test(test_sse_limit),
        cmocka_unit_test(test_events),    cmocka_unit_test(test_closed_loop),
        cmocka_unit_test(test_refusals),  cmocka_unit_test(test_open_loop),
        cmocka_unit_test(test_talks),     cmocka_unit_test(test_plot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

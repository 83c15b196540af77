/* The server's parts on their own: keys, kept grammars, the table of fields, metrics, exchanges, each with its bound. */
#include "base/file.h"
#include "base/limits.h"
#include "model/loaded.h"
#include "serve/fields.h"
#include "serve/grammars.h"
#include "serve/http.h"
#include "serve/json_out.h"
#include "serve/keys.h"
#include "serve/metrics.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include <pthread.h>

/* ---- keys ---- */

static void write_keys(const char *path, int n, int len)
{
    struct buf b = {0};
    struct file *f;
    struct hasten_error err;
    for (int i = 0; i < n; i++)
        assert_int_equal(buf_printf(&b, "%0*d name\n", len, i), 0);
    assert_int_equal(file_open(path, FILE_WRITE_TRUNC, &f, &err), HASTEN_OK);
    assert_int_equal(file_write(f, b.data, b.len, &err), HASTEN_OK);
    file_close(f);
    buf_free(&b);
}

static void test_keys(void **state)
{
    const char *path = "keys.txt";
    struct keys *k;
    struct hasten_error err;
    uint64_t a, b;
    char key[LIMIT_SERVE_KEY_BYTES + 8];
    (void)state;
    write_keys(path, LIMIT_SERVE_KEYS, 8);
    assert_int_equal(keys_open(path, &k, &err), HASTEN_OK);
    assert_int_equal(keys_count(k), LIMIT_SERVE_KEYS);
    assert_true(keys_allow(k, "00000000", &a));
    assert_true(keys_allow(k, "00000001", &b));
    assert_true(a && b && a != b);
    assert_false(keys_allow(k, "0000000", &a));
    assert_false(keys_allow(k, "00000000 ", &a));
    assert_false(keys_allow(k, "", &a));
    assert_false(keys_allow(k, NULL, &a));
    write_keys(path, LIMIT_SERVE_KEYS + 1, 8);
    assert_int_equal(keys_reload(k, &err), HASTEN_ERR_FILE);
    assert_true(keys_allow(k, "00000001", &b)); /* the old ones stand */
    write_keys(path, 1, LIMIT_SERVE_KEY_BYTES);
    assert_int_equal(keys_reload(k, &err), HASTEN_OK);
    snprintf(key, sizeof key, "%0*d", LIMIT_SERVE_KEY_BYTES, 0);
    assert_true(keys_allow(k, key, &a));
    snprintf(key, sizeof key, "%0*d", LIMIT_SERVE_KEY_BYTES + 1, 0);
    assert_false(keys_allow(k, key, &a));
    assert_false(keys_allow(k, "00000001", &a));
    write_keys(path, 1, LIMIT_SERVE_KEY_BYTES + 1);
    assert_int_equal(keys_reload(k, &err), HASTEN_ERR_FILE);
    keys_close(k);
    assert_int_equal(keys_open(NULL, &k, &err), HASTEN_OK);
    assert_true(keys_allow(k, NULL, &a));
    assert_int_equal(a, 0);
    keys_close(k);
    file_unlink(path, &err);
}

/* ---- grammars ---- */

static void test_grammars(void **state)
{
    const struct kept_grammar *held[LIMIT_SERVE_GRAMMARS + 1], *again;
    struct hasten_model *m;
    struct grammars *g;
    struct hasten_error err;
    char text[64];
    (void)state;
    assert_int_equal(hasten_model_open("script:hash=1", &m, &err), HASTEN_OK);
    assert_int_equal(grammars_open(model_vocab(m), hasten_model_n_vocab(m), &g, &err), HASTEN_OK);
    for (int i = 0; i < LIMIT_SERVE_GRAMMARS; i++) {
        snprintf(text, sizeof text, "root ::= \"a%d\"", i);
        assert_int_equal(grammars_take(g, "g", text, strlen(text), false, &held[i], &err), HASTEN_OK);
    }
    assert_int_equal(grammars_take(g, "g", text, strlen(text), false, &again, &err), HASTEN_OK);
    assert_ptr_equal(again, held[LIMIT_SERVE_GRAMMARS - 1]);
    grammars_give(g, again);
    assert_int_equal(grammars_take(g, "g", "root ::= \"b\"", 12, false, &again, &err), HASTEN_ERR_MEMORY);
    grammars_give(g, held[3]);
    assert_int_equal(grammars_take(g, "g", "root ::= \"b\"", 12, false, &held[3], &err), HASTEN_OK);
    assert_int_equal(grammars_take(g, "g", "root ::= (", 10, false, &again, &err), HASTEN_ERR_FILE);
    for (int i = 0; i < LIMIT_SERVE_GRAMMARS; i++)
        grammars_give(g, held[i]);
    for (int i = 0; i < 3 * LIMIT_SERVE_GRAMMARS; i++) { /* none is held: each has a place */
        snprintf(text, sizeof text, "root ::= \"c%d\"", i);
        assert_int_equal(grammars_take(g, "g", text, strlen(text), i % 2, &again, &err), HASTEN_OK);
        grammars_give(g, again);
    }
    grammars_close(g);
    hasten_model_close(m);
}

/* Threads that take few grammars again and again, more than are kept in all: whoever holds one has its text's, and what a
 * thread holds is there for the next that asks. */
struct taker {
    struct grammars *g;
    int first;
    bool good;
};

static void *take_and_give(void *arg)
{
    struct taker *t = arg;
    const struct kept_grammar *held = NULL, *other, *again;
    struct hasten_error err;
    char text[64], next[64];
    snprintf(text, sizeof text, "root ::= \"common\"");
    t->good = !grammars_take(t->g, "g", text, strlen(text), false, &held, &err);
    for (int i = 0; i < 40 && t->good; i++) {
        snprintf(next, sizeof next, "root ::= \"d%d\"", t->first + i % 20);
        t->good = !grammars_take(t->g, "g", next, strlen(next), false, &other, &err) &&
                  !grammars_take(t->g, "g", text, strlen(text), false, &again, &err) && again == held &&
                  other != held;
        if (!t->good)
            break;
        grammars_give(t->g, again);
        grammars_give(t->g, other);
    }
    grammars_give(t->g, held);
    return NULL;
}

static void test_grammars_of_threads(void **state)
{
    enum {
        N = 4
    };
    struct hasten_model *m;
    struct grammars *g;
    struct hasten_error err;
    struct taker t[N];
    pthread_t thread[N];
    (void)state;
    assert_int_equal(hasten_model_open("script:hash=1", &m, &err), HASTEN_OK);
    assert_int_equal(grammars_open(model_vocab(m), hasten_model_n_vocab(m), &g, &err), HASTEN_OK);
    for (int i = 0; i < N; i++) {
        t[i] = (struct taker){g, 15 * i, false};
        assert_int_equal(pthread_create(&thread[i], NULL, take_and_give, &t[i]), 0);
    }
    for (int i = 0; i < N; i++) {
        pthread_join(thread[i], NULL);
        assert_true(t[i].good);
    }
    grammars_close(g);
    hasten_model_close(m);
}

/* ---- fields ---- */

static bool parse(const char *text, enum endpoint ep, struct params *p, json_t **warnings, struct fault *f)
{
    json_t *v = json_loads(text, JSON_DECODE_ANY, NULL);
    assert_non_null(v);
    const bool ok = fields_parse(v, ep, p, warnings, f);
    json_decref(v); /* what p borrowed is gone: numbers are copies */
    return ok;
}

static void test_fields(void **state)
{
    struct params p;
    struct fault f = {0};
    json_t *warnings = NULL;
    struct buf b = {0};
    (void)state;
    assert_true(parse("{\"temperature\":0.5,\"seed\":9007199254740993,\"n\":null,\"top_k\":5.0}", EP_CHAT, &p,
                      NULL, &f));
    assert_true(p.temperature == 0.5 && p.seed == 9007199254740993 && p.n == 1 && p.top_k == 5);
    assert_true(FIELD_GIVEN(&p, temperature) && !FIELD_GIVEN(&p, n) && !FIELD_GIVEN(&p, top_p));
    assert_true(parse("{\"repetition_penalty\":2}", EP_CHAT, &p, NULL, &f));
    assert_true(p.repeat_penalty == 2 && FIELD_GIVEN(&p, repeat_penalty));
    assert_false(parse("{\"top_p\":1.0000001}", EP_CHAT, &p, NULL, &f));
    assert_string_equal(f.param, "top_p");
    assert_int_equal(f.status, 400);
    assert_false(parse("[]", EP_CHAT, &p, NULL, &f));
    assert_false(parse("{\"skip_special_tokens\":false}", EP_CHAT, &p, NULL, &f));
    assert_true(parse("{\"skip_special_tokens\":true}", EP_CHAT, &p, NULL, &f));
    assert_int_equal(buf_putc(&b, '{'), 0);
    for (int i = 0; i < LIMIT_SERVE_WARNINGS + 9; i++)
        assert_int_equal(buf_printf(&b, "%s\"x%d\":1", i ? "," : "", i), 0);
    assert_int_equal(buf_putc(&b, '}'), 0);
    assert_true(parse(b.data, EP_CHAT, &p, &warnings, &f));
    assert_int_equal(json_array_size(warnings), LIMIT_SERVE_WARNINGS + 1);
    json_decref(warnings);
    buf_free(&b);
    for (int i = 0; i < n_fields; i++) { /* the table itself */
        json_t *v = fields[i].value ? json_loads(fields[i].value, JSON_DECODE_ANY, NULL) : NULL;
        assert_true(!fields[i].value || v);
        assert_true(fields[i].use != FIELD_NEUTRAL || v);
        assert_true(fields[i].endpoints && fields[i].doc && i < (int)sizeof p.given);
        assert_ptr_equal(field_find(fields[i].name, fields[i].endpoints & -fields[i].endpoints), &fields[i]);
        json_decref(v);
    }
}

/* ---- text ---- */

static void test_json_text(void **state)
{
    struct buf b = {0};
    (void)state;
    assert_int_equal(out_text(&b, "a\"\\\n\x01\x7f\xc3\xa9\xff\xe2\x82|\xed\xa0\x80", 15), 0);
    assert_string_equal(b.data, "\"a\\\"\\\\\\n\\u0001\\u007f\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd|"
                                "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"");
    buf_clear(&b);
    assert_int_equal(out_base64(&b, "Ma", 2) | out_base64(&b, "Man", 3) | out_base64(&b, "M", 1), 0);
    assert_string_equal(b.data, "TWE=TWFuTQ==");
    buf_free(&b);
}

static void test_metrics(void **state)
{
    struct metrics m = {0};
    const struct metrics_labels l = {"a\"b\\c\nd", "f16"};
    struct buf b = {0};
    (void)state;
    metric_observe(&m, HISTOGRAM_TTFT, 0.003);
    metric_observe(&m, HISTOGRAM_TTFT, 1e9);
    metric_observe(&m, HISTOGRAM_TTFT, -1);
    assert_int_equal(metrics_render(&m, &l, &b), 0);
    assert_non_null(strstr(
        b.data, "\nvllm:time_to_first_token_seconds_bucket{model_name=\"a\\\"b\\\\c\\nd\",engine=\"0\","
                "le=\"0.005\"} 2\n"));
    assert_non_null(strstr(b.data, "le=\"+Inf\"} 3\n"));
    buf_free(&b);
}

/* ---- exchanges ---- */

static void no_request(void *ctx, struct exchange *x)
{
    (void)ctx;
    (void)x;
}

static bool none(void *ctx, struct exchange *x, struct fault *f)
{
    (void)ctx;
    (void)x;
    return fault_set(f, 404, NULL, NULL, "nothing");
}

static void note(void *ctx)
{
    ++*(int *)ctx;
}

static void test_exchange(void **state)
{
    const struct door_settings set = {.host = "127.0.0.1",
                                      .max_connections = 1,
                                      .max_body = LIMIT_SERVE_BODY,
                                      .header_ms = 1000,
                                      .idle_ms = 1000,
                                      .ping_ms = 1000,
                                      .handle = no_request,
                                      .finished = no_request,
                                      .admit = none};
    struct door *d;
    struct hasten_error err;
    static char data[LIMIT_SERVE_UNREAD];
    char got[16];
    enum exchange_state open;
    int told = 0;
    (void)state;
    assert_int_equal(door_open(&set, &d, &err), HASTEN_OK);
    struct exchange *x = exchange_open(d);
    exchange_begin(x);
    assert_int_equal(exchange_take(x, got, sizeof got, &open), 0);
    assert_true(open == EXCHANGE_OPEN && x->asleep);
    assert_true(exchange_write(x, "0123456789abcdefXYZ", 19));
    assert_false(x->asleep);
    assert_int_equal(exchange_take(x, got, sizeof got, &open), 16);
    assert_true(exchange_write(x, data, sizeof data - 3));
    assert_false(exchange_write(x, data, 1)); /* too far behind */
    exchange_on_gone(x, note, &told);
    exchange_leave(x);
    exchange_leave(x);
    assert_int_equal(told, 1);
    assert_false(exchange_write(x, "a", 1));
    exchange_on_gone(x, note, &told); /* it has left: at once */
    assert_int_equal(told, 2);
    exchange_unref(x);
    door_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_keys),
                                       cmocka_unit_test(test_grammars),
                                       cmocka_unit_test(test_grammars_of_threads),
                                       cmocka_unit_test(test_fields),
                                       cmocka_unit_test(test_json_text),
                                       cmocka_unit_test(test_metrics),
                                       cmocka_unit_test(test_exchange)};
    json_set_alloc_funcs(mem_alloc, mem_free); /* as the command does */
    return cmocka_run_group_tests(tests, NULL, NULL);
}

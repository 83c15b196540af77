/* What `hasten bench --serve` prints and writes: table or JSON, a CSV of requests, a plot. Figures are bench/load.h's. */
#include "base/file.h"
#include "bench/plot.h"
#include "cli/bench_serve.h"
#include <jansson.h>
#include <string.h>

static const char *counted_by(const struct load_summary *s)
{
    return s->by_usage && s->by_deltas ? "both" : s->by_usage ? "usage" : "deltas";
}

/* ---- JSON ---------------------------------------------------------------------------------------------- */

static json_t *quantiles_json(const struct load_quantiles *q)
{
    if (q->n == 0)
        return json_null();
    return json_pack("{s:I, s:f, s:f, s:f, s:f, s:f}", "n", (json_int_t)q->n, "p50", q->p50, "p95", q->p95,
                     "p99", q->p99, "mean", q->mean, "max", q->max);
}

static json_t *count_or_null(int64_t n)
{
    return n < 0 ? json_null() : json_integer(n);
}

/* {"429": 3, "cut": 1} */
static json_t *errors_json(const struct serve_level *l)
{
    const struct load_summary *s = &l->summary;
    json_t *out = json_object();
    char name[16];
    for (int32_t i = 0; i < s->n_statuses; i++) {
        snprintf(name, sizeof name, "%d", (int)s->statuses[i].status);
        json_put(&out, name, json_integer(s->statuses[i].n));
    }
    for (int e = LOAD_CONNECT; e < LOAD_STOPPED; e++)
        if (s->ends[e] > 0)
            json_put(&out, load_end_name((enum load_end)e), json_integer(s->ends[e]));
    if (l->level.not_sent > 0)
        json_put(&out, "not_sent", json_integer(l->level.not_sent));
    return out;
}

static json_t *turns_json(const struct load_summary *s)
{
    json_t *out = json_array();
    for (int32_t i = 0; i < s->n_turns; i++) {
        const struct load_turn *t = &s->turns[i];
        json_add(&out,
                 json_pack("{s:i, s:I, s:o, s:o, s:o}", "turn", (int)i + 1, "n", (json_int_t)t->n, "ttft_ms",
                           quantiles_json(&t->ttft), "prompt_tokens",
                           t->prompt_tokens < 0 ? json_null() : json_real(t->prompt_tokens), "cached_tokens",
                           t->cached_tokens < 0 ? json_null() : json_real(t->cached_tokens)));
    }
    return out;
}

static json_t *goodput_json(const struct serve_run *r, const struct load_summary *s)
{
    const struct load_args *a = &r->a->load;
    if (!a->ttft_bound_ms && !a->itl_bound_ms)
        return json_null();
    return json_pack("{s:o, s:o, s:I, s:f, s:f, s:f}", "ttft_bound_ms",
                     a->ttft_bound_ms ? json_integer((json_int_t)a->ttft_bound_ms) : json_null(),
                     "itl_bound_ms",
                     a->itl_bound_ms ? json_integer((json_int_t)a->itl_bound_ms) : json_null(), "requests",
                     (json_int_t)s->good, "share", s->requests ? (double)s->good / (double)s->requests : 0.0,
                     "requests_per_s", s->good_requests_per_s, "tokens_per_s", s->good_tokens_per_s);
}

static json_t *level_json(const struct serve_run *r, const struct serve_level *l)
{
    const struct load_summary *s = &l->summary;
    json_t *v = json_object();
    json_put(&v, l->level.open ? "rate" : "streams",
             l->level.open ? json_real(l->level.value) : json_integer((json_int_t)l->level.value));
    json_put(&v, "requests", json_integer(s->requests));
    json_put(&v, "ok", json_integer(s->ok));
    json_put(&v, "failed", json_integer(s->failed));
    json_put(&v, "errors", errors_json(l));
    json_put(&v, "first_error",
             *l->level.first_error ? json_bytes(l->level.first_error, strlen(l->level.first_error))
                                   : json_null());
    json_put(&v, "window_s", json_real(s->window_s));
    json_put(&v, "tokens_per_s", json_real(s->tokens_per_s));
    json_put(&v, "requests_per_s", json_real(s->requests_per_s));
    json_put(&v, "tokens", json_integer(s->tokens));
    json_put(&v, "counted_by", json_string(counted_by(s)));
    json_put(&v, "tokens_per_delta", json_real(s->tokens_per_delta));
    json_put(&v, "prompt_tokens", count_or_null(s->prompt_tokens));
    json_put(&v, "cached_tokens", count_or_null(s->cached_tokens));
    json_put(&v, "ttft_ms", quantiles_json(&s->ttft));
    json_put(&v, "itl_ms", quantiles_json(&s->itl));
    json_put(&v, "tpot_ms", quantiles_json(&s->tpot));
    json_put(&v, "e2e_ms", quantiles_json(&s->e2e));
    json_put(&v, "longest_pause_ms", json_real(s->longest_ms));
    json_put(&v, "late_ms", json_real(s->late_ms));
    json_put(&v, "goodput", goodput_json(r, s));
    json_put(&v, "client_share", json_real(s->client_share));
    json_put(&v, "turns", turns_json(s));
    return v;
}

static int print_json(const struct serve_run *r)
{
    const struct bench_args *a = r->a;
    json_t *levels = json_array(), *v = json_object();
    for (int32_t i = 0; i < r->n_done; i++)
        json_add(&levels, level_json(r, &r->levels[i]));
    json_put(&v, "url", json_string(r->base.data));
    json_put(&v, "model", json_string(r->model));
    json_put(&v, "owned_by", r->owner.len ? json_string(r->owner.data) : json_null());
    json_put(&v, "loop", json_string(a->load.rate ? "open" : "closed"));
    json_put(&v, "prompts",
             json_pack("{s:o, s:s?, s:i, s:i, s:f, s:b}", "file",
                       a->load.prompts ? json_bytes(a->load.prompts, strlen(a->load.prompts)) : json_null(),
                       "workload", a->workload, "tokens", (int)a->n_prompt, "shared_tokens",
                       (int)a->load.shared_tokens, "bytes_per_token", r->talks.bytes_per_token,
                       "counted_by_server", (int)r->counted));
    json_put(&v, "max_tokens", json_integer(a->n_gen));
    json_put(&v, "turns", json_integer(a->load.turns));
    json_put(&v, "seed", json_integer((json_int_t)a->load.seed));
    json_put(&v, "fields", r->fields ? json_incref(r->fields) : json_null());
    json_put(&v, "levels", levels);
    return cli_json(v);
}

/* ---- the table ----------------------------------------------------------------------------------------- */

static void print_errors(const struct serve_level *l)
{
    const struct load_summary *s = &l->summary;
    if (s->failed == 0)
        return;
    printf("  failed:");
    for (int32_t i = 0; i < s->n_statuses; i++)
        printf(" %lld x status %d", (long long)s->statuses[i].n, (int)s->statuses[i].status);
    for (int e = LOAD_CONNECT; e < LOAD_STOPPED; e++)
        if (s->ends[e] > 0)
            printf(" %lld x %s", (long long)s->ends[e], load_end_name((enum load_end)e));
    if (l->level.not_sent > 0)
        printf(" %d x not sent", (int)l->level.not_sent);
    printf("; first: %s\n", *l->level.first_error ? l->level.first_error : "no room");
}

static void print_turns(const struct load_summary *s)
{
    for (int32_t i = 0; i < s->n_turns && s->n_turns > 1; i++) {
        const struct load_turn *t = &s->turns[i];
        printf("  turn %-3d %6lld answers, first token %9.1f %9.1f %9.1f ms", (int)i + 1, (long long)t->n,
               t->ttft.p50, t->ttft.p95, t->ttft.p99);
        if (t->prompt_tokens >= 0)
            printf(", prompt of %.0f tokens", t->prompt_tokens);
        if (t->cached_tokens >= 0)
            printf(", %.0f cached", t->cached_tokens);
        printf("\n");
    }
}

static void print_level(const struct serve_run *r, const struct serve_level *l)
{
    const struct load_summary *s = &l->summary;
    const struct load_args *a = &r->a->load;
    printf("%8g %8lld %6lld %9.1f %8.2f  %8.0f %8.0f %8.0f  %7.1f %7.1f %7.1f %8.0f", l->level.value,
           (long long)s->requests, (long long)s->failed, s->tokens_per_s, s->requests_per_s, s->ttft.p50,
           s->ttft.p95, s->ttft.p99, s->itl.p50, s->itl.p95, s->itl.p99, s->longest_ms);
    if (s->cached_tokens >= 0 && s->prompt_tokens > 0)
        printf("  %5.1f%%", 1e2 * (double)s->cached_tokens / (double)s->prompt_tokens);
    else
        printf("  %6s", "-");
    if (a->ttft_bound_ms || a->itl_bound_ms)
        printf("  %4.0f%% %8.2f %9.1f", s->requests ? 1e2 * (double)s->good / (double)s->requests : 0.0,
               s->good_requests_per_s, s->good_tokens_per_s);
    printf("\n");
    print_errors(l);
    print_turns(s);
}

static void print_notes(const struct serve_run *r)
{
    const struct load_args *a = &r->a->load;
    int64_t usage = 0, deltas = 0;
    double per = 0, share = 0;
    for (int32_t i = 0; i < r->n_done; i++) {
        const struct load_summary *s = &r->levels[i].summary;
        usage += s->by_usage;
        deltas += s->by_deltas;
        per = s->tokens_per_delta > per ? s->tokens_per_delta : per;
        share = s->client_share > share ? s->client_share : share;
    }
    printf("tokens counted by %s", usage && deltas ? "usage, and by events where it is missing"
                                   : usage         ? "usage"
                                                   : "events: the server sends no usage");
    if (per > 1.005)
        printf("; up to %.2f tokens in an event, so pauses are those between events", per);
    printf("; measuring took up to %.1f%% of a core\n", 1e2 * share);
    if (a->ttft_bound_ms || a->itl_bound_ms)
        printf("good: first token within %g ms and 95%% of an answer's pauses within %g ms (0: any)\n",
               (double)a->ttft_bound_ms, (double)a->itl_bound_ms);
}

static int print_table(const struct serve_run *r)
{
    const struct load_args *a = &r->a->load;
    const bool good = a->ttft_bound_ms || a->itl_bound_ms;
    printf("%s, model %s%s%s%s: ", r->base.data, r->model, r->owner.len ? " (" : "",
           r->owner.len ? r->owner.data : "", r->owner.len ? ")" : "");
    if (r->talks.items)
        printf("prompts of %s", a->prompts ? a->prompts : r->a->workload);
    else
        printf("prompts of about %d tokens", (int)r->a->n_prompt + (int)a->shared_tokens);
    printf(", at most %d tokens each\n", (int)r->a->n_gen);
    printf("%42s  %26s  %34s%s\n", "", "first token, ms", "between tokens, ms", good ? "          good" : "");
    printf("%8s %8s %6s %9s %8s  %8s %8s %8s  %7s %7s %7s %8s  %6s%s\n", a->rate ? "users/s" : "streams",
           "requests", "failed", "tokens/s", "answ./s", "p50", "p95", "p99", "p50", "p95", "p99", "longest",
           "cached", good ? "        answ./s  tokens/s" : "");
    for (int32_t i = 0; i < r->n_done; i++)
        print_level(r, &r->levels[i]);
    print_notes(r);
    return cli_finish(0);
}

/* ---- files --------------------------------------------------------------------------------------------- */

static hasten_status write_file(const char *path, const struct buf *text, struct hasten_error *err)
{
    struct file *f;
    hasten_status st = file_open(path, FILE_WRITE_TRUNC, &f, err);
    if (st)
        return st;
    st = file_write(f, text->data, text->len, err);
    file_close(f);
    return st;
}

static double ms(uint64_t from, uint64_t to)
{
    return to > from ? (double)(to - from) / 1e6 : 0;
}

static int put_request(struct buf *b, const struct load_level *l, const struct load_request *r)
{
    double longest = 0;
    for (int32_t i = 1; i < r->deltas; i++) {
        const double pause = ms(r->at_ns[i - 1], r->at_ns[i]);
        longest = pause > longest ? pause : longest;
    }
    return buf_printf(b, "%g,%d,%d,%d,%.3f,%s,%d,", l->value, (int)r->user + 1, (int)r->chat,
                      (int)r->turn + 1, ms(l->from_ns, r->due_ns), load_end_name(r->end), (int)r->status) ||
           (r->prompt_tokens >= 0 ? buf_printf(b, "%d,", (int)r->prompt_tokens) : buf_puts(b, ",")) ||
           (r->cached_tokens >= 0 ? buf_printf(b, "%d,", (int)r->cached_tokens) : buf_puts(b, ",")) ||
           buf_printf(b, "%d,%d,", (int)(r->tokens >= 0 ? r->tokens : r->deltas), (int)r->deltas) ||
           (r->deltas > 0 ? buf_printf(b, "%.3f,", ms(r->due_ns, r->at_ns[0])) : buf_puts(b, ",")) ||
           (r->deltas > 1 ? buf_printf(b, "%.3f,%.3f,",
                                       ms(r->at_ns[0], r->at_ns[r->deltas - 1]) / (r->deltas - 1), longest)
                          : buf_puts(b, ",,")) ||
           buf_printf(b, "%.3f\n", ms(r->due_ns, r->end_ns));
}

static hasten_status write_csv(const struct serve_run *r, struct hasten_error *err)
{
    struct buf b = {0};
    int bad =
        buf_printf(&b,
                   "%s,user,chat,turn,due_ms,end,status,prompt_tokens,cached_tokens,tokens,deltas,ttft_ms,"
                   "mean_pause_ms,longest_pause_ms,e2e_ms\n",
                   r->a->load.rate ? "rate" : "streams");
    for (int32_t i = 0; i < r->n_done; i++) {
        const struct load_level *l = &r->levels[i].level;
        for (int32_t j = 0; j < l->n && !bad; j++)
            bad = l->requests[j]->end == LOAD_STOPPED ? 0 : put_request(&b, l, l->requests[j]);
    }
    const hasten_status st =
        bad ? error_set(err, HASTEN_ERR_MEMORY, "bench: out of memory") : write_file(r->a->load.csv, &b, err);
    buf_free(&b);
    return st;
}

static void set_quantiles(struct plot_panel *p, int i, const struct load_quantiles *q)
{
    p->names[0] = "p50";
    p->names[1] = "p95";
    p->names[2] = "p99";
    p->n_lines = 3;
    p->y[0][i] = q->p50;
    p->y[1][i] = q->p95;
    p->y[2][i] = q->p99;
}

static hasten_status write_plot(const struct serve_run *r, struct hasten_error *err)
{
    struct buf b = {0}, title = {0};
    struct plot p = {.x_title = r->a->load.rate ? "users a second" : "streams at once",
                     .n_points = r->n_done,
                     .n_panels = 3,
                     .panels = {{.title = "tokens a second", .n_lines = 1},
                                {.title = "first token, ms"},
                                {.title = "between tokens, ms"}}};
    int bad = buf_printf(&title, "%s, %s", r->base.data, r->model);
    p.title = title.data;
    for (int32_t i = 0; i < r->n_done; i++) {
        const struct load_summary *s = &r->levels[i].summary;
        snprintf(p.x[i], sizeof p.x[i], "%g", r->levels[i].level.value);
        p.panels[0].y[0][i] = s->tokens_per_s;
        set_quantiles(&p.panels[1], i, &s->ttft);
        set_quantiles(&p.panels[2], i, &s->itl);
    }
    bad = bad || plot_svg(&p, &b);
    const hasten_status st = bad ? error_set(err, HASTEN_ERR_MEMORY, "bench: out of memory")
                                 : write_file(r->a->load.plot, &b, err);
    buf_free(&b);
    buf_free(&title);
    return st;
}

int serve_print(const struct serve_run *r)
{
    struct hasten_error err;
    hasten_status st = HASTEN_OK;
    const int rc = r->a->ui.json ? print_json(r) : print_table(r);
    if (r->a->load.csv)
        st = write_csv(r, &err);
    if (!st && r->a->load.plot)
        st = write_plot(r, &err);
    return st ? ui_fail(&r->a->ui, &err) : rc;
}

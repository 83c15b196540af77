/* `hasten eval --damage`: two engines on the same windows of a text, the plain one and the variant that the options
 * describe, and how far apart they are (src/eval/damage.h). */
#include "eval/damage.h"
#include "base/clock.h"
#include "cli/eval.h"
#include <inttypes.h>
#include <math.h>

struct damage_run {
    struct eval_args *args;
    struct session variant;       /* its engine runs the variant */
    struct session against;       /* --against: the plain engine's own model */
    struct hasten_engine *plain;  /* of the variant's model, or of against */
    struct hasten_engine *opened; /* plain, when it has no session */
    struct tokens ids;
    struct eval_damage_settings settings;
    struct eval_damage damage;
    uint64_t t0;
};

/* ---- the variant: the only place that knows what one is ------------------------------------------------- */

bool eval_is_damage(const struct eval_args *a)
{
    bool methods = false;
    for (int stage = 0; stage < METHOD_STAGES; stage++)
        methods |= a->model.methods.spec[stage].n > 0;
    return a->damage || a->against || (methods && !a->logits);
}

/* The plain engine is the variant without what a variant is made of: methods, representations of the cache, adapters. */
static void plain_settings(const struct hasten_engine_settings *variant, struct hasten_engine_settings *plain)
{
    *plain = *variant;
    plain->kv_type = variant->reference ? HASTEN_KV_F32 : HASTEN_KV_F16;
    plain->loras = NULL;
    plain->n_loras = 0;
    plain->methods = NULL;
    plain->n_methods = 0;
}

static const char *kv_name(enum hasten_kv_type type)
{
    static const char *const names[] = {"f16", "f32", "bf16", "q8", "q4"};
    return names[type];
}

json_t *eval_variant_json(const struct eval_args *a, const struct hasten_engine_settings *s)
{
    struct hasten_engine_settings plain;
    json_t *list = methods_json(s);
    plain_settings(s, &plain);
    if (s->kv_type != plain.kv_type)
        json_add(&list, json_sprintf("cache-type=%s", kv_name(s->kv_type)));
    for (int i = 0; i < a->model.lora.n; i++)
        json_add(&list, json_sprintf("lora=%s", a->model.lora.items[i]));
    return list;
}

/* ---- engines ------------------------------------------------------------------------------------------- */

/* --memory bounds both engines together; the mapped file counts once. */
static hasten_status check_memory(const struct damage_run *r, const struct hasten_engine_settings *plain,
                                  struct hasten_error *err)
{
    struct hasten_plan a, b;
    const uint64_t limit = r->variant.settings.memory_limit;
    if (limit == 0 || hasten_engine_plan(r->variant.model, &r->variant.settings, &a, err) ||
        hasten_engine_plan(r->variant.model, plain, &b, err))
        return limit == 0 ? HASTEN_OK : err->status;
    const uint64_t total = a.total_bytes + b.total_bytes - (r->args->against ? 0 : b.file_bytes);
    if (total > limit)
        return error_set(
            err, HASTEN_ERR_MEMORY,
            "eval: the plain engine and the variant need %llu MiB together, --memory is %llu MiB",
            (unsigned long long)(total >> 20), (unsigned long long)(limit >> 20));
    return HASTEN_OK;
}

static hasten_status open_engines(struct damage_run *r, const struct hasten_engine_settings *settings,
                                  const char *model, struct hasten_error *err)
{
    struct hasten_engine_settings own = *settings, plain;
    own.n_logits = EVAL_MAX_ROWS;
    hasten_status st = session_open(model, &r->args->model, &own, &r->args->ui, &r->variant, err);
    if (st)
        return st;
    hasten_seq_close(r->variant.seq); /* the measurement opens its own */
    r->variant.seq = NULL;
    plain_settings(&r->variant.settings, &plain);
    if (!r->args->against) {
        st = check_memory(r, &plain, err);
        if (!st)
            st = hasten_engine_open(r->variant.model, &plain, &r->opened, err);
        r->plain = r->opened;
        return st;
    }
    struct model_args other = r->args->model;
    other.lora = (struct option_list){0};
    st = session_open(r->args->against, &other, &plain, &r->args->ui, &r->against, err);
    if (st)
        return st;
    hasten_seq_close(r->against.seq);
    r->against.seq = NULL;
    r->plain = r->against.engine;
    return HASTEN_OK;
}

/* ---- printing ------------------------------------------------------------------------------------------ */

static json_t *damage_json(const struct eval_damage *d)
{
    const struct eval_token *t = &d->tokens[d->dlogp_at];
    struct eval_interval share = {1 - d->agreement.value, 1 - d->agreement.hi, 1 - d->agreement.lo};
    json_t *v = json_object();
    json_put(&v, "kl", eval_interval_json(&d->kl));
    json_put(&v, "kl_p99", eval_interval_json(&d->kl_p99));
    json_put(&v, "kl_max", json_real(d->kl_max));
    json_put(&v, "top1_agreement", eval_interval_json(&d->agreement));
    json_put(&v, "flips",
             json_pack("{s:I, s:I, s:I, s:o}", "n", (json_int_t)d->flips, "lost", (json_int_t)d->lost,
                       "gained", (json_int_t)d->gained, "share", eval_interval_json(&share)));
    json_put(&v, "max_dlogp",
             json_pack("{s:f, s:I, s:i, s:f, s:f}", "value", d->dlogp, "scored_token",
                       (json_int_t)d->dlogp_at, "id", (int)t->dlogp_id, "among_p", EVAL_LIKELY,
                       "exceeded_at_most", d->exceeded_at_most));
    json_put(&v, "nll_difference", eval_interval_json(&d->nll_difference));
    json_put(&v, "ppl_plain", eval_interval_json(&d->ppl_plain));
    json_put(&v, "ppl_variant", eval_interval_json(&d->ppl_variant));
    json_put(&v, "ppl_difference", eval_interval_json(&d->ppl_difference));
    json_put(&v, "bootstrap",
             json_pack("{s:f, s:i, s:i, s:i, s:I}", "level", EVAL_LEVEL, "resamples", (int)d->resamples,
                       "blocks", (int)d->n_blocks, "block", (int)d->block, "seed", (json_int_t)d->seed));
    return v;
}

static json_t *blocks_json(const struct eval_damage *d)
{
    json_t *n = json_array(), *kl = json_array(), *plain = json_array(), *variant = json_array(),
           *agree = json_array();
    for (int32_t i = 0; i < d->n_blocks; i++) {
        const struct eval_block *b = &d->blocks[i];
        json_add(&n, json_integer(b->n));
        json_add(&kl, json_real(b->kl));
        json_add(&plain, json_real(b->nll_plain));
        json_add(&variant, json_real(b->nll_variant));
        json_add(&agree, json_integer(b->agree));
    }
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "n", n, "kl", kl, "nll_plain", plain, "nll", variant,
                     "agree", agree);
}

static int print_json(const struct damage_run *r, double ms)
{
    const struct eval_damage *d = &r->damage;
    const struct eval_windows *w = &r->settings.windows;
    json_t *v =
        json_pack("{s:s, s:o, s:f, s:f, s:I, s:I}", "model", r->variant.path.data, "variant",
                  eval_variant_json(r->args, &r->variant.settings), "ppl", d->ppl_variant.value, "nll",
                  log(d->ppl_variant.value), "n_scored", (json_int_t)d->n, "n_tokens", (json_int_t)r->ids.n);
    json_put(&v, "against", json_string(r->args->against ? r->against.path.data : "the plain engine"));
    json_put(&v, "convention",
             json_pack("{s:i, s:i, s:i, s:i, s:s}", "context", (int)w->n_ctx, "stride", (int)w->stride,
                       "prefix", (int)w->prefix, "rows", (int)r->settings.rows, "scored",
                       "every token after a window's first (its prefix) that no earlier window scored"));
    json_put(&v, "damage", damage_json(d));
    json_put(&v, "kernels", json_string(hasten_engine_kernels(r->variant.engine)));
    json_put(&v, "threads", json_integer(hasten_engine_n_threads(r->variant.engine)));
    json_put(&v, "ms", json_real(ms));
    json_put(&v, "text", eval_text_json(w));
    json_put(&v, "blocks", blocks_json(d));
    return cli_json(v);
}

static void print_interval(const char *what, const struct eval_interval *v, bool fixed)
{
    char text[3][32];
    const double x[3] = {v->value, v->lo, v->hi};
    for (int i = 0; i < 3; i++)
        snprintf(text[i], sizeof text[i], fixed ? "%.4f" : "%.4g", x[i]);
    printf("%-22s %10s", what, text[0]);
    if (isfinite(v->lo))
        printf("   [%s, %s]", text[1], text[2]);
    printf("\n");
}

static int print_table(const struct damage_run *r, double ms)
{
    const struct eval_damage *d = &r->damage;
    const struct eval_windows *w = &r->settings.windows;
    json_t *variant = eval_variant_json(r->args, &r->variant.settings);
    printf("variant     ");
    for (size_t i = 0; i < json_array_size(variant); i++)
        printf(" %s", json_string_value(json_array_get(variant, i)));
    printf("%s\nagainst      %s\n", json_array_size(variant) ? "" : " nothing: the plain engine",
           r->args->against ? r->against.path.data : "the plain engine (f16 cache, no methods, no adapters)");
    json_decref(variant);
    printf("\n%-22s %10s   95 %% interval\n", "", "");
    print_interval("KL, mean", &d->kl, false);
    print_interval("KL, 99th percentile", &d->kl_p99, false);
    print_interval("top-1 agreement", &d->agreement, true);
    print_interval("ppl, plain", &d->ppl_plain, true);
    print_interval("ppl, variant", &d->ppl_variant, true);
    print_interval("ppl, difference", &d->ppl_difference, false);
    printf("%-22s %10" PRId64 "   of %" PRId64 " (%" PRId64 " right ones lost, %" PRId64 " gained)\n",
           "flips", d->flips, d->n, d->lost, d->gained);
    printf("%-22s %10.4g   where p >= %g; at most %.1f %% of blocks exceed it\n", "largest |dlog p|",
           d->dlogp, EVAL_LIKELY, 1e2 * d->exceeded_at_most);
    printf("%-22s %10.4g\n\n", "largest KL", d->kl_max);
    printf("scored       %" PRId64 " of %" PRId64
           " tokens, windows of %d every %d, the first %d not scored\n",
           d->n, r->ids.n, (int)w->n_ctx, (int)w->stride, (int)(w->prefix > 1 ? w->prefix : 1));
    printf("intervals    %d resamples of %d blocks of up to %d tokens, seed %" PRIu64 "\n", (int)d->resamples,
           (int)d->n_blocks, (int)d->block, d->seed);
    printf("engine       %s, %d threads, %.0f ms\n", hasten_engine_kernels(r->variant.engine),
           (int)hasten_engine_n_threads(r->variant.engine), ms);
    return cli_finish(0);
}

/* ---- the run ------------------------------------------------------------------------------------------- */

static void show_progress(void *ctx, int64_t done, int64_t total)
{
    struct damage_run *r = ctx;
    ui_progress(&r->args->ui, "eval", (uint64_t)done, (uint64_t)total, "tokens", r->t0);
}

static hasten_status measure(struct damage_run *r, struct hasten_error *err)
{
    r->t0 = clock_now_ns();
    hasten_status st = eval_damage(r->plain, r->variant.engine, &r->settings, show_progress, r,
                                   interrupt_arm(), &r->damage, err);
    ui_progress_end(&r->args->ui);
    interrupt_disarm();
    return st == HASTEN_ERR_CANCELLED ? error_set(err, st, "eval: interrupted") : st;
}

int eval_damage_mode(struct eval_args *a, const struct option_group *own,
                     struct hasten_engine_settings *settings, const char *model)
{
    struct hasten_error err;
    struct damage_run r = {
        .args = a,
        .settings = {.rows = a->rows, .block = a->block, .resamples = a->resamples, .seed = a->seed}};
    hasten_status st = HASTEN_OK;
    if (a->logits)
        st = error_set(&err, HASTEN_ERR_USAGE, "eval: --logits with --damage (expected one of them)");
    if (!st)
        st = eval_windows_of(a, own, settings, &r.settings.windows, &err);
    r.settings.windows.prefix = a->prefix;
    if (!st && a->prefix >= settings->n_ctx)
        st = error_set(&err, HASTEN_ERR_USAGE, "eval: --prefix %d of windows of %d (expected less)",
                       (int)a->prefix, (int)settings->n_ctx);
    if (!st)
        st = open_engines(&r, settings, model, &err);
    if (!st)
        st = eval_read_tokens(a, &r.variant, &r.ids, &err);
    r.settings.windows.ids = r.ids.ids;
    r.settings.windows.n = r.ids.n;
    if (!st)
        st = measure(&r, &err);
    const double ms = (double)(clock_now_ns() - r.t0) / 1e6;
    if (!st && settings->n_methods > 0 && r.damage.kl_max == 0)
        ui_warn(
            &a->ui,
            "eval: the methods changed nothing in what was scored: too little text for their knobs, or they act at "
            "the end of a prompt (--prefix N makes one of the first N tokens)");
    const int rc = st ? ui_fail(&a->ui, &err) : a->ui.json ? print_json(&r, ms) : print_table(&r, ms);
    eval_damage_free(&r.damage);
    tokens_free(&r.ids);
    hasten_engine_close(r.opened);
    session_close(&r.against);
    session_close(&r.variant);
    return rc;
}

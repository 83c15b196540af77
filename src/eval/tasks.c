/* The list of tasks (task.h): a new one is a file and a line here. */
#include "eval/task.h"
#include <stddef.h>
#include <string.h>

static const struct {
    const struct eval_task *task;
    const char *family;
} tasks[] = {
    {&eval_gsm8k, NULL},
    {&eval_humaneval, NULL},
    {&eval_needle, NULL},
    {&eval_recall, NULL},
    {&eval_ruler_niah[0], "ruler"},
    {&eval_ruler_niah[1], "ruler"},
    {&eval_ruler_niah[2], "ruler"},
    {&eval_ruler_niah[3], "ruler"},
    {&eval_ruler_niah[4], "ruler"},
    {&eval_ruler_niah[5], "ruler"},
    {&eval_ruler_niah[6], "ruler"},
    {&eval_ruler_niah[7], "ruler"},
    {&eval_ruler_vt, "ruler"},
    {&eval_ruler_cwe, "ruler"},
    {&eval_ruler_fwe, "ruler"},
    {&eval_ruler_qa[0], "ruler"},
    {&eval_ruler_qa[1], "ruler"},
};

const struct eval_task *eval_task_at(int i)
{
    return i >= 0 && i < (int)(sizeof tasks / sizeof *tasks) ? tasks[i].task : NULL;
}

bool eval_task_in(const struct eval_task *task, const char *name)
{
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++)
        if (tasks[i].task == task && tasks[i].family && strcmp(tasks[i].family, name) == 0)
            return true;
    return strcmp(task->name, name) == 0;
}

/* The table of statuses: phrase and exit code of each. Nothing else knows these numbers. */
#include "hasten/status.h"

static const struct {
    const char *text;
    int exit_code;
} status_table[HASTEN_STATUS_COUNT] = {
    [HASTEN_OK] = {"done", 0},
    [HASTEN_ERR_USAGE] = {"wrong usage", 2},
    [HASTEN_ERR_FILE] = {"bad or damaged file", 3},
    [HASTEN_ERR_UNSUPPORTED] = {"unsupported file", 3},
    [HASTEN_ERR_MEMORY] = {"not enough memory", 4},
    [HASTEN_ERR_DISK] = {"no disk space, or a write failed", 4},
    [HASTEN_ERR_NETWORK] = {"network error", 5},
    [HASTEN_ERR_LIMIT] = {"input exceeds a limit", 3},
    [HASTEN_ERR_FULL] = {"context full", 1},
    [HASTEN_ERR_NON_FINITE] = {"non-finite number", 1},
    [HASTEN_ERR_CANCELLED] = {"cancelled", 130},
    [HASTEN_ERR_TEMPLATE] = {"chat template failed", 3},
    [HASTEN_ERR_INTERNAL] = {"internal error", 1},
    [HASTEN_ERR_TIMEOUT] = {"deadline passed", 1},
};

const char *hasten_status_text(hasten_status status)
{
    if ((unsigned)status >= HASTEN_STATUS_COUNT)
        return "unknown status";
    return status_table[status].text;
}

int hasten_exit_code(hasten_status status)
{
    if ((unsigned)status >= HASTEN_STATUS_COUNT)
        return 1;
    return status_table[status].exit_code;
}

// What the double writes where NCCL_DEBUG_FILE says, in NCCL's own form; and which faults the variables lift.
#define FAULTS_VARIABLE "KPRO_DOUBLE_NCCL"
#define _GNU_SOURCE
#include "../faults.h"

static int on(const char *name)
{
    const char *value = getenv(name);
    return value && strcmp(value, "1") == 0;
}

void write_log(const char *level, int rank, const char *text)
{
    const char *path = getenv("NCCL_DEBUG_FILE");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (!file) return;
    fprintf(file, "node1:%d:%d [%d] %s %s\n", getpid(), getpid(), rank, level, text);
    fclose(file);
}

// A fault `when` of this rank, unless it is one of a path that the variables switched off.
int hangs(const char *when, int rank, int done)
{
    int f = fault_find(when, NULL, rank);
    if (f < 0 || done < fault_number(f, "after", 0)) return 0;
    if (fault_has(f, "p2p") && on("NCCL_P2P_DISABLE")) return 0;
    if (fault_has(f, "shm") && on("NCCL_SHM_DISABLE")) return 0;
    return 1;
}

void log_channels(int rank, int nranks)
{
    char line[256];
    const char *via = on("NCCL_SHM_DISABLE") ? "[send] via NET/Socket/0"
                    : on("NCCL_P2P_DISABLE") ? "via SHM/direct/direct" : "via P2P/CUMEM";
    const char *chosen = setting("via", "");
    if (strcmp(chosen, "shm") == 0) via = "via SHM/direct/direct";
    if (strcmp(chosen, "net") == 0) via = "[send] via NET/Socket/0";
    if (strstr(via, "NET/Socket")) write_log("NCCL INFO", rank, "NET/Socket : Using [0]lo:127.0.0.1<0>");
    write_log("NCCL INFO", rank, "NVLS multicast support is not available on dev 0");
    for (int channel = 0; nranks > 1 && channel < 2; channel++) {
        snprintf(line, sizeof line, "Channel %02d/%01d : %d[%d] -> %d[%d] %s", channel, 0, rank, rank,
                 (rank + 1) % nranks, (rank + 1) % nranks, via);
        write_log("NCCL INFO", rank, line);
    }
    write_log("NCCL INFO", rank, "ncclCommInitRankConfig comm 0x1 - Init COMPLETE");
}

void log_warnings(int rank)
{
    if (fault_find("warn-shm", NULL, rank) >= 0)
        write_log("misc/shmutils.cc:87 NCCL WARN", rank,
                  "Error: failed to extend /dev/shm/nccl-AbCdEf to 9637892 bytes, error: No space left on device (28)");
    if (fault_find("warn-nvls", NULL, rank) >= 0)
        write_log("transport/nvls.cc:244 NCCL WARN", rank, "Cuda failure 1 'invalid argument'");
}

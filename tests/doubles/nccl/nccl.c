// A libnccl whose ranks really meet: through a file named in the id, mapped by all, in which they exchange pieces.
//     KPRO_DOUBLE_NCCL="version=23007,wrong-sum:gpu1,hang:gpu0:after=2,slow:gpu1:s=0.05"
// gpuN is rank N here. `after` counts all-reduces of one rank before the fault.
#define FAULTS_VARIABLE "KPRO_DOUBLE_NCCL"
#define _GNU_SOURCE
#include "../faults.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <time.h>

#define PIECE 65536 // floats
#define MAX_RANKS 16

typedef struct { char internal[128]; } ncclUniqueId;
typedef struct { size_t size; unsigned magic, version; int blocking; } Config;
typedef struct {
    atomic_int joined, arrived, round;
    float slot[MAX_RANKS][PIECE];
} Shared;
typedef struct {
    int rank, nranks, reduced;
    Shared *shared;
    atomic_int state, ordered; // ncclResult_t; whether the stream still has to spend the time of a reduction
    char path[128];
    const float *source;
    float *target;
    size_t count;
    int op;
    void *stream;
} Comm;

enum { SUCCESS = 0, SYSTEM_ERROR = 2, INVALID = 4, IN_PROGRESS = 7, MAX_OP = 2 };

static void nap(double seconds)
{
    struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&t, NULL);
}

void write_log(const char *level, int rank, const char *text);
void log_channels(int rank, int nranks);
void log_warnings(int rank);
int hangs(const char *when, int rank, int done);

API int ncclGetVersion(int *version)
{
    *version = atoi(setting("version", "23007"));
    return SUCCESS;
}

API const char *ncclGetErrorString(int code)
{
    switch (code) {
    case SUCCESS: return "no error";
    case SYSTEM_ERROR: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case INVALID: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    default: return "unknown result code";
    }
}

API int ncclGetUniqueId(ncclUniqueId *id)
{
    memset(id, 0, sizeof *id);
    const char *folder = getenv("TMPDIR");
    snprintf(id->internal, sizeof id->internal, "%s/kpro-double-XXXXXX", folder ? folder : "/tmp");
    int file = mkstemp(id->internal);
    if (file < 0 || ftruncate(file, sizeof(Shared))) return SYSTEM_ERROR;
    close(file);
    return SUCCESS;
}

static void meet(Comm *comm)
{
    int round = atomic_load(&comm->shared->round);
    if (atomic_fetch_add(&comm->shared->arrived, 1) + 1 == comm->nranks) {
        atomic_store(&comm->shared->arrived, 0);
        atomic_fetch_add(&comm->shared->round, 1);
        return;
    }
    while (atomic_load(&comm->shared->round) == round) nap(20e-6);
}

// The file that NCCL would have removed by now.
static void leak(int rank)
{
    if (fault_find("leak", NULL, rank) < 0) return;
    char name[80];
    const char *tag = getenv("KPRO_DOUBLE_TAG"); // by which a test knows its own
    snprintf(name, sizeof name, "/dev/shm/nccl-%.40s-XXXXXX", tag ? tag : "");
    int file = mkstemp(name);
    if (file < 0 || ftruncate(file, 4096)) return;
    mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
}

static void *join(void *argument)
{
    Comm *comm = argument;
    leak(comm->rank);
    log_warnings(comm->rank);
    if (fault_find("init-error", NULL, comm->rank) >= 0) {
        atomic_store(&comm->state, SYSTEM_ERROR);
        return NULL;
    }
    if (hangs("hang-init", comm->rank, 0)) sleep_for_ever();
    atomic_fetch_add(&comm->shared->joined, 1);
    while (atomic_load(&comm->shared->joined) < comm->nranks) nap(200e-6);
    meet(comm);
    if (comm->rank == 0) unlink(comm->path);
    log_channels(comm->rank, comm->nranks);
    atomic_store(&comm->state, SUCCESS);
    return NULL;
}

static void start(void *(*work)(void *), Comm *comm)
{
    pthread_t thread;
    atomic_store(&comm->state, IN_PROGRESS);
    if (pthread_create(&thread, NULL, work, comm) == 0) pthread_detach(thread);
}

API int ncclCommInitRankConfig(Comm **made, int nranks, ncclUniqueId id, int rank, Config *config)
{
    if (config->magic != 0xcafebeef || nranks > MAX_RANKS || config->blocking != 0) return INVALID;
    if (fault_find("ignore-term", NULL, rank) >= 0) signal(SIGTERM, SIG_IGN);
    if (fault_find("stuck-init", NULL, rank) >= 0) sleep_for_ever();
    Comm *comm = calloc(1, sizeof *comm);
    int file = open(id.internal, O_RDWR);
    if (file < 0) return SYSTEM_ERROR;
    comm->shared = mmap(NULL, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (comm->shared == MAP_FAILED) return SYSTEM_ERROR;
    comm->rank = rank;
    comm->nranks = nranks;
    snprintf(comm->path, sizeof comm->path, "%s", id.internal);
    *made = comm;
    start(join, comm);
    return IN_PROGRESS;
}

static void *reduce(void *argument)
{
    Comm *comm = argument;
    if (hangs("hang", comm->rank, comm->reduced)) sleep_for_ever();
    for (size_t done = 0; done < comm->count; done += PIECE) {
        size_t n = comm->count - done < PIECE ? comm->count - done : PIECE;
        memcpy(comm->shared->slot[comm->rank], comm->source + done, n * sizeof(float));
        meet(comm);
        for (size_t i = 0; i < n; i++) {
            float whole = comm->shared->slot[0][i];
            for (int r = 1; r < comm->nranks; r++) {
                float other = comm->shared->slot[r][i];
                whole = comm->op == MAX_OP ? (other > whole ? other : whole) : whole + other;
            }
            comm->target[done + i] = whole;
        }
        meet(comm);
    }
    if (hangs("wrong-sum", comm->rank, comm->reduced) && comm->op != MAX_OP && comm->count > 4)
        comm->target[comm->count / 3] += 1.0f;
    comm->reduced++;
    atomic_store(&comm->ordered, 1);
    atomic_store(&comm->state, SUCCESS);
    return NULL;
}

API int ncclAllReduce(const void *source, void *target, size_t count, int type, int op, Comm *comm, void *stream)
{
    if (type != 7) return INVALID;
    int slow = fault_find("slow", NULL, comm->rank), crash = fault_find("crash", NULL, comm->rank);
    if (slow >= 0) nap(fault_number(slow, "s", 0.05));
    if (crash >= 0 && comm->reduced >= fault_number(crash, "after", 1)) abort();
    int error = fault_find("error", NULL, comm->rank);
    if (error >= 0 && comm->reduced >= fault_number(error, "after", 1)) return SYSTEM_ERROR;
    int stuck = fault_find("stuck", NULL, comm->rank);
    if (stuck >= 0 && comm->reduced >= fault_number(stuck, "after", 1)) sleep_for_ever();
    comm->source = source;
    comm->target = target;
    comm->count = count;
    comm->op = op;
    comm->stream = stream;
    start(reduce, comm);
    return IN_PROGRESS;
}

// The time of a reduction is that of a copy on the GPU, so that KPRO_DOUBLE_CUDA="mem=..." sets the bandwidth.
API int ncclCommGetAsyncError(Comm *comm, int *state)
{
    *state = atomic_load(&comm->state);
    if (*state == SUCCESS && atomic_exchange(&comm->ordered, 0)) {
        int (*copy)(uint64_t, uint64_t, size_t, void *) = dlsym(RTLD_DEFAULT, "cuMemcpyDtoDAsync_v2");
        void *library = copy ? NULL : dlopen("libcuda.so.1", RTLD_NOW);
        if (library) copy = dlsym(library, "cuMemcpyDtoDAsync_v2");
        uint64_t at = (uint64_t)(uintptr_t)comm->target;
        if (copy) copy(at, at, comm->count * sizeof(float), comm->stream);
    }
    return SUCCESS;
}

API int ncclCommCuDevice(Comm *comm, int *device)
{
    (void)comm;
    *device = atoi(setting("device", "-1"));
    return SUCCESS;
}

API int ncclCommAbort(Comm *comm)
{
    (void)comm;
    return SUCCESS;
}

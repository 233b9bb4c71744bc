// The devices, and what happens at the entry of every call.
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "double.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Device devices[MAX_GPUS][3];

__attribute__((constructor)) static void load(void)
{
    faults_read();
    if (fault_find("stubborn", NULL, -1) >= 0) signal(SIGTERM, SIG_IGN);
    for (int gpu = 0; gpu < MAX_GPUS; gpu++)
        for (int part = 0; part < 3; part++) devices[gpu][part] = (Device){gpu, part, 0};
}

int gpus(void)
{
    int set = fault_number(-1, "gpus", 8);
    return set < 0 ? 0 : set > MAX_GPUS ? MAX_GPUS : set;
}

Handle device(int gpu, int part) { return &devices[gpu][part]; }

// What the driver keeps of a GPU and goes on to tell when the GPU is gone.
static int cached(const char *symbol)
{
    static const char *names[] = {"GetHandleByIndex_v2", "GetName", "GetUUID", "GetPciInfo_v3", "GetIndex",
        "GetMinorNumber", "GetArchitecture", "GetVbiosVersion", "GetBrand", "GetCudaComputeCapability",
        "GetNvLinkState", "GetCurrPcieLinkWidth", "GetMaxPcieLinkWidth", NULL};
    for (const char **name = names; *name; name++)
        if (strcmp(symbol + strlen("nvmlDevice"), *name) == 0) return 1;
    return 0;
}

int enter(const char *symbol, Handle handle)
{
    int gpu = handle ? handle->gpu : -1;
    double ms = fault_number(-1, "call_ms", 0);
    if (ms > 0) nanosleep(&(struct timespec){(time_t)(ms / 1000), (long)(ms * 1e6) % 1000000000L}, NULL);
    if (fault_find("noisy", NULL, gpu) >= 0 && write(1, "half a line of its own", 22) < 0) return 999;
    if (fault_find("locked", NULL, gpu) >= 0) {
        pthread_mutex_lock(&lock);
        if (fault_find("hang", symbol, gpu) >= 0) sleep_for_ever();
        pthread_mutex_unlock(&lock);
    }
    if (fault_find("hang", symbol, gpu) >= 0) sleep_for_ever();
    if (fault_find("crash", symbol, gpu) >= 0) raise(SIGSEGV);
    if (fault_find("exit", symbol, gpu) >= 0) _exit(3);
    int fault = fault_find("error", symbol, gpu);
    if (fault >= 0) return fault_number(fault, "code", 999);
    if (!handle) return 0;
    int calls = __atomic_add_fetch(&handle->calls, 1, __ATOMIC_RELAXED);
    fault = fault_find("lost", NULL, gpu);
    if (fault >= 0 && calls > fault_number(fault, "after", 0) && !(fault_has(fault, "half") && cached(symbol)))
        return LOST;
    return 0;
}

uint number(const char *symbol, Handle handle, uint usual)
{
    int fault = fault_find("set", symbol, handle ? handle->gpu : -1);
    return fault < 0 ? usual : (uint)fault_number(fault, "is", usual);
}

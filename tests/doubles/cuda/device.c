// Starting, devices, contexts, error texts, and the faults that any call may have.
#include "double.h"

#include <signal.h>
#include <time.h>

Ctx contexts[MAX_GPUS];
Ctx *current;
Stream default_streams[MAX_GPUS];

static int started, visible[MAX_GPUS], visible_count;
static int calls[MAX_GPUS], dead[MAX_GPUS];

double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int gpus(void)
{
    int n = atoi(setting("gpus", "2"));
    return n < 0 ? 0 : n > MAX_GPUS ? MAX_GPUS : n;
}

int sms(void) { return atoi(setting("sms", "4")); }

static int host(void) { return atoi(setting("host", "0")); }

static int slice(void) { return atoi(setting("slice", "0")); } // which MIG instance of its GPU each device is

static void uuid_text(int gpu, char *into)
{
    sprintf(into, "GPU-%08d-0000-4000-8000-%06d%06d", host(), slice(), gpu);
}

// CUDA_VISIBLE_DEVICES: numbers or beginnings of UUIDs; the first bad entry ends the list.
static void read_visible(void)
{
    const char *set = getenv("CUDA_VISIBLE_DEVICES");
    visible_count = 0;
    if (!set) {
        for (int g = 0; g < gpus(); g++) visible[visible_count++] = g;
        return;
    }
    char *text = strdup(set), *rest = NULL, uuid[64];
    for (char *w = strtok_r(text, ",", &rest); w && visible_count < MAX_GPUS; w = strtok_r(NULL, ",", &rest)) {
        int found = -1;
        for (int g = 0; g < gpus(); g++) {
            uuid_text(g, uuid);
            if (strncmp(w, "GPU-", 4) == 0 ? strncmp(uuid, w, strlen(w)) == 0 : atoi(w) == g) found = g;
        }
        if (found < 0) break;
        visible[visible_count++] = found;
    }
    free(text);
}

int physical(CUdevice device) { return device >= 0 && device < visible_count ? visible[device] : -1; }

void die(int gpu, CUresult code) { dead[gpu] = code; }

CUresult enter(const char *symbol, int gpu)
{
    if (fault_find("ignore-term", NULL, gpu) >= 0) signal(SIGTERM, SIG_IGN);
    if (fault_find("hang", symbol, gpu) >= 0) sleep_for_ever();
    if (fault_find("crash", symbol, gpu) >= 0) raise(SIGSEGV);
    int f = fault_find("error", symbol, gpu);
    if (f >= 0) return (CUresult)fault_number(f, "code", 999);
    if (gpu < 0) return 0;
    if (dead[gpu]) return dead[gpu];
    f = fault_find("lost", NULL, gpu);
    if (f >= 0 && ++calls[gpu] > fault_number(f, "after", 0)) return dead[gpu] = (int)fault_number(f, "code", 999);
    return 0;
}

API CUresult cuInit(unsigned flags)
{
    (void)flags;
    ENTER(-1);
    int code = atoi(setting("init", "0"));
    if (code) return code;
    read_visible();
    if (!visible_count) return 100;
    for (int g = 0; g < MAX_GPUS; g++) contexts[g].gpu = default_streams[g].gpu = g;
    started = 1;
    return 0;
}

API CUresult cuDriverGetVersion(int *version)
{
    ENTER(-1);
    *version = atoi(setting("version", "13000"));
    return 0;
}

static const struct { int code; const char *name, *text; } said[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
    {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain."},
    {304, "CUDA_ERROR_OPERATING_SYSTEM", "OS call failed or operation not supported on this OS"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static CUresult say(int code, const char **into, int name)
{
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        if (said[i].code == code) {
            *into = name ? said[i].name : said[i].text;
            return 0;
        }
    *into = NULL;
    return 1;
}

API CUresult cuGetErrorName(CUresult code, const char **name) { return say(code, name, 1); }
API CUresult cuGetErrorString(CUresult code, const char **text) { return say(code, text, 0); }

API CUresult cuDeviceGetCount(int *count)
{
    ENTER(-1);
    if (!started) return 3;
    *count = visible_count;
    return 0;
}

API CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    if (!started) return 3;
    if (physical(ordinal) < 0) return 101;
    ENTER(physical(ordinal));
    *device = ordinal;
    return 0;
}

#define ENTER_DEVICE(device) int gpu = physical(device); if (gpu < 0) return 101; ENTER(gpu)

API CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    ENTER_DEVICE(device);
    snprintf(name, (size_t)length, "%s%s", setting("name", "NVIDIA H200"), slice() ? " MIG 3g.71gb" : "");
    return 0;
}

API CUresult cuDeviceGetUuid_v2(unsigned char *uuid, CUdevice device)
{
    ENTER_DEVICE(device);
    memset(uuid, 0, 16);
    uuid[3] = (unsigned char)host(); // as libnvidia-ml's double numbers them
    uuid[6] = 0x40;
    uuid[8] = 0x80;
    uuid[12] = (unsigned char)slice();
    uuid[15] = (unsigned char)gpu;
    return 0;
}

API CUresult cuDeviceGetUuid(unsigned char *uuid, CUdevice device) { return cuDeviceGetUuid_v2(uuid, device); }

API CUresult cuDeviceGetPCIBusId(char *text, int length, CUdevice device)
{
    ENTER_DEVICE(device);
    snprintf(text, (size_t)length, "0000:%02X:00.0", 0x10 + gpu);
    return 0;
}

API CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
    ENTER_DEVICE(device);
    double capability = atof(setting("capability", "9.0"));
    switch (attribute) {
    case 13: *value = 1980000; break;
    case 16: *value = sms(); break;
    case 36: *value = 3201000; break;
    case 37: *value = 6144; break;
    case 38: *value = 1 << 20; break;
    case 75: *value = (int)capability; break;
    case 76: *value = (int)(capability * 10 + 0.5) % 10; break;
    case 32: case 41: *value = 1; break;
    case 40: *value = 3; break;
    default: *value = 0;
    }
    return 0;
}

API CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    ENTER_DEVICE(device);
    char pair[32];
    int other = physical(peer);
    if (other < 0) return 101;
    snprintf(pair, sizeof pair, "%d-%d", gpu, other);
    *can = gpu != other && fault_find("no-peer", pair, gpu) < 0;
    return 0;
}

API CUresult cuDevicePrimaryCtxRetain(Ctx **context, CUdevice device)
{
    ENTER_DEVICE(device);
    *context = &contexts[gpu];
    contexts[gpu].retained++;
    return 0;
}

API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    ENTER_DEVICE(device);
    contexts[gpu].retained--;
    return 0;
}

API CUresult cuCtxSetCurrent(Ctx *context)
{
    ENTER(context ? context->gpu : -1);
    current = context;
    return 0;
}

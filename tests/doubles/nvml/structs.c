// The getters that fill a struct, lists, links, pairs of GPUs, fields, and the system's.
#include "double.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

int nvmlDeviceGetUUID(Handle handle, char *out, uint size);

typedef struct { ull total, free, used; } Memory;
typedef struct { uint version; ull total, reserved, free, used; } Memory2;
typedef struct { char legacy[16]; uint domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
typedef struct { uint version; unsigned char cluster[16]; uint status, clique, state, mask; unsigned char summary; } Fabric;
typedef struct { unsigned char cluster[16]; uint status, clique, state; } OldFabric;
typedef struct { uint id, scope; long long timestamp, latency; uint type, answer; ull value; } Field;
typedef struct { uint pid; ull bytes; uint gpu_instance, compute_instance; } Process;

#define TOTAL 150754820096ULL
#define RESERVED 644939776ULL

API int nvmlInitWithFlags(uint flags)
{
    // The real library makes device nodes that are missing, and udev's links to them, when it may.
    const char *node = setting("node", NULL);
    char link[512];
    if (node) {
        mknod(node, S_IFCHR | 0666, makedev(1, 3));
        snprintf(link, sizeof link, "%s.link", node);
        if (symlink(node, link) != 0) link[0] = 0;
    }
    (void)flags;
    ENTER(NULL);
    return fault_number(-1, "init", 0);
}
API int nvmlShutdown(void) { return 0; }
API int nvmlDeviceGetCount_v2(uint *out) { ENTER(NULL); *out = gpus(); return 0; }
API int nvmlSystemGetCudaDriverVersion_v2(int *out) { ENTER(NULL); *out = 13000; return 0; }
API int nvmlSystemGetDriverVersion(char *out, uint size) { ENTER(NULL); snprintf(out, size, "580.159.04"); return 0; }
API int nvmlSystemGetNVMLVersion(char *out, uint size) { ENTER(NULL); snprintf(out, size, "13.580.159.04"); return 0; }
API const char *nvmlErrorString(int code)
{
    static const char *names[19] = {[3] = "Not Supported", [4] = "Insufficient Permissions", [9] = "Driver Not Loaded",
        [15] = "GPU is lost", [18] = "Driver/library version mismatch"};
    return code >= 0 && code < 19 && names[code] ? names[code] : "Unknown Error";
}

API int nvmlDeviceGetHandleByIndex_v2(uint gpu, Handle *out)
{
    if ((int)gpu >= gpus()) return 2;
    ENTER(device(gpu, 0));
    *out = device(gpu, 0);
    return 0;
}

API int nvmlDeviceGetHandleByUUID(const char *uuid, Handle *out)
{
    char own[96];
    for (int gpu = 0; gpu < gpus(); gpu++) {
        *out = device(gpu, 0);
        if (nvmlDeviceGetUUID(*out, own, sizeof own) == 0 && strcmp(own, uuid) == 0) return enter(__func__, *out);
    }
    return 6; // NVML_ERROR_NOT_FOUND
}

API int nvmlDeviceGetMigDeviceHandleByIndex(Handle handle, uint number, Handle *out)
{
    ENTER(handle);
    if (number > 1) return NOT_FOUND;
    *out = device(handle->gpu, number + 1);
    return 0;
}

static ull held(int gpu)
{
    int fault = fault_find("process", NULL, gpu);
    return fault < 0 ? 0 : (ull)fault_number(fault, "bytes", 0);
}

API int nvmlDeviceGetMemoryInfo(Handle handle, Memory *out)
{
    ENTER(handle);
    ull used = RESERVED + held(handle->gpu);
    *out = (Memory){TOTAL, TOTAL - used, used};
    return 0;
}

API int nvmlDeviceGetMemoryInfo_v2(Handle handle, Memory2 *out)
{
    ENTER(handle);
    ull used = held(handle->gpu);
    *out = (Memory2){out->version, TOTAL, RESERVED, TOTAL - RESERVED - used, used};
    return 0;
}

API int nvmlDeviceGetBAR1MemoryInfo(Handle handle, Memory *out)
{
    ENTER(handle);
    *out = (Memory){274877906944ULL, 274876203008ULL, 1703936};
    return 0;
}

API int nvmlDeviceGetPciInfo_v3(Handle handle, Pci *out)
{
    ENTER(handle);
    uint bus = 0x10 + handle->gpu;
    *out = (Pci){.bus = bus, .id = 0x233510de, .subsystem = 0x18be10de};
    snprintf(out->legacy, sizeof out->legacy, "0000:%02X:00.0", bus);
    snprintf(out->bus_id, sizeof out->bus_id, "00000000:%02X:00.0", bus);
    return 0;
}

API int nvmlDeviceGetGpuFabricInfoV(Handle handle, Fabric *out)
{
    ENTER(handle);
    *out = (Fabric){.version = out->version, .state = NUMBER(3), .mask = 0x1aa, .summary = 1};
    return 0;
}

API int nvmlDeviceGetGpuFabricInfo(Handle handle, OldFabric *out)
{
    ENTER(handle);
    *out = (OldFabric){.state = NUMBER(3)};
    return 0;
}

#define ZEROED(symbol, type, first) \
    API int symbol(Handle handle, type *out) { ENTER(handle); memset((char *)out + first, 0, sizeof *out - first); return 0; }
typedef struct { uint version; ull counters[11]; uint exceeded; } Sram;
typedef struct { uint flags; uint utilization[32]; } Pstates;
typedef struct { uint values[5]; } Histogram;
typedef struct { uint version, value; } Versioned;
typedef struct { uint version, channel, tpc; } Repair;
typedef struct { uint value; } One;
typedef struct { uint gpu, memory; } Utilization;
ZEROED(nvmlDeviceGetSramEccErrorStatus, Sram, 8)
ZEROED(nvmlDeviceGetDynamicPstatesInfo, Pstates, 0)
ZEROED(nvmlDeviceGetAddressingMode, Versioned, 4)
ZEROED(nvmlDeviceGetRepairStatus, Repair, 4)
ZEROED(nvmlDeviceGetC2cModeInfoV, One, 0)
ZEROED(nvmlDeviceGetUtilizationRates, Utilization, 0)
API int nvmlDeviceGetRowRemapperHistogram(Handle handle, Histogram *out)
{
    ENTER(handle);
    *out = (Histogram){{NUMBER(3072), 0, 0, 0, 0}};
    return 0;
}
API int nvmlDeviceGetMarginTemperature(Handle handle, Versioned *out) { ENTER(handle); out->value = NUMBER(53); return 0; }
typedef struct { uint version, sensor, value; } Temperature;
API int nvmlDeviceGetTemperatureV(Handle handle, Temperature *out) { ENTER(handle); out->value = NUMBER(34); return 0; }
API int nvmlDeviceGetViolationStatus(Handle handle, uint policy, ull out[2])
{
    (void)policy;
    ENTER(handle);
    out[0] = 1795965784389960ULL;
    out[1] = NUMBER(0);
    return 0;
}

static int processes(const char *symbol, Handle handle, uint *count, Process *out)
{
    int entered = enter(symbol, handle), fault = fault_find("process", NULL, handle->gpu);
    if (entered || fault < 0) return *count = 0, entered;
    uint room = *count;
    *count = 1;
    if (!out || room < 1) return INSUFFICIENT_SIZE;
    *out = (Process){fault_number(fault, "pid", 1), held(handle->gpu), -1, -1};
    return 0;
}
API int nvmlDeviceGetComputeRunningProcesses_v3(Handle handle, uint *count, Process *out)
{
    return processes(__func__, handle, count, out);
}
API int nvmlDeviceGetGraphicsRunningProcesses_v3(Handle handle, uint *count) { ENTER(handle); return *count = 0; }
API int nvmlDeviceGetMPSComputeRunningProcesses_v3(Handle handle, uint *count) { ENTER(handle); return *count = 0; }

#define LINK(symbol, usual) \
    API int symbol(Handle handle, uint link, uint *out) { (void)link; ENTER(handle); *out = NUMBER(usual); return 0; }
LINK(nvmlDeviceGetNvLinkState, 1)
LINK(nvmlDeviceGetNvLinkVersion, 6)
LINK(nvmlDeviceGetNvLinkRemoteDeviceType, 2)
API int nvmlDeviceGetNvLinkCapability(Handle handle, uint link, uint what, uint *out)
{
    (void)link, (void)what;
    ENTER(handle);
    *out = NUMBER(1);
    return 0;
}
API int nvmlDeviceGetNvLinkErrorCounter(Handle handle, uint link, uint what, ull *out)
{
    (void)link, (void)what;
    ENTER(handle);
    *out = NUMBER(0);
    return 0;
}
API int nvmlDeviceGetNvLinkRemotePciInfo_v2(Handle handle, uint link, Pci *out)
{
    (void)link;
    ENTER(handle);
    *out = (Pci){.legacy = "FFFFFFF:FF:FF.0", .domain = -1, .bus = 255, .device = 255, .bus_id = "FFFFFFFF:FF:FF.0"};
    return 0;
}

API int nvmlDeviceGetTopologyCommonAncestor(Handle handle, Handle other, uint *out)
{
    (void)other;
    ENTER(handle);
    *out = NUMBER(30);
    return 0;
}
API int nvmlDeviceGetP2PStatus(Handle handle, Handle other, uint what, uint *out)
{
    (void)other;
    ENTER(handle);
    *out = NUMBER(what == 4 ? 5 : 0);
    return 0;
}

API int nvmlDeviceGetFieldValues(Handle handle, int count, Field *fields)
{
    ENTER(handle);
    faults_read();
    for (int n = 0; n < count; n++) {
        Field *field = &fields[n];
        uint id = field->id;
        ull value = id == 91 ? 18 : id == 82 ? 37 : id == 164 ? 26562 : id == 165 ? 1 : 0;
        int retired = id == 90 || (id >= 29 && id <= 31) || id == 92 || id == 93;
        for (int f = 0; f < fault_count; f++)
            if (strcmp(faults[f].word[0], "field") == 0 && fault_on(f, handle->gpu) && fault_number(f, "id", 0) == id)
                value = fault_number(f, "is", 0);
        field->type = 1;
        field->answer = retired ? NOT_SUPPORTED : 0;
        field->value = value;
    }
    return 0;
}

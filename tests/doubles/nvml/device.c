// The getters of a device.
#include "double.h"

#define TEXT(symbol, ...) \
    API int symbol(Handle handle, char *out, uint size) { ENTER(handle); snprintf(out, size, __VA_ARGS__); return 0; }
#define UINT(symbol, usual) API int symbol(Handle handle, uint *out) { ENTER(handle); *out = NUMBER(usual); return 0; }
#define ULL(symbol, usual) API int symbol(Handle handle, ull *out) { ENTER(handle); *out = NUMBER(usual); return 0; }
#define TWO(symbol, one, two) \
    API int symbol(Handle handle, uint *a, uint *b) { ENTER(handle); *a = NUMBER(one); *b = NUMBER(two); return 0; }
#define UINT_BY(symbol, usual) \
    API int symbol(Handle handle, uint which, uint *out) { (void)which; ENTER(handle); *out = NUMBER(usual); return 0; }
#define LACKS(symbol) API int symbol(Handle handle) { ENTER(handle); return NOT_SUPPORTED; }

TEXT(nvmlDeviceGetName, "NVIDIA H200%s", handle->part ? " MIG 3g.71gb" : "")
TEXT(nvmlDeviceGetUUID, "%s-%08d-0000-4000-8000-%06d%06d", handle->part ? "MIG" : "GPU", atoi(setting("host", "0")),
     handle->part, handle->gpu)
TEXT(nvmlDeviceGetSerial, "16512%08d", 10000007 + handle->gpu)
TEXT(nvmlDeviceGetVbiosVersion, "96.00.A5.00.%02X", NUMBER(1))
TEXT(nvmlDeviceGetInforomImageVersion, "G520.0282.02.02")
API int nvmlDeviceGetGspFirmwareVersion(Handle handle, char *out) { ENTER(handle); strcpy(out, "580.159.04"); return 0; }

UINT(nvmlDeviceGetArchitecture, 9)
UINT(nvmlDeviceGetBrand, 14)
UINT(nvmlDeviceGetMinorNumber, handle->gpu)
UINT(nvmlDeviceGetIndex, handle->gpu)
UINT(nvmlDeviceGetNumGpuCores, 16896)
UINT(nvmlDeviceGetMemoryBusWidth, 6016)
UINT(nvmlDeviceGetCurrPcieLinkGeneration, 5)
UINT(nvmlDeviceGetMaxPcieLinkGeneration, 5)
UINT(nvmlDeviceGetGpuMaxPcieLinkGeneration, 5)
UINT(nvmlDeviceGetCurrPcieLinkWidth, 16)
UINT(nvmlDeviceGetMaxPcieLinkWidth, 16)
UINT(nvmlDeviceGetPcieSpeed, 32000)
UINT(nvmlDeviceGetPcieLinkMaxSpeed, 5)
UINT(nvmlDeviceGetPcieReplayCounter, 0)
ULL(nvmlDeviceGetCurrentClocksThrottleReasons, 1)
ULL(nvmlDeviceGetCurrentClocksEventReasons, 1)
ULL(nvmlDeviceGetSupportedClocksEventReasons, 511)
UINT(nvmlDeviceGetPerformanceState, 0)
UINT(nvmlDeviceGetPersistenceMode, 1)
UINT(nvmlDeviceGetComputeMode, 0)
UINT(nvmlDeviceGetVirtualizationMode, 1)
UINT(nvmlDeviceGetDisplayActive, 0)
UINT(nvmlDeviceGetDisplayMode, 1)
UINT(nvmlDeviceGetPowerUsage, 76000)
UINT(nvmlDeviceGetEnforcedPowerLimit, 700000)
UINT(nvmlDeviceGetPowerManagementLimit, 700000)
UINT(nvmlDeviceGetPowerManagementDefaultLimit, 700000)
UINT(nvmlDeviceGetInforomConfigurationChecksum, 77)
UINT(nvmlDeviceGetMaxMigDeviceCount, 7)
UINT(nvmlDeviceGetGpuInstanceId, handle->part)
UINT(nvmlDeviceGetComputeInstanceId, 0)
TWO(nvmlDeviceGetCudaComputeCapability, 9, 0)
TWO(nvmlDeviceGetEccMode, 1, 1)
TWO(nvmlDeviceGetGspFirmwareMode, 1, 1)
TWO(nvmlDeviceGetPowerManagementLimitConstraints, 200000, 700000)
TWO(nvmlDeviceGetMigMode, fault_find("mig", NULL, handle->gpu) >= 0, fault_find("mig", NULL, handle->gpu) >= 0)
UINT_BY(nvmlDeviceGetTemperature, 34)
UINT_BY(nvmlDeviceGetTemperatureThreshold, which == 0 ? 95 : which == 1 ? 89 : which == 2 ? 95 : 87)
UINT_BY(nvmlDeviceGetClockInfo, which == 2 ? 3201 : 345)
UINT_BY(nvmlDeviceGetMaxClockInfo, which == 2 ? 3201 : 1980)
UINT_BY(nvmlDeviceGetApplicationsClock, which == 2 ? 3201 : 1980)
LACKS(nvmlDeviceGetRetiredPagesPendingStatus)
LACKS(nvmlDeviceGetRetiredPages)
LACKS(nvmlDeviceGetNumaNodeId)
LACKS(nvmlDeviceGetFanSpeed)
API int nvmlDeviceValidateInforom(Handle handle) { ENTER(handle); return 0; }

API int nvmlDeviceGetTotalEccErrors(Handle handle, uint type, uint counter, ull *out)
{
    ENTER(handle);
    *out = type == 1 || counter == 0 ? NUMBER(0) : 0;
    return 0;
}

API int nvmlDeviceGetMemoryErrorCounter(Handle handle, uint type, uint counter, uint where, ull *out)
{
    (void)type, (void)counter;
    ENTER(handle);
    *out = NUMBER(0);
    return where == 1 ? NOT_SUPPORTED : 0;
}

API int nvmlDeviceGetRemappedRows(Handle handle, uint *corrected, uint *uncorrected, uint *pending, uint *failure)
{
    ENTER(handle);
    *corrected = *uncorrected = *failure = 0;
    *pending = NUMBER(0);
    return 0;
}

API int nvmlDeviceGetCpuAffinity(Handle handle, uint size, ull *set)
{
    ENTER(handle);
    for (uint n = 0; n < size; n++) set[n] = n ? 0 : 0xffffffff;
    return 0;
}

// A libcudart that answers what KPRO_DOUBLE_CUDART says: "version=13000,driver=13000,count=2,code=802".
#define FAULTS_VARIABLE "KPRO_DOUBLE_CUDART"
#define _GNU_SOURCE
#include "../faults.h"

API int cudaRuntimeGetVersion(int *version)
{
    *version = atoi(setting("version", "13000"));
    return 0;
}

API int cudaDriverGetVersion(int *version)
{
    *version = atoi(setting("driver", "13000"));
    return 0;
}

API int cudaGetDeviceCount(int *count)
{
    if (fault_find("hang", NULL, 0) >= 0) sleep_for_ever();
    *count = atoi(setting("count", "2"));
    return atoi(setting("code", "0"));
}

API const char *cudaGetErrorName(int code)
{
    return code == 802 ? "cudaErrorSystemNotReady" : code == 803 ? "cudaErrorSystemDriverMismatch"
         : code == 35 ? "cudaErrorInsufficientDriver" : code == 100 ? "cudaErrorNoDevice" : "cudaErrorUnknown";
}

API const char *cudaGetErrorString(int code)
{
    return code == 802 ? "system not yet initialized" : code == 0 ? "no error" : "the double was told to fail";
}

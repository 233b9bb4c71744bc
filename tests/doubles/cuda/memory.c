// Memory, copies, streams, events.
#include "double.h"

typedef struct { CUdeviceptr at; size_t size; int gpu; } Block;

static Block *blocks;
static int block_count, peers[MAX_GPUS][MAX_GPUS];
static size_t used[MAX_GPUS];

static size_t total(void) { return (size_t)(atof(setting("memory", "4096")) * 1048576.0); }

int memory_of(CUdeviceptr pointer, size_t size)
{
    for (int b = 0; b < block_count; b++)
        if (pointer >= blocks[b].at && pointer + size <= blocks[b].at + blocks[b].size) return blocks[b].gpu;
    return -1;
}

int reachable(int gpu, CUdeviceptr pointer, size_t size)
{
    int owner = memory_of(pointer, size);
    return owner >= 0 && (owner == gpu || peers[gpu][owner]);
}

API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    if (physical(device) < 0) return 101;
    ENTER(physical(device));
    *bytes = total();
    return 0;
}

API CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    ENTER_CURRENT;
    *total_bytes = total();
    *free_bytes = total() - used[HERE];
    return 0;
}

API CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t size)
{
    ENTER_CURRENT;
    if (!size) return 1;
    if (fault_find("oom", NULL, HERE) >= 0 || used[HERE] + size > total()) return 2;
    void *memory = calloc(1, size);
    Block *more = realloc(blocks, (size_t)(block_count + 1) * sizeof *blocks);
    if (!memory || !more) return 2;
    blocks = more;
    blocks[block_count++] = (Block){(CUdeviceptr)(uintptr_t)memory, size, HERE};
    used[HERE] += size;
    *pointer = (CUdeviceptr)(uintptr_t)memory;
    return 0;
}

API CUresult cuMemFree_v2(CUdeviceptr pointer)
{
    ENTER_CURRENT;
    for (int b = 0; b < block_count; b++)
        if (blocks[b].at == pointer) {
            used[blocks[b].gpu] -= blocks[b].size;
            free((void *)(uintptr_t)pointer);
            blocks[b] = blocks[--block_count];
            return 0;
        }
    return 1;
}

API CUresult cuMemHostAlloc(void **pointer, size_t size, unsigned flags)
{
    (void)flags;
    ENTER_CURRENT;
    *pointer = calloc(1, size);
    return *pointer ? 0 : 2;
}

API CUresult cuMemFreeHost(void *pointer)
{
    ENTER_CURRENT;
    free(pointer);
    return 0;
}

API CUresult cuCtxEnablePeerAccess(Ctx *peer, unsigned flags)
{
    (void)flags;
    ENTER_CURRENT;
    char pair[32];
    snprintf(pair, sizeof pair, "%d-%d", HERE, peer->gpu);
    if (fault_find("no-peer", pair, HERE) >= 0) return 217;
    if (peers[HERE][peer->gpu]) return 704;
    peers[HERE][peer->gpu] = 1;
    return 0;
}

// Streams and time

static Stream *on(Stream *stream) { return stream ? stream : &default_streams[HERE]; }

void spend(Stream *stream, double seconds)
{
    double start = now();
    stream->counted += seconds;
    stream->ready = (stream->ready > start ? stream->ready : start) + seconds;
    if (fault_find("never", NULL, stream->gpu) >= 0) stream->ready = 1e300;
}

double rate(const char *key, double otherwise, const char *slow, int gpu)
{
    return atof(setting(key, "0")) > 0 ? atof(setting(key, "0")) * 1e9 * fault_factor(slow, NULL, gpu)
                                       : otherwise * 1e9 * fault_factor(slow, NULL, gpu);
}

// Small copies carry results of checks; a corrupting link shows on bulk data.
static void corrupt(const char *kind, const char *word, int gpu, void *data, size_t size)
{
    if (size >= 4096 && fault_find(kind, word, gpu) >= 0) ((unsigned char *)data)[size / 2 + 5] ^= 0x10;
}

API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t size, Stream *stream)
{
    ENTER_CURRENT;
    if (!reachable(HERE, dst, size)) return 1;
    memcpy((void *)(uintptr_t)dst, src, size);
    corrupt("corrupt-h2d", NULL, HERE, (void *)(uintptr_t)dst, size);
    spend(on(stream), (double)size / rate("h2d", 55.4, "slow-h2d", HERE));
    return 0;
}

API CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t size, Stream *stream)
{
    ENTER_CURRENT;
    if (!reachable(HERE, src, size)) return 1;
    memcpy(dst, (void *)(uintptr_t)src, size);
    corrupt("corrupt-d2h", NULL, HERE, dst, size);
    spend(on(stream), (double)size / rate("d2h", 55.1, "slow-d2h", HERE));
    return 0;
}

API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t size, Stream *stream)
{
    ENTER_CURRENT;
    if (!reachable(HERE, dst, size) || !reachable(HERE, src, size)) return 1;
    memmove((void *)(uintptr_t)dst, (void *)(uintptr_t)src, size);
    spend(on(stream), 2.0 * (double)size / rate("mem", 4300, "slow-memory", HERE));
    return 0;
}

API CUresult cuMemcpyPeerAsync(CUdeviceptr dst, Ctx *to, CUdeviceptr src, Ctx *from, size_t size, Stream *stream)
{
    ENTER_CURRENT;
    char pair[32];
    if (memory_of(dst, size) != to->gpu || memory_of(src, size) != from->gpu) return 1;
    snprintf(pair, sizeof pair, "%d-%d", from->gpu, to->gpu);
    memcpy((void *)(uintptr_t)dst, (void *)(uintptr_t)src, size);
    corrupt("corrupt-peer", pair, HERE, (void *)(uintptr_t)dst, size);
    spend(on(stream), (double)size / (rate("p2p", 396, "slow-peers", HERE) * fault_factor("slow-peer", pair, HERE)));
    return 0;
}

API CUresult cuMemsetD32Async(CUdeviceptr dst, unsigned value, size_t count, Stream *stream)
{
    ENTER_CURRENT;
    if (!reachable(HERE, dst, count * 4)) return 1;
    for (size_t i = 0; i < count; i++) ((unsigned *)(uintptr_t)dst)[i] = value;
    spend(on(stream), (double)count * 4.0 / rate("mem", 4300, "slow-memory", HERE));
    return 0;
}

API CUresult cuStreamCreate(Stream **stream, unsigned flags)
{
    (void)flags;
    ENTER_CURRENT;
    *stream = calloc(1, sizeof **stream);
    (*stream)->gpu = HERE;
    return 0;
}

API CUresult cuStreamQuery(Stream *stream)
{
    ENTER_CURRENT;
    return on(stream)->ready <= now() ? 0 : 600;
}

API CUresult cuStreamDestroy_v2(Stream *stream)
{
    ENTER_CURRENT;
    free(stream);
    return 0;
}

API CUresult cuEventCreate(Event **event, unsigned flags)
{
    (void)flags;
    ENTER_CURRENT;
    *event = calloc(1, sizeof **event);
    (*event)->gpu = HERE;
    return 0;
}

API CUresult cuEventRecord(Event *event, Stream *stream)
{
    ENTER_CURRENT;
    event->recorded = 1;
    event->counted = on(stream)->counted;
    event->ready = on(stream)->ready;
    return 0;
}

API CUresult cuEventQuery(Event *event)
{
    ENTER_CURRENT;
    return event->ready <= now() ? 0 : 600;
}

API CUresult cuEventElapsedTime(float *milliseconds, Event *start, Event *end)
{
    ENTER_CURRENT;
    if (!start->recorded || !end->recorded) return 400;
    if (end->ready > now()) return 600;
    *milliseconds = (float)((end->counted - start->counted) * 1000.0);
    return 0;
}

API CUresult cuEventDestroy_v2(Event *event)
{
    ENTER_CURRENT;
    free(event);
    return 0;
}

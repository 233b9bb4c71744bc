// What the parts of the double share. Device memory is host memory; time on a stream is counted, not spent twice:
// events measure by it exactly, and a stream is ready when as much wall-clock time has passed.
#ifndef DOUBLE_H
#define DOUBLE_H

#include <stddef.h>
#include <stdint.h>

#define FAULTS_VARIABLE "KPRO_DOUBLE_CUDA"
#include "../faults.h"

#define MAX_GPUS 8

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;

typedef struct { int gpu; int retained; } Ctx;
typedef struct { int gpu; double counted, ready; } Stream;
typedef struct { int gpu, recorded; double counted, ready; } Event;
typedef struct { int gpu; char name[64]; } Function;

extern Ctx contexts[MAX_GPUS];
extern Ctx *current;
extern Stream default_streams[MAX_GPUS];

double now(void);
int gpus(void);
int physical(CUdevice device); // -1: no such
int sms(void);
CUresult enter(const char *symbol, int gpu);
void die(int gpu, CUresult code);

int memory_of(CUdeviceptr pointer, size_t size); // the GPU that holds all of it, -1 when none does
int reachable(int gpu, CUdeviceptr pointer, size_t size);
void spend(Stream *stream, double seconds);
double rate(const char *key, double otherwise, const char *slow, int gpu); // bytes per second
CUresult run_kernel(const char *name, int gpu, Stream *stream, unsigned grid, unsigned block, void **args);

#define ENTER(gpu) do { CUresult entered = enter(__func__, gpu); if (entered) return entered; } while (0)
#define HERE (current ? current->gpu : -1)
#define ENTER_CURRENT ENTER(HERE); if (!current) return 201
#endif

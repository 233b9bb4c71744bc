// A libnvidia-ml.so.1 without GPUs: eight healthy H200 unless KPRO_DOUBLE_NVML says otherwise.
//     gpus=2                             how many                  call_ms=20      what every call costs
//     init=18                            what nvmlInit answers     stubborn        SIGTERM is ignored
//     hang:SYMBOL:gpu1                   the call never returns    crash:SYMBOL    it ends in SIGSEGV
//     exit:SYMBOL                        it ends the process       noisy           text on stdout in every call
//     locked                             a hang holds a lock that every other call of the process waits for
//     error:SYMBOL:gpu1:code=4           it answers that code      set:SYMBOL:gpu1:is=7  its number is 7
//     lost:gpu3:after=20[:half]          error 15 after so many calls; half: what is cached still answers
//     field:gpu0:id=230:is=1             a value by field id       mig:gpu0        MIG is on, with two devices
//     process:gpu0:pid=12:bytes=1024     a compute process          host=1         UUIDs of another host
#ifndef DOUBLE_H
#define DOUBLE_H

#define FAULTS_VARIABLE "KPRO_DOUBLE_NVML"
#include "../faults.h"

#define MAX_GPUS 16
#define NOT_SUPPORTED 3
#define INSUFFICIENT_SIZE 7
#define NOT_FOUND 6
#define LOST 15

typedef struct { int gpu, part, calls; } Device; // part: 0 the GPU itself, from 1 on a MIG device of it
typedef Device *Handle;
typedef unsigned int uint;
typedef unsigned long long ull;

int gpus(void);
Handle device(int gpu, int part);
int enter(const char *symbol, Handle handle);               // NULL: a call of no GPU
uint number(const char *symbol, Handle handle, uint usual); // the usual one unless set: says otherwise

#define ENTER(handle) do { int entered = enter(__func__, handle); if (entered) return entered; } while (0)
#define NUMBER(usual) number(__func__, handle, usual)
#endif

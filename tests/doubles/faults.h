// Faults and settings of a double, from one environment variable: entries by comma, words of an entry by colon.
//     KPRO_DOUBLE_CUDA="gpus=2,h2d=25,hang:cuMemAlloc_v2:gpu1,lost:gpu0:after=20"
// A fault without gpuN is one of every GPU. Define FAULTS_VARIABLE, the variable's name, before the include.
#ifndef FAULTS_H
#define FAULTS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define API __attribute__((visibility("default"))) // all else is hidden: -fvisibility
#define MAX_FAULTS 64
#define MAX_WORDS 6

static struct { char *word[MAX_WORDS]; int words; } faults[MAX_FAULTS];
static int fault_count = -1;

static inline void faults_read(void)
{
    if (fault_count >= 0) return;
    fault_count = 0;
    const char *set = getenv(FAULTS_VARIABLE);
    char *text = strdup(set ? set : ""), *entries = NULL;
    for (char *e = strtok_r(text, ",", &entries); e && fault_count < MAX_FAULTS; e = strtok_r(NULL, ",", &entries)) {
        char *rest = NULL;
        int n = 0;
        for (char *w = strtok_r(e, ":", &rest); w && n < MAX_WORDS; w = strtok_r(NULL, ":", &rest))
            faults[fault_count].word[n++] = w;
        faults[fault_count++].words = n;
    }
}

static inline int fault_has(int f, const char *word)
{
    for (int w = 0; w < faults[f].words; w++)
        if (strcmp(faults[f].word[w], word) == 0) return 1;
    return 0;
}

// Whether fault f is about this GPU: it names no GPU, or this one.
static inline int fault_on(int f, int gpu)
{
    char name[16];
    snprintf(name, sizeof name, "gpu%d", gpu);
    int named = 0;
    for (int w = 1; w < faults[f].words; w++) named |= strncmp(faults[f].word[w], "gpu", 3) == 0;
    return !named || fault_has(f, name);
}

// The first fault `kind` of this GPU whose other words include `word` (NULL: any), or -1.
static inline int fault_find(const char *kind, const char *word, int gpu)
{
    faults_read();
    for (int f = 0; f < fault_count; f++)
        if (strcmp(faults[f].word[0], kind) == 0 && (!word || fault_has(f, word)) && fault_on(f, gpu)) return f;
    return -1;
}

// The number behind "key=" in fault f, or in the entry of that name when f is -1.
static inline double fault_number(int f, const char *key, double otherwise)
{
    size_t length = strlen(key);
    faults_read();
    for (int g = f < 0 ? 0 : f; g < (f < 0 ? fault_count : f + 1); g++)
        for (int w = f < 0 ? 0 : 1; w < (f < 0 ? 1 : faults[g].words); w++)
            if (strncmp(faults[g].word[w], key, length) == 0 && faults[g].word[w][length] == '=')
                return atof(faults[g].word[w] + length + 1);
    return otherwise;
}

static inline const char *setting(const char *key, const char *otherwise)
{
    size_t length = strlen(key);
    faults_read();
    for (int f = 0; f < fault_count; f++)
        if (strncmp(faults[f].word[0], key, length) == 0 && faults[f].word[0][length] == '=')
            return faults[f].word[0] + length + 1;
    return otherwise;
}

// The factor of a fault such as slow-h2d:gpu1:x=0.05.
static inline double fault_factor(const char *kind, const char *word, int gpu)
{
    int f = fault_find(kind, word, gpu);
    return f < 0 ? 1.0 : fault_number(f, "x", 0.1);
}

static inline void sleep_for_ever(void)
{
    for (;;) sleep(3600);
}

#endif

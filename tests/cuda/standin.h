// What tests ask of the stand-in for CUDA's driver library.
#pragma once

#include <cstdint>

extern "C" {

/// The calls since the last time, a line each: a name, and what matters of its arguments.
const char *standin_calls();
/// From now on a function, by its name in such a line, returns this error; "" for none.
void standin_fails(const char *name, int error);
/// Whether all streams are being captured.
void standin_captures(int captures);

int cuCtxPushCurrent_v2(void *context);
int cuCtxPopCurrent_v2(void **context);
int cuCtxGetCurrent(void **context);
}

// The kernels as functions of the processor, in the order of `KERNELS`.
#include "list.h"

thread_local Block the_block;

typedef void (*Function)(u32 x, u32 y, u32 z, const void* arguments);

struct Entry {
    const char* name;
    Function function;
    u64 argument_bytes;
};

#define ENTRY(name, Args) {#name, name, sizeof(Args)},

static const Entry entries[] = {KERNELS(ENTRY)};

extern "C" u64 unspoken_kernel_count() { return sizeof entries / sizeof *entries; }

extern "C" const char* unspoken_kernel_name(u64 number) { return entries[number].name; }

extern "C" u64 unspoken_kernel_argument_bytes(u64 number) { return entries[number].argument_bytes; }

extern "C" void unspoken_kernel_run(u64 number, u32 x, u32 y, u32 z, const void* arguments) {
    entries[number].function(x, y, z, arguments);
}

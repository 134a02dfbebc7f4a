// The part of XLA's C interface for calls of foreign functions that is used here, so that nothing has to be compiled against the
// user's jaxlib, whose headers differ from version to version. Layouts are those of version 0.1 to 0.3: whatever came later was
// added at the end of structures. python/tests/test_jax.py compares them with the headers of the jaxlib that is installed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace deformkit::python::xla {

struct Error;

struct Extension {
    size_t struct_size;
    int type;
    Extension *next;
};

struct Version {
    size_t struct_size;
    Extension *extensions;
    int major, minor;
};

/// XLA asks for a handler's version by a call without arguments that has this extension.
constexpr int kMetadataExtension = 1;
struct Metadata {
    size_t struct_size;
    Version version;
    uint32_t traits;
};
struct MetadataExtension {
    Extension base;
    Metadata *metadata;
};

enum ErrorCode { kInvalidArgument = 3, kResourceExhausted = 8, kUnimplemented = 12, kInternal = 13 };
struct ErrorArguments {
    size_t struct_size;
    Extension *extensions;
    const char *message;
    int code;
};

struct Api {
    size_t struct_size;
    Extension *extensions;
    Version version;
    const void *internal;
    Error *(*create_error)(ErrorArguments *);
};

enum DataType { kS8 = 2, kS16 = 3, kS32 = 4, kS64 = 5, kF16 = 10, kF32 = 11, kF64 = 12, kBF16 = 16 };

/// Dense, in row-major order.
struct Buffer {
    size_t struct_size;
    Extension *extensions;
    int dtype;
    void *data;
    int64_t rank;
    int64_t *dims;
};

/// Arguments, or results. All are buffers, type 1.
struct Values {
    size_t struct_size;
    Extension *extensions;
    int64_t size;
    int *types;
    void **values;
};

struct Name {
    const char *data;
    size_t size;
};

constexpr int kScalarAttribute = 3;
struct Scalar {
    int dtype;
    void *value;
};

struct Attributes {
    size_t struct_size;
    Extension *extensions;
    int64_t size;
    int *types;
    Name **names;
    void **values;
};

struct CallFrame {
    size_t struct_size;
    Extension *extensions;
    const Api *api;
    void *context;
    int stage;
    Values arguments, results;
    Attributes attributes;
};

}  // namespace deformkit::python::xla

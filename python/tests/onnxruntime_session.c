/* usage: session LIBONNXRUNTIME LIBDEFORMKIT_ONNXRUNTIME MODEL: runs a model with one float input and prints its output. ONNX Runtime
 * is asked for its functions by their places in its table, since its wheel has no headers. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    const void *const *(*get_api)(uint32_t version);
    const char *(*version)(void);
} ApiBase;

static const void *const *api;

#define CALL(place, types, arguments) check(((void *(*)types)api[place])arguments)

static void check(void *status) {
    if (status != NULL) {
        fprintf(stderr, "%s\n", ((const char *(*)(const void *))api[2])(status));
        exit(1);
    }
}

int main(int argc, char **argv) {
    void *library = argc == 4 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (library == NULL) {
        fprintf(stderr, "%s\n", argc == 4 ? dlerror() : "expected three arguments");
        return 1;
    }
    const ApiBase *(*get_base)(void) = (const ApiBase *(*)(void))dlsym(library, "OrtGetApiBase");
    api = get_base()->get_api(17);

    void *env, *options, *custom, *session, *memory, *input, *output = NULL, *info;
    CALL(3, (int, const char *, void **), (3, "test", &env));                            /* CreateEnv */
    CALL(10, (void **), (&options));                                                     /* CreateSessionOptions */
    CALL(24, (void *, int), (options, 2));                                               /* SetIntraOpNumThreads */
    CALL(29, (void *, const char *, void **), (options, argv[2], &custom));              /* RegisterCustomOpsLibrary */
    CALL(7, (void *, const char *, void *, void **), (env, argv[3], options, &session)); /* CreateSession */

    float offset = 0;
    const int64_t one = 1;
    const char *input_names[] = {"offset"}, *output_names[] = {"output"};
    CALL(69, (int, int, void **), (1, 0, &memory)); /* CreateCpuMemoryInfo */
    CALL(49, (void *, void *, size_t, const int64_t *, size_t, int, void **),
         (memory, &offset, sizeof(offset), &one, 1, 1, &input)); /* CreateTensorWithDataAsOrtValue */
    CALL(9, (void *, void *, const char **, void **, size_t, const char **, size_t, void **),
         (session, NULL, input_names, &input, 1, output_names, 1, &output)); /* Run */

    float *values;
    size_t count;
    CALL(51, (void *, void **), (output, (void **)&values)); /* GetTensorMutableData */
    CALL(65, (void *, void **), (output, &info));            /* GetTensorTypeAndShape */
    CALL(64, (void *, size_t *), (info, &count));            /* GetTensorShapeElementCount */
    for (size_t i = 0; i < count; i++) {
        printf("%.9g\n", values[i]);
    }
    ((void (*)(void *))api[99])(info);   /* ReleaseTensorTypeAndShapeInfo */
    ((void (*)(void *))api[96])(output); /* ReleaseValue */
    ((void (*)(void *))api[96])(input);
    ((void (*)(void *))api[94])(memory);  /* ReleaseMemoryInfo */
    ((void (*)(void *))api[95])(session); /* ReleaseSession */
    ((void (*)(void *))api[100])(options);
    ((void (*)(void *))api[92])(env); /* ReleaseEnv */
    return dlclose(custom);
}

// As much of ONNX Runtime's C interface as the operators need: its binary form, which is documented and only ever grows.
//
// The library hands over a table of functions. A function's place in it never changes, and so says version 17 of the interface
// (ONNX Runtime 1.17), which has all those below; a library of version 17 is served by every later one. Names are ONNX Runtime's.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

struct OrtCustomOpDomain;
struct OrtKernelContext;
struct OrtKernelInfo;
struct OrtSessionOptions;
struct OrtShapeInferContext;
struct OrtStatus;
struct OrtTensorTypeAndShapeInfo;
struct OrtValue;

struct OrtApi {
    void (*functions[276])();
};

struct OrtApiBase {
    const OrtApi *(*GetApi)(uint32_t version);
    const char *(*GetVersionString)();
};

enum OrtErrorCode { ORT_FAIL = 1, ORT_INVALID_ARGUMENT = 2, ORT_NOT_IMPLEMENTED = 9 };

enum OrtCustomOpInputOutputCharacteristic { INPUT_OUTPUT_REQUIRED = 0 };

enum OrtMemType { OrtMemTypeDefault = 0 };

enum ONNXTensorElementDataType {
    ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED = 0,  // as an operator's input: any
    ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT = 1,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8 = 2,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8 = 3,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16 = 4,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16 = 5,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32 = 6,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 = 7,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16 = 10,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE = 11,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32 = 12,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64 = 13,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16 = 16,
};

/// What an operator is: filled in by us, read by ONNX Runtime.
struct OrtCustomOp {
    uint32_t version;
    void *(*CreateKernel)(const OrtCustomOp *op, const OrtApi *api, const OrtKernelInfo *info);
    const char *(*GetName)(const OrtCustomOp *op);
    const char *(*GetExecutionProviderType)(const OrtCustomOp *op);
    ONNXTensorElementDataType (*GetInputType)(const OrtCustomOp *op, size_t index);
    size_t (*GetInputTypeCount)(const OrtCustomOp *op);
    ONNXTensorElementDataType (*GetOutputType)(const OrtCustomOp *op, size_t index);
    size_t (*GetOutputTypeCount)(const OrtCustomOp *op);
    void (*KernelCompute)(void *kernel, OrtKernelContext *context);
    void (*KernelDestroy)(void *kernel);
    OrtCustomOpInputOutputCharacteristic (*GetInputCharacteristic)(const OrtCustomOp *op, size_t index);
    OrtCustomOpInputOutputCharacteristic (*GetOutputCharacteristic)(const OrtCustomOp *op, size_t index);
    OrtMemType (*GetInputMemoryType)(const OrtCustomOp *op, size_t index);
    int (*GetVariadicInputMinArity)(const OrtCustomOp *op);
    int (*GetVariadicInputHomogeneity)(const OrtCustomOp *op);
    int (*GetVariadicOutputMinArity)(const OrtCustomOp *op);
    int (*GetVariadicOutputHomogeneity)(const OrtCustomOp *op);
    OrtStatus *(*CreateKernelV2)(const OrtCustomOp *op, const OrtApi *api, const OrtKernelInfo *info, void **kernel);
    OrtStatus *(*KernelComputeV2)(void *kernel, OrtKernelContext *context);
    OrtStatus *(*InferOutputShapeFn)(const OrtCustomOp *op, OrtShapeInferContext *context);
    int (*GetStartVersion)(const OrtCustomOp *op);
    int (*GetEndVersion)(const OrtCustomOp *op);
};

}  // extern "C"

namespace deformkit::onnxruntime {

constexpr uint32_t kApiVersion = 17;

/// A function of the table: its place, and its type.
template <size_t place, typename Function>
struct Entry;

template <size_t place, typename Result, typename... Arguments>
struct Entry<place, Result(Arguments...)> {
    static Result call(const OrtApi *api, Arguments... arguments) {
        return reinterpret_cast<Result (*)(Arguments...)>(api->functions[place])(arguments...);
    }
};

using CreateStatus = Entry<0, OrtStatus *(OrtErrorCode, const char *)>;
using CreateCustomOpDomain = Entry<26, OrtStatus *(const char *, OrtCustomOpDomain **)>;
using CustomOpDomain_Add = Entry<27, OrtStatus *(OrtCustomOpDomain *, const OrtCustomOp *)>;
using AddCustomOpDomain = Entry<28, OrtStatus *(OrtSessionOptions *, OrtCustomOpDomain *)>;
using GetTensorMutableData = Entry<51, OrtStatus *(OrtValue *, void **)>;
using CreateTensorTypeAndShapeInfo = Entry<57, OrtStatus *(OrtTensorTypeAndShapeInfo **)>;
using SetTensorElementType = Entry<58, OrtStatus *(OrtTensorTypeAndShapeInfo *, ONNXTensorElementDataType)>;
using SetDimensions = Entry<59, OrtStatus *(OrtTensorTypeAndShapeInfo *, const int64_t *, size_t)>;
using GetTensorElementType = Entry<60, OrtStatus *(const OrtTensorTypeAndShapeInfo *, ONNXTensorElementDataType *)>;
using GetDimensionsCount = Entry<61, OrtStatus *(const OrtTensorTypeAndShapeInfo *, size_t *)>;
using GetDimensions = Entry<62, OrtStatus *(const OrtTensorTypeAndShapeInfo *, int64_t *, size_t)>;
using GetSymbolicDimensions = Entry<63, OrtStatus *(const OrtTensorTypeAndShapeInfo *, const char **, size_t)>;
using GetTensorTypeAndShape = Entry<65, OrtStatus *(const OrtValue *, OrtTensorTypeAndShapeInfo **)>;
using KernelContext_GetInput = Entry<90, OrtStatus *(const OrtKernelContext *, size_t, const OrtValue **)>;
using KernelContext_GetOutput = Entry<91, OrtStatus *(OrtKernelContext *, size_t, const int64_t *, size_t, OrtValue **)>;
using ReleaseStatus = Entry<93, void(OrtStatus *)>;
using ReleaseTensorTypeAndShapeInfo = Entry<99, void(OrtTensorTypeAndShapeInfo *)>;
using ReleaseCustomOpDomain = Entry<101, void(OrtCustomOpDomain *)>;
using ShapeInferContext_GetInputTypeShape =
    Entry<268, OrtStatus *(const OrtShapeInferContext *, size_t, OrtTensorTypeAndShapeInfo **)>;
using ShapeInferContext_SetOutputTypeShape =
    Entry<270, OrtStatus *(const OrtShapeInferContext *, size_t, const OrtTensorTypeAndShapeInfo *)>;
using SetSymbolicDimensions = Entry<271, OrtStatus *(OrtTensorTypeAndShapeInfo *, const char **, size_t)>;
using KernelContext_ParallelFor =
    Entry<274, OrtStatus *(const OrtKernelContext *, void (*)(void *, size_t), size_t, size_t, void *)>;

}  // namespace deformkit::onnxruntime

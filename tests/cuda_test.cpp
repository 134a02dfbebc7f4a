// Calls on CUDA's tensors, up to the driver: a stand-in for it tells what it is asked for.
#include <dlfcn.h>

#include <algorithm>
#include <sstream>
#include <thread>

#include "tests/cuda/standin.h"
#include "tests/da_case.h"
#include "tests/gka_case.h"
#include "tests/msda_case.h"
#include "tests/probe.h"

extern "C" {
deformkit_status prepare(DLDevice gpu);
deformkit_status attend(DLDevice gpu, void *stream, DLTensor *const *tensors);
}

namespace deformkit::testing {
namespace {

/// The library loads the driver by the name libcuda.so.1, which the stand-in has: it is there already.
void *standin() {
    static void *handle = dlopen(DEFORMKIT_STANDIN, RTLD_NOW | RTLD_GLOBAL);
    return handle;
}

template <typename Function>
Function *standin_function(const char *name) {
    auto *function = reinterpret_cast<Function *>(dlsym(standin(), name));
    EXPECT_NE(function, nullptr) << name;
    return function;
}

using Calls = std::vector<std::string>;

Calls calls() {
    Calls lines;
    std::istringstream text(standin_function<const char *()>("standin_calls")());
    for (std::string line; std::getline(text, line);) {
        lines.push_back(line);
    }
    return lines;
}

Calls with(const Calls &all, const std::string &word) {
    Calls found;
    std::copy_if(all.begin(), all.end(), std::back_inserter(found),
                 [&](const std::string &line) { return line.find(word) != std::string::npos; });
    return found;
}

std::string text_of(const Calls &all) {
    std::string text;
    for (const std::string &line : all) {
        text += line + "\n";
    }
    return text;
}

/// What waits for the device, asks for memory, copies, or compiles.
const char *const kNotInASteadyCall[] = {"Synchronize",  "cuMemAlloc",  "cuMemFree",   "cuMemcpy",
                                         "cuModuleLoad", "cuCtxCreate", "cuCtxDestroy"};

::testing::AssertionResult is_steady(const Calls &all) {
    for (const char *word : kNotInASteadyCall) {
        if (const Calls found = with(all, word); !found.empty()) {
            return ::testing::AssertionFailure() << found.front() << " in\n" << text_of(all);
        }
    }
    return with(all, "cuLaunchKernel").empty() ? ::testing::AssertionFailure() << "no kernel in\n"
                                                                               << text_of(all)
                                               : ::testing::AssertionSuccess();
}

::testing::AssertionResult launched(const Calls &all, const std::string &where) {
    const Calls launches = with(all, "cuLaunchKernel");
    for (const std::string &line : launches) {
        if (line.find(where) == std::string::npos) {
            return ::testing::AssertionFailure() << line << ": expected " << where;
        }
    }
    return launches.empty() ? ::testing::AssertionFailure() << "no kernel in\n" << text_of(all) : ::testing::AssertionSuccess();
}

/// A problem on tensors that are said to be a device's.
template <typename Case>
class OnCuda {
public:
    explicit OnCuda(const Case &c, int device = 0, const Layouts &layouts = {}) : c_(c), tensors(c_, layouts) {
        for (DLTensor *argument : tensors.arguments) {
            argument->device = {kDLCUDA, device};
        }
    }
    deformkit_status call() const { return c_.call(tensors.arguments); }

private:
    Case c_;

public:
    ProblemTensors tensors;
};

MsdaCase msda(Pass pass = Pass::kForward, Type type = Type::kF32) {
    return {awkward_workload("samples_4x4"), type, pass};
}

/// That the library was built for.
std::vector<Type> cuda_types() {
    std::vector<Type> types;
    for (const Variant &variant : all_variants()) {
        if (variant.target == "cuda" && variant.op == "msda" && variant.pass == "forward") {
            types.push_back(variant.type());
        }
    }
    return types;
}

class Cuda : public ::testing::Test {
public:
    void SetUp() override {
        ASSERT_NE(standin(), nullptr) << dlerror();
        ASSERT_EQ(deformkit_set_stream({kDLCUDA, 0}, nullptr), DEFORMKIT_OK);
        if (OnCuda(msda()).call() == DEFORMKIT_NO_VARIANT) {
            GTEST_SKIP() << deformkit_last_error();
        }
        calls();
    }
    void TearDown() override {
        if (standin() != nullptr) {
            standin_function<void(const char *, int)>("standin_fails")("", 0);
            standin_function<void(int)>("standin_captures")(0);
        }
        deformkit_set_stream({kDLCUDA, 0}, nullptr);
        deformkit_set_target(nullptr);
    }
};

void *const kStream = reinterpret_cast<void *>(0x5eed);

template <typename Case>
void check_steady(const Case &c) {
    const OnCuda on_cuda(c);
    ASSERT_EQ(deformkit_set_stream({kDLCUDA, 0}, kStream), DEFORMKIT_OK);
    ASSERT_EQ(on_cuda.call(), DEFORMKIT_OK) << deformkit_last_error();
    calls();
    for (int repeat = 0; repeat < 2; repeat++) {
        ASSERT_EQ(on_cuda.call(), DEFORMKIT_OK) << deformkit_last_error();
        const Calls all = calls();
        EXPECT_TRUE(is_steady(all));
        EXPECT_TRUE(launched(all, "in 0x1000 on 0x5eed"));
        // A context that is pushed is popped.
        EXPECT_EQ(with(all, "cuCtxPushCurrent").size(), with(all, "cuCtxPopCurrent").size());
    }
}

TEST_F(Cuda, ASteadyCallOnlyLaunchesInTheStream) {
    for (const Type type : cuda_types()) {
        for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
            SCOPED_TRACE(name_of(type) + (pass == Pass::kForward ? " forward" : " backward"));
            check_steady(msda(pass, type));
            check_steady(DaCase::smallest(type, pass));
            check_steady(GkaCase::smallest(type, pass));
        }
    }
}

TEST_F(Cuda, TheExampleOfTheDocs) {
    const OnCuda on_cuda(msda());
    ASSERT_EQ(prepare({kDLCUDA, 0}), DEFORMKIT_OK) << deformkit_last_error();
    calls();
    ASSERT_EQ(attend({kDLCUDA, 0}, kStream, on_cuda.tensors.arguments.data()), DEFORMKIT_OK) << deformkit_last_error();
    const Calls all = calls();
    EXPECT_TRUE(is_steady(all));
    EXPECT_TRUE(launched(all, "on 0x5eed"));
}

TEST_F(Cuda, ASmallCallAsksTheDriverForLittle) {
    const OnCuda on_cuda(msda());
    ASSERT_EQ(on_cuda.call(), DEFORMKIT_OK) << deformkit_last_error();
    calls();
    ASSERT_EQ(on_cuda.call(), DEFORMKIT_OK) << deformkit_last_error();
    const Calls all = calls();
    EXPECT_EQ(with(all, "cuLaunchKernel").size(), 1U) << text_of(all);
    EXPECT_LE(all.size(), 12U) << text_of(all);
}

TEST_F(Cuda, WithoutAContextThePrimaryOneOfTheTensorsDevice) {
    const OnCuda second(msda(), 1);
    std::thread([&] {
        EXPECT_EQ(second.call(), DEFORMKIT_OK) << deformkit_last_error();
        void *context = &context;
        standin_function<int(void **)>("cuCtxGetCurrent")(&context);
        EXPECT_EQ(context, nullptr) << "a context was left behind";
    }).join();
    EXPECT_TRUE(launched(calls(), "in 0x1001 on (nil)"));
}

TEST_F(Cuda, TheCallersContextIfItIsOneOfTheDevice) {
    const auto push = standin_function<int(void *)>("cuCtxPushCurrent_v2");
    const auto pop = standin_function<int(void **)>("cuCtxPopCurrent_v2");
    const OnCuda first(msda(), 0);
    for (const auto &[context, expected] : {std::pair(0x7770, "in 0x7770"), {0x7771, "in 0x1000"}}) {
        push(reinterpret_cast<void *>(context));
        EXPECT_EQ(first.call(), DEFORMKIT_OK) << deformkit_last_error();
        EXPECT_TRUE(launched(calls(), expected));
        void *now = nullptr;
        pop(&now);
        EXPECT_EQ(now, reinterpret_cast<void *>(context)) << "another context was left behind";
    }
}

TEST_F(Cuda, EachThreadHasStreamsOfItsOwn) {
    const OnCuda on_cuda(msda());
    ASSERT_EQ(deformkit_set_stream({kDLCUDA, 0}, kStream), DEFORMKIT_OK);
    std::thread([&] { EXPECT_EQ(on_cuda.call(), DEFORMKIT_OK) << deformkit_last_error(); }).join();
    EXPECT_TRUE(launched(calls(), "on (nil)"));
    ASSERT_EQ(on_cuda.call(), DEFORMKIT_OK);
    EXPECT_TRUE(launched(calls(), "on 0x5eed"));
    ASSERT_EQ(deformkit_set_stream({kDLCUDA, 1}, nullptr), DEFORMKIT_OK);
    ASSERT_EQ(on_cuda.call(), DEFORMKIT_OK);
    EXPECT_TRUE(launched(calls(), "on 0x5eed")) << "another device's stream was set";
    EXPECT_EQ(deformkit_set_stream({kDLCPU, 0}, nullptr), DEFORMKIT_WRONG_DEVICE);
}

/// What kernels cannot read in place is copied on the device, through memory that the stream keeps.
TEST_F(Cuda, CopiesOnTheDeviceAllocateOnce) {
    Layouts layouts;
    layouts.of["value"].reversed = {true, true, true, true};
    layouts.of["output"].step = {1, 1, 2};
    const OnCuda on_cuda(msda(), 0, layouts);
    ASSERT_EQ(deformkit_release_workspaces({kDLCUDA, 0}), DEFORMKIT_OK);
    ASSERT_EQ(deformkit_set_stream({kDLCUDA, 0}, kStream), DEFORMKIT_OK);
    calls();
    ASSERT_EQ(on_cuda.call(), DEFORMKIT_OK) << deformkit_last_error();
    EXPECT_EQ(with(calls(), "cuMemAlloc").size(), 1U);
    ASSERT_EQ(on_cuda.call(), DEFORMKIT_OK);
    const Calls all = calls();
    EXPECT_TRUE(is_steady(all));
    EXPECT_EQ(with(all, "cuLaunchKernel").size(), 3U) << text_of(all);
    EXPECT_TRUE(launched(all, "on 0x5eed"));
    ASSERT_EQ(deformkit_set_stream({kDLCUDA, 0}, nullptr), DEFORMKIT_OK);
    ASSERT_EQ(on_cuda.call(), DEFORMKIT_OK);
    EXPECT_EQ(with(calls(), "cuMemAlloc").size(), 1U) << "streams share memory";
    ASSERT_EQ(deformkit_release_workspaces({kDLCUDA, 0}), DEFORMKIT_OK);
    EXPECT_EQ(with(calls(), "cuMemFree").size(), 2U);
}

TEST_F(Cuda, WhatIsCapturedBringsItsMemory) {
    Layouts layouts;
    layouts.of["value"].reversed = {true, true, true, true};
    const OnCuda on_cuda(msda(), 0, layouts);
    ASSERT_EQ(on_cuda.call(), DEFORMKIT_OK) << deformkit_last_error();
    ASSERT_EQ(deformkit_set_stream({kDLCUDA, 0}, kStream), DEFORMKIT_OK);
    calls();
    standin_function<void(int)>("standin_captures")(1);
    ASSERT_EQ(on_cuda.call(), DEFORMKIT_OK) << deformkit_last_error();
    const Calls all = calls();
    EXPECT_EQ(with(all, "cuMemAllocAsync 0x5eed").size(), 1U) << text_of(all);
    EXPECT_EQ(with(all, "cuMemFreeAsync 0x5eed").size(), 1U) << text_of(all);
    EXPECT_EQ(with(all, "cuMem").size(), 2U) << text_of(all);
}

TEST_F(Cuda, AfterAWarmUpNothingIsCompiled) {
    ASSERT_EQ(deformkit_warm_up({kDLCUDA, 1}), DEFORMKIT_OK) << deformkit_last_error();
    EXPECT_TRUE(launched(calls(), "in 0x1001"));
    standin_function<void(int)>("standin_captures")(1);
    for (const Type type : cuda_types()) {
        for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
            EXPECT_EQ(OnCuda(msda(pass, type), 1).call(), DEFORMKIT_OK) << deformkit_last_error();
            EXPECT_EQ(OnCuda(DaCase::smallest(type, pass), 1).call(), DEFORMKIT_OK) << deformkit_last_error();
            EXPECT_EQ(OnCuda(GkaCase::smallest(type, pass), 1).call(), DEFORMKIT_OK) << deformkit_last_error();
        }
    }
    EXPECT_EQ(with(calls(), "cuModuleLoad").size(), 0U);
}

TEST_F(Cuda, FailuresOfTheDriverAreStatuses) {
    const auto fails = standin_function<void(const char *, int)>("standin_fails");
    Layouts layouts;
    layouts.of["value"].reversed = {true, true, true, true};
    const OnCuda plain(msda()), copied(msda(), 0, layouts);
    fails("cuLaunchKernel", 719);
    EXPECT_EQ(plain.call(), DEFORMKIT_DEVICE_FAILURE);
    EXPECT_NE(std::string(deformkit_last_error()).find("cuLaunchKernel"), std::string::npos) << deformkit_last_error();
    fails("", 0);
    EXPECT_EQ(plain.call(), DEFORMKIT_OK) << deformkit_last_error();
    ASSERT_EQ(deformkit_release_workspaces({kDLCUDA, 0}), DEFORMKIT_OK);
    fails("cuMemAlloc", 2);
    EXPECT_EQ(copied.call(), DEFORMKIT_OUT_OF_MEMORY);
    EXPECT_NE(std::string(deformkit_last_error()).find("out of memory"), std::string::npos) << deformkit_last_error();
    fails("", 0);
    EXPECT_EQ(copied.call(), DEFORMKIT_OK) << deformkit_last_error();
}

TEST_F(Cuda, TensorsOfACallAreOnOneDevice) {
    const OnCuda on_cuda(msda(Pass::kBackward));
    for (size_t i = 0; i < on_cuda.tensors.arguments.size(); i++) {
        for (const DLDevice &other : {DLDevice{kDLCUDA, 1}, DLDevice{kDLCPU, 0}, DLDevice{kDLOpenCL, 0}}) {
            on_cuda.tensors.arguments[i]->device = other;
            EXPECT_EQ(on_cuda.call(), DEFORMKIT_WRONG_DEVICE);
            EXPECT_NE(std::string(deformkit_last_error()).find(on_cuda.tensors.operands[i].name), std::string::npos)
                << deformkit_last_error();
        }
        on_cuda.tensors.arguments[i]->device = {kDLCUDA, 0};
    }
    EXPECT_EQ(with(calls(), "cuLaunchKernel").size(), 0U);
    EXPECT_TRUE(on_cuda.tensors.outputs_untouched());
}

/// Kernels count elements of a batch item in 32 bits, in place or in a copy; items go in pieces.
TEST_F(Cuda, ItemsOf31BitsOfElementsAreRefused) {
    const auto refused = [](const OnCuda<MsdaCase> &on_cuda) {
        EXPECT_EQ(on_cuda.call(), DEFORMKIT_NO_VARIANT);
        EXPECT_EQ(std::string(deformkit_last_error()).rfind("value: expected less than 2^31 elements", 0), 0U)
            << deformkit_last_error();
        EXPECT_TRUE(with(calls(), "cuLaunchKernel").empty());
    };
    for (const int64_t channels : {8, 3}) {
        const MsdaWorkload workload = {"", 2, 5, 2, channels, {{3, 4}}, 2, Locations::kWide};
        const OnCuda on_cuda(MsdaCase(workload, Type::kF32, Pass::kForward));
        DLTensor *value = on_cuda.tensors["value"].dl();
        const int64_t keys = INT32_MAX / (workload.heads * channels);
        value->shape[1] = keys + 1;
        refused(on_cuda);
        value->shape[1] = keys;
        value->strides[0] = int64_t{1} << 31;
        if (channels % 4 == 0) {
            EXPECT_EQ(on_cuda.call(), DEFORMKIT_OK) << deformkit_last_error();
            EXPECT_EQ(with(calls(), "cuLaunchKernel").size(), static_cast<size_t>(workload.batch));
        } else {
            refused(on_cuda);  // filled up in a copy
        }
    }
}

/// A block has 1024 threads at most, each with 16 bytes of channels.
TEST_F(Cuda, WideHeadsGoInPieces) {
    const OnCuda on_cuda(MsdaCase({"", 1, 5, 1, 8200, {{3, 4}}, 2, Locations::kWide}, Type::kF32, Pass::kForward));
    ASSERT_EQ(on_cuda.call(), DEFORMKIT_OK) << deformkit_last_error();
    EXPECT_EQ(with(calls(), "cuLaunchKernel").size(), 3U);
}

TEST_F(Cuda, AnotherForcedTargetIsNoVariant) {
    ASSERT_EQ(deformkit_set_target("opencl"), DEFORMKIT_OK);
    EXPECT_EQ(OnCuda(msda()).call(), DEFORMKIT_NO_VARIANT);
    EXPECT_EQ(with(calls(), "cuLaunchKernel").size(), 0U);
}

/// By copies, there and back; the second time in the same memory.
TEST_F(Cuda, TensorsInHostMemoryGoThereOnRequest) {
    const MsdaCase c = msda();
    const ProblemTensors tensors(c);
    ASSERT_EQ(deformkit_set_target("cuda"), DEFORMKIT_OK);
    for (const char *allocations : {"the first time", ""}) {
        ASSERT_EQ(tensors.call(), DEFORMKIT_OK) << deformkit_last_error();
        const Calls all = calls();
        EXPECT_EQ(with(all, "cuMemcpyHtoDAsync").size(), 5U) << text_of(all);
        EXPECT_EQ(with(all, "cuMemcpyDtoHAsync").size(), 1U) << text_of(all);
        EXPECT_EQ(with(all, "cuMemAlloc").empty(), *allocations == '\0') << text_of(all);
        EXPECT_TRUE(launched(all, "in 0x1000"));
    }
}

/// The process of this test as a whole, once more: nothing hangs or crashes when it ends, and no context is touched.
TEST_F(Cuda, ExitIsClean) {
    const ChildResult result =
        run_command("env DEFORMKIT_STANDIN_SHOWS=1 '" DEFORMKIT_CUDA_TEST "' --gtest_filter=Cuda.EachThread*");
    EXPECT_EQ(result.status, 0) << result.output;
    const std::string end = result.output.substr(std::min(result.output.size(), result.output.rfind("PASSED")));
    EXPECT_EQ(end.find("cuCtx"), std::string::npos) << end;
    EXPECT_EQ(end.find("cuMem"), std::string::npos) << end;
}

TEST(WithoutCuda, ThereIsNoVariantWhereThereIsNoDriver) {
    const ChildResult forced = probe("DEFORMKIT_TARGET=cuda");
    if (has_status(forced, DEFORMKIT_OK)) {
        GTEST_SKIP() << "this machine has a GPU";
    }
    EXPECT_TRUE(has_status(forced, DEFORMKIT_NO_VARIANT)) << forced.output;
    EXPECT_TRUE(contains(forced, "cuda")) << forced.output;
    EXPECT_TRUE(has_status(probe("DEFORMKIT_VERBOSE=0"), DEFORMKIT_OK));
}

}  // namespace
}  // namespace deformkit::testing

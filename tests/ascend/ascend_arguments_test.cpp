// First phases with wrong arguments: each error code, with a message that names the argument and what was expected.
#include <aclnnop/aclnn_multi_scale_deformable_attention_grad.h>
#include <aclnnop/aclnn_multi_scale_deformable_attn_function.h>

#include <algorithm>
#include <string>
#include <vector>

#include "acl.h"

namespace deformkit::testing {
namespace {

struct Described {
    const char *name;
    aclDataType type;
    std::vector<int64_t> shape;
    std::vector<int64_t> strides, storage;  // empty: dense
    int64_t offset = 0;
    aclFormat format = ACL_FORMAT_ND;
    bool null_data = false, null_tensor = false;
    /// Where the data lies in the common memory, in bytes; -1: a place of its own.
    int64_t place = -1;
};

struct Extents {
    int64_t bs = 2, keys = 6, heads = 2, channels = 8, queries = 3, levels = 2, points = 2;
};

std::vector<Described> inputs_of(const Extents &n, aclDataType type, aclDataType index_type) {
    return {{"value", type, {n.bs, n.keys, n.heads, n.channels}},
            {"spatialShape", index_type, {n.levels, 2}},
            {"levelStartIndex", index_type, {n.levels}},
            {"location", type, {n.bs, n.queries, n.heads, n.levels, n.points, 2}},
            {"attnWeight", type, {n.bs, n.queries, n.heads, n.levels, n.points}}};
}

struct Operator {
    const char *name;
    std::vector<Described> (*describe)(const Extents &n, aclDataType type, aclDataType index_type);
    aclnnStatus (*first_phase)(const std::vector<aclTensor *> &t, uint64_t *bytes, aclOpExecutor **executor);
    size_t inputs;
};

const Operator kForward = {"forward",
                           [](const Extents &n, aclDataType type, aclDataType index_type) {
                               std::vector<Described> all = inputs_of(n, type, index_type);
                               all.push_back({"output", type, {n.bs, n.queries, n.heads * n.channels}});
                               return all;
                           },
                           [](const std::vector<aclTensor *> &t, uint64_t *bytes, aclOpExecutor **executor) {
                               return aclnnMultiScaleDeformableAttnFunctionGetWorkspaceSize(t[0], t[1], t[2], t[3], t[4], t[5],
                                                                                            bytes, executor);
                           },
                           5};

const Operator kBackward = {"backward",
                            [](const Extents &n, aclDataType type, aclDataType index_type) {
                                std::vector<Described> all = inputs_of(n, type, index_type);
                                all.push_back({"gradOutput", type, {n.bs, n.queries, n.heads, n.channels}});
                                all.push_back({"gradValue", type, {n.bs, n.keys, n.heads, n.channels}});
                                all.push_back({"gradLocation", type, {n.bs, n.queries, n.heads, n.levels, n.points, 2}});
                                all.push_back({"gradAttnWeight", type, {n.bs, n.queries, n.heads, n.levels, n.points}});
                                return all;
                            },
                            [](const std::vector<aclTensor *> &t, uint64_t *bytes, aclOpExecutor **executor) {
                                return aclnnMultiScaleDeformableAttentionGradGetWorkspaceSize(
                                    t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8], bytes, executor);
                            },
                            6};

class AscendArguments : public AclTest, public ::testing::WithParamInterface<Operator> {
protected:
    std::vector<Described> good(const Extents &n = {}, aclDataType type = ACL_FLOAT, aclDataType index_type = ACL_INT64) {
        return GetParam().describe(n, type, index_type);
    }

    /// The first phase; an executor that comes out is destroyed.
    aclnnStatus first_phase(const std::vector<Described> &described, bool null_bytes = false, bool null_executor = false) {
        constexpr int64_t kPlace = int64_t{1} << 26;  // each tensor's own, never touched: a first phase looks at no data
        static std::vector<uint8_t> common(1 << 16);
        std::vector<aclTensor *> tensors;
        int64_t at = kPlace;
        for (const Described &d : described) {
            auto *data = reinterpret_cast<void *>(at);  // NOLINT(performance-no-int-to-ptr)
            at += kPlace;
            if (d.place >= 0) {
                data = common.data() + d.place;
            }
            const std::vector<int64_t> &storage = d.storage.empty() ? d.shape : d.storage;
            tensors.push_back(d.null_tensor
                                  ? nullptr
                                  : aclCreateTensor(d.shape.data(), d.shape.size(), d.type,
                                                    d.strides.empty() ? nullptr : d.strides.data(), d.offset, d.format,
                                                    storage.data(), storage.size(), d.null_data ? nullptr : data));
        }
        uint64_t bytes = 0;
        aclOpExecutor *executor = nullptr;
        recent_message();
        const aclnnStatus status =
            GetParam().first_phase(tensors, null_bytes ? nullptr : &bytes, null_executor ? nullptr : &executor);
        message = recent_message();
        EXPECT_EQ(message.empty(), status == ACL_SUCCESS) << message;
        EXPECT_EQ(executor != nullptr, status == ACL_SUCCESS);
        if (executor != nullptr) {
            EXPECT_EQ(aclDestroyAclOpExecutor(executor), ACL_SUCCESS);
        }
        for (aclTensor *tensor : tensors) {
            EXPECT_EQ(aclDestroyTensor(tensor), ACL_SUCCESS);
        }
        return status;
    }

    void expect_refused(const std::vector<Described> &described, aclnnStatus status, const std::string &words) {
        EXPECT_EQ(first_phase(described), status) << message;
        EXPECT_NE(message.find(words), std::string::npos) << "'" << message << "' does not say '" << words << "'";
    }

    std::string message;
};

TEST_P(AscendArguments, GoodOnesAreAccepted) {
    for (const aclDataType index_type : {ACL_INT32, ACL_INT64}) {
        EXPECT_EQ(first_phase(good({}, ACL_FLOAT, index_type)), ACL_SUCCESS) << message;
    }
    for (const aclFormat format : {ACL_FORMAT_NCHW, ACL_FORMAT_NHWC, ACL_FORMAT_NCDHW}) {
        std::vector<Described> tensors = good();
        tensors[0].format = format;
        EXPECT_EQ(first_phase(tensors), ACL_SUCCESS) << message;
    }
}

TEST_P(AscendArguments, NullPointers) {
    for (size_t i = 0; i < good().size(); i++) {
        std::vector<Described> tensors = good();
        tensors[i].null_tensor = true;
        expect_refused(tensors, kNullPointer, std::string(tensors[i].name) + ": expected a tensor, got NULL");
        tensors = good();
        tensors[i].null_data = true;
        expect_refused(tensors, kNullPointer, std::string(tensors[i].name) + ": expected tensorData, got NULL");
    }
    EXPECT_EQ(first_phase(good(), true), kNullPointer);
    EXPECT_NE(message.find("workspaceSize"), std::string::npos);
    EXPECT_EQ(first_phase(good(), false, true), kNullPointer);
    EXPECT_NE(message.find("executor"), std::string::npos);

    Extents no_queries;
    no_queries.queries = 0;
    std::vector<Described> empty = good(no_queries);
    for (Described &tensor : empty) {
        tensor.null_data = std::count(tensor.shape.begin(), tensor.shape.end(), 0) > 0;
    }
    EXPECT_EQ(first_phase(empty), ACL_SUCCESS) << "where there are no elements there need be no data: " << message;
}

TEST_P(AscendArguments, DestroyedTensors) {
    std::vector<aclTensor *> tensors(good().size());
    const std::vector<Described> described = good();
    float data[1000] = {};
    for (size_t i = 0; i < tensors.size(); i++) {
        const Described &d = described[i];
        tensors[i] =
            aclCreateTensor(d.shape.data(), d.shape.size(), d.type, nullptr, 0, d.format, d.shape.data(), d.shape.size(), data);
    }
    ASSERT_EQ(aclDestroyTensor(tensors[3]), ACL_SUCCESS);
    uint64_t bytes = 0;
    aclOpExecutor *executor = nullptr;
    EXPECT_EQ(GetParam().first_phase(tensors, &bytes, &executor), kInvalid);
    EXPECT_NE(recent_message().find("location"), std::string::npos);
    tensors[3] = reinterpret_cast<aclTensor *>(data);
    EXPECT_EQ(GetParam().first_phase(tensors, &bytes, &executor), kInvalid);
    for (size_t i = 0; i < tensors.size(); i++) {
        EXPECT_EQ(aclDestroyTensor(tensors[i]), i == 3 ? kInvalid : ACL_SUCCESS);
    }
}

TEST_P(AscendArguments, Types) {
    for (size_t i = 0; i < good().size(); i++) {
        const bool index = i == 1 || i == 2;
        const std::string name = good()[i].name;
        const std::pair<aclDataType, const char *> others[] = {{ACL_DOUBLE, "ACL_DOUBLE"},
                                                               {ACL_INT8, "ACL_INT8"},
                                                               {ACL_UINT32, "ACL_UINT32"},
                                                               {ACL_BOOL, "ACL_BOOL"},
                                                               {ACL_COMPLEX64, "ACL_COMPLEX64"},
                                                               {ACL_DT_UNDEFINED, "ACL_DT_UNDEFINED"},
                                                               {static_cast<aclDataType>(99), "aclDataType 99"}};
        for (const auto &[type, type_name] : others) {
            std::vector<Described> tensors = good();
            tensors[i].type = type;
            expect_refused(tensors, kInvalid,
                           name +
                               (index ? ": expected ACL_INT32 or ACL_INT64, got "
                                      : ": expected ACL_FLOAT, ACL_FLOAT16 or ACL_BF16, got ") +
                               type_name);
        }
        std::vector<Described> tensors = good();
        tensors[i].type = index ? ACL_FLOAT : ACL_INT32;
        expect_refused(tensors, kInvalid, name + ": expected ACL_");
        if (!index && i > 0) {
            tensors[i].type = ACL_FLOAT16;
            expect_refused(tensors, kInvalid, name + ": expected ACL_FLOAT as value, got ACL_FLOAT16");
        }
    }
    std::vector<Described> indices = good();
    indices[1].type = ACL_INT32;
    EXPECT_EQ(first_phase(indices), ACL_SUCCESS) << "index types may differ from each other: " << message;
}

TEST_P(AscendArguments, Formats) {
    for (size_t i = 0; i < good().size(); i++) {
        std::vector<Described> tensors = good();
        tensors[i].format = ACL_FORMAT_FRACTAL_NZ;
        expect_refused(tensors, kInvalid, std::string(tensors[i].name) + ": expected ACL_FORMAT_ND, got aclFormat 29");
    }
}

TEST_P(AscendArguments, Shapes) {
    for (size_t i = 0; i < good().size(); i++) {
        const Described as_it_should_be = good()[i];
        std::vector<Described> tensors = good();
        tensors[i].shape.push_back(1);
        // An output [bs, num_queries, num_heads * channels] with one more axis has the other shape's number of axes.
        expect_refused(tensors, kInvalid, std::string(tensors[i].name) + ": expected [");
        tensors = good();
        tensors[i].shape.clear();
        expect_refused(tensors, kInvalid, std::string(tensors[i].name) + ": expected [");
        for (size_t axis = 0; axis < as_it_should_be.shape.size(); axis++) {
            if (i == 0 && axis == 1) {
                continue;  // num_keys is what value says
            }
            for (const int64_t change : {-1, 1, 8}) {
                tensors = good();
                tensors[i].shape[axis] += change;
                if (i == 2 && change > 0) {
                    EXPECT_EQ(first_phase(tensors), ACL_SUCCESS) << "levelStartIndex may be longer: " << message;
                    continue;
                }
                EXPECT_EQ(first_phase(tensors), kInvalid) << tensors[i].name << ", axis " << axis << ": " << message;
                EXPECT_NE(message, "");
            }
        }
    }
    std::vector<Described> tensors = good();
    tensors[3].shape[2] = 5;
    expect_refused(
        tensors, kInvalid,
        "location: expected [bs, num_queries, num_heads, num_levels, num_points, 2] with num_heads = 2 as in value, got "
        "[2, 3, 5, 2, 2, 2]");
    tensors = good();
    tensors[1].shape[1] = 3;
    expect_refused(tensors, kInvalid, "spatialShape: expected [num_levels, 2], got [2, 3]");
}

TEST_P(AscendArguments, Limits) {
    struct Row {
        const char *axis;
        int64_t Extents::*extent;
        int64_t most, step;
    };
    const Row rows[] = {{"channels", &Extents::channels, 256, 8},
                        {"num_queries", &Extents::queries, 499999, 1},
                        {"num_levels", &Extents::levels, 16, 1},
                        {"num_heads", &Extents::heads, 16, 1},
                        {"num_points", &Extents::points, 16, 1}};
    for (const Row &row : rows) {
        Extents n;
        n.bs = n.keys = n.queries = 1;
        n.*row.extent = row.most;
        EXPECT_EQ(first_phase(good(n)), ACL_SUCCESS) << row.axis << ": " << message;
        n.*row.extent += row.step;
        expect_refused(good(n), kInvalid, std::string(row.axis) + ": expected at most " + std::to_string(row.most));
    }
    for (const int64_t channels : {1, 4, 12, 255}) {
        Extents n;
        n.channels = channels;
        expect_refused(good(n), kInvalid, "channels: expected a multiple of 8, got " + std::to_string(channels));
    }
}

TEST_P(AscendArguments, ViewsBeyondTheirStorage) {
    for (size_t i = 0; i < good().size(); i++) {
        const std::string name = good()[i].name;
        const auto refuse = [&](const std::vector<Described> &tensors) {
            expect_refused(tensors, kInvalid, name + ": expected a view within its storage");
        };
        std::vector<Described> tensors = good();
        tensors[i].offset = 1;
        refuse(tensors);
        tensors = good();
        tensors[i].offset = -1;
        refuse(tensors);
        tensors = good();
        tensors[i].strides.assign(tensors[i].shape.size(), -1);
        refuse(tensors);
        tensors[i].strides.assign(tensors[i].shape.size(), int64_t{1} << 62);
        refuse(tensors);
        tensors = good();
        tensors[i].storage = {1};
        refuse(tensors);
    }
}

TEST_P(AscendArguments, Overlaps) {
    for (size_t i = GetParam().inputs; i < good().size(); i++) {
        const std::string name = good()[i].name;
        std::vector<Described> tensors = good();
        tensors[i].strides.assign(tensors[i].shape.size(), 0);
        expect_refused(tensors, kInvalid, name + ": expected elements that do not overlap");
        for (const size_t other : {0, 3}) {
            tensors = good();
            tensors[i].place = 0;
            tensors[other].place = 64;
            expect_refused(tensors, kInvalid, "expected memory of its own");
            EXPECT_NE(message.find(name), std::string::npos) << message;
            EXPECT_NE(message.find(tensors[other].name), std::string::npos) << message;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Operators, AscendArguments, ::testing::Values(kForward, kBackward),
                         [](const auto &parameter) { return parameter.param.name; });

}  // namespace
}  // namespace deformkit::testing

#include "compat/ascend/arguments.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "compat/ascend/status.h"

namespace deformkit::ascend {

namespace {

struct TypeRow {
    aclDataType acl;
    const char *name;
    DLDataType dl;
    std::optional<Type> use;  // none: only its name is known
};

constexpr TypeRow kTypes[] = {
    {ACL_FLOAT, "ACL_FLOAT", {kDLFloat, 32, 1}, Type::kFloating},
    {ACL_FLOAT16, "ACL_FLOAT16", {kDLFloat, 16, 1}, Type::kFloating},
    {ACL_BF16, "ACL_BF16", {kDLBfloat, 16, 1}, Type::kFloating},
    {ACL_INT32, "ACL_INT32", {kDLInt, 32, 1}, Type::kIndex},
    {ACL_INT64, "ACL_INT64", {kDLInt, 64, 1}, Type::kIndex},
    {ACL_DT_UNDEFINED, "ACL_DT_UNDEFINED", {}, {}},
    {ACL_INT8, "ACL_INT8", {}, {}},
    {ACL_UINT8, "ACL_UINT8", {}, {}},
    {ACL_INT16, "ACL_INT16", {}, {}},
    {ACL_UINT16, "ACL_UINT16", {}, {}},
    {ACL_UINT32, "ACL_UINT32", {}, {}},
    {ACL_UINT64, "ACL_UINT64", {}, {}},
    {ACL_DOUBLE, "ACL_DOUBLE", {}, {}},
    {ACL_BOOL, "ACL_BOOL", {}, {}},
    {ACL_STRING, "ACL_STRING", {}, {}},
    {ACL_COMPLEX64, "ACL_COMPLEX64", {}, {}},
    {ACL_COMPLEX128, "ACL_COMPLEX128", {}, {}},
    {ACL_INT4, "ACL_INT4", {}, {}},
    {ACL_UINT1, "ACL_UINT1", {}, {}},
    {ACL_COMPLEX32, "ACL_COMPLEX32", {}, {}},
};

const TypeRow *type_row(aclDataType type) {
    const auto found = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeRow &row) { return row.acl == type; });
    return found == std::end(kTypes) ? nullptr : found;
}

std::string type_name(aclDataType type) {
    const TypeRow *row = type_row(type);
    return row != nullptr ? row->name : "aclDataType " + std::to_string(type);
}

[[noreturn]] void fail(int code, const char *name, const std::string &expected, const std::string &got) {
    throw Error(code, std::string(name) + ": expected " + expected + ", got " + got);
}

/// Formats whose elements lie where the strides say.
bool is_plain(aclFormat format) {
    constexpr aclFormat kPlain[] = {ACL_FORMAT_ND,    ACL_FORMAT_NCHW,  ACL_FORMAT_NHWC, ACL_FORMAT_HWCN,
                                    ACL_FORMAT_NCDHW, ACL_FORMAT_NDHWC, ACL_FORMAT_NC,   ACL_FORMAT_NCL};
    return std::find(std::begin(kPlain), std::end(kPlain), format) != std::end(kPlain);
}

std::string text(const std::vector<const char *> &axes) {
    std::string text;
    for (const char *axis : axes) {
        text += (text.empty() ? "[" : ", ") + std::string(axis, std::strcspn(axis, "+"));
    }
    return text + "]";
}

}  // namespace

Arguments::Arguments(const std::vector<Argument> &arguments) : arguments_(arguments), tensors_(arguments.size()) {
    for (const Argument &argument : arguments) {
        if (argument.tensor == nullptr) {
            fail(kNullPointer, argument.name, "a tensor", "NULL");
        }
    }
    for (size_t i = 0; i < arguments.size(); i++) {
        const auto view = tensors().find(arguments[i].tensor);
        if (view == nullptr) {
            fail(kInvalid, arguments[i].name, "a tensor from aclCreateTensor that has not been destroyed", "something else");
        }
        tensors_[i].view = *view;
    }
    for (size_t i = 0; i < arguments.size(); i++) {
        check_type(arguments[i], tensors_[i].view);
    }
    for (size_t i = 0; i < arguments.size(); i++) {
        const Argument &argument = arguments[i];
        TensorView &view = tensors_[i].view;
        if (!is_plain(view.format)) {
            fail(kInvalid, argument.name, "ACL_FORMAT_ND", "aclFormat " + std::to_string(view.format));
        }
        check_shape(argument, view);
        if (!view.fits_storage()) {
            throw Error(kInvalid, std::string(argument.name) + ": expected a view within its storage " + view.storage.text() +
                                      ", got one that reaches beyond");
        }
        drop_surplus(argument, view);
        if (view.data == nullptr && !view.empty()) {
            fail(kNullPointer, argument.name, "tensorData", "NULL");
        }
        const DLDataType dtype = type_row(view.type)->dl;
        DLTensor &dl = tensors_[i].dl;
        dl = {};
        dl.data = view.data;
        dl.device = {kDLCPU, 0};
        dl.ndim = static_cast<int32_t>(view.shape.count);
        dl.dtype = dtype;
        dl.shape = view.shape.extents.data();
        dl.strides = view.strides.data();
        dl.byte_offset = view.empty() ? 0 : static_cast<uint64_t>(view.offset) * (dtype.bits / 8);
    }
}

void Arguments::check_type(const Argument &argument, const TensorView &view) {
    const TypeRow *row = type_row(view.type);
    if (row == nullptr || row->use != argument.type) {
        fail(kInvalid, argument.name,
             argument.type == Type::kIndex ? "ACL_INT32 or ACL_INT64" : "ACL_FLOAT, ACL_FLOAT16 or ACL_BF16",
             type_name(view.type));
    }
    if (argument.type == Type::kFloating) {
        if (floating_ == nullptr) {
            floating_ = &view;
            floating_name_ = argument.name;
        } else if (view.type != floating_->type) {
            fail(kInvalid, argument.name, type_name(floating_->type) + " as " + floating_name_, type_name(view.type));
        }
    }
}

void Arguments::check_shape(const Argument &argument, const TensorView &view) {
    const std::vector<const char *> *axes = nullptr;
    std::string expected;
    for (const auto &choice : argument.axes) {
        expected += (expected.empty() ? "" : " or ") + text(choice);
        if (choice.size() == view.shape.count) {
            axes = &choice;
        }
    }
    if (axes == nullptr) {
        fail(kInvalid, argument.name, expected, view.shape.text());
    }
    for (size_t i = 0; i < axes->size(); i++) {
        const std::string axis = (*axes)[i];
        const int64_t got = view.shape.extents[i];
        const auto require = [&](int64_t extent, const std::string &reason) {
            if (got != extent) {
                expected.append(" with ").append(axis).append(" = ").append(std::to_string(extent)).append(reason);
                fail(kInvalid, argument.name, expected, view.shape.text());
            }
        };
        if (axis.back() == '+') {
            if (got < extent(axis.substr(0, axis.size() - 1))) {
                require(extent(axis.substr(0, axis.size() - 1)), " or more");
            }
        } else if (const size_t star = axis.find('*'); star != std::string::npos) {
            require(extent(axis.substr(0, star)) * extent(axis.substr(star + 1)), "");
        } else if (std::isdigit(static_cast<unsigned char>(axis[0]))) {
            if (got != std::atoll(axis.c_str())) {
                fail(kInvalid, argument.name, expected, view.shape.text());
            }
        } else if (const auto [known, is_new] = extents_.try_emplace(axis, Extent{got, argument.name}); !is_new) {
            require(known->second.value, std::string(" as in ") + known->second.argument);
        }
    }
}

void Arguments::drop_surplus(const Argument &argument, TensorView &view) const {
    const std::vector<const char *> &axes = argument.axes.front();
    for (size_t i = 0; i < axes.size(); i++) {
        if (const std::string axis = axes[i]; axis.back() == '+') {
            view.shape.extents[i] = extent(axis.substr(0, axis.size() - 1));
        }
    }
}

std::string Arguments::translate(const std::string &message) const {
    const auto is_name_character = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
    std::string result;
    for (size_t i = 0; i < message.size();) {
        size_t end = i;
        while (end < message.size() && is_name_character(message[end])) {
            end++;
        }
        std::string word = message.substr(i, std::max<size_t>(end - i, 1));
        for (const Argument &argument : arguments_) {
            if (word == argument.library_name) {
                word = argument.name;
                break;
            }
        }
        result += word;
        i = std::max(end, i + 1);
    }
    return result;
}

}  // namespace deformkit::ascend

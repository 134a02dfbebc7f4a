// One small call in a process with an environment of its own (environment_probe.cpp).
#pragma once

#include <deformkit/deformkit.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/child.h"

namespace deformkit::testing {

/// `environment`: NAME=VALUE..., as env(1) takes them. Fails the test if what the call wrote is wrong.
inline ChildResult probe(const std::string &environment) {
    ChildResult result = run_command("env " + environment + " '" DEFORMKIT_PROBE "'");
    EXPECT_EQ(result.status, 0) << environment << ": " << result.output;
    return result;
}

inline bool contains(const ChildResult &result, const std::string &word) {
    return result.output.find(word) != std::string::npos;
}

inline bool has_status(const ChildResult &result, deformkit_status status) {
    return contains(result, "status=" + std::to_string(status) + "\n");
}

}  // namespace deformkit::testing

// The shared library exports its interface and nothing else, so that another Halide-built library in the process does no harm.
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "child.h"

namespace deformkit::testing {
namespace {

TEST(Symbols, OnlyTheInterfaceIsExported) {
    const ChildResult nm = run_command("'" DEFORMKIT_NM "' -D --defined-only '" DEFORMKIT_LIBRARY "'");
    ASSERT_EQ(nm.status, 0) << nm.output;
    std::set<std::string> names;
    std::istringstream lines(nm.output);
    for (std::string address, type, name; lines >> address >> type >> name;) {
        EXPECT_EQ(name.rfind("deformkit_", 0), 0u) << name << " is exported";
        names.insert(name);
    }
    const std::set<std::string> expected = {"deformkit_last_error",   "deformkit_last_variant",    "deformkit_msda_backward",
                                            "deformkit_msda_forward", "deformkit_set_num_threads", "deformkit_set_target",
                                            "deformkit_version"};
    EXPECT_EQ(names, expected);
}

}  // namespace
}  // namespace deformkit::testing

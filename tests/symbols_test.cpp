// The shared libraries export their interfaces and nothing else, so that another Halide-built library in the process does no
// harm.
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "tests/child.h"

namespace deformkit::testing {
namespace {

std::set<std::string> exported_names(const std::string &library) {
    const ChildResult nm = run_command("'" DEFORMKIT_NM "' -D --defined-only '" + library + "'");
    EXPECT_EQ(nm.status, 0) << nm.output;
    std::set<std::string> names;
    std::istringstream lines(nm.output);
    for (std::string address, type, name; lines >> address >> type >> name;) {
        names.insert(name);
    }
    return names;
}

TEST(Symbols, OnlyTheInterfaceIsExported) {
    const std::set<std::string> names = exported_names(DEFORMKIT_LIBRARY);
    const std::set<std::string> expected = {"deformkit_deformable_aggregation_backward",
                                            "deformkit_deformable_aggregation_forward",
                                            "deformkit_geometric_kernel_attention_backward",
                                            "deformkit_geometric_kernel_attention_forward",
                                            "deformkit_get_num_threads",
                                            "deformkit_last_error",
                                            "deformkit_last_variant",
                                            "deformkit_msda_backward",
                                            "deformkit_msda_forward",
                                            "deformkit_set_num_threads",
                                            "deformkit_set_target",
                                            "deformkit_version"};
    EXPECT_EQ(names, expected);
}

/// Declared in the headers: every name that a "(" follows in a line with ACL_FUNC_VISIBILITY.
TEST(Symbols, TheVendorsInterfaceIsExportedAndNothingElse) {
    const ChildResult declared = run_command("grep -rhoE 'ACL_FUNC_VISIBILITY .*\\(' '" DEFORMKIT_ASCEND_HEADERS
                                             "' | grep -oE 'acl[A-Za-z0-9]+\\(' | tr -d '('");
    ASSERT_EQ(declared.status, 0) << declared.output;
    std::set<std::string> expected;
    std::istringstream lines(declared.output);
    for (std::string name; lines >> name;) {
        expected.insert(name);
    }
    EXPECT_GT(expected.size(), 40u);
    EXPECT_EQ(exported_names(DEFORMKIT_ASCEND_LIBRARY), expected);
}

}  // namespace
}  // namespace deformkit::testing

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

/// Declared in headers: every name that a "(" follows in a declaration that begins with `mark`.
std::set<std::string> declared_names(const std::string &mark, const std::string &headers) {
    const ChildResult declared =
        run_command("cat $(find '" + headers + "' -name '*.h') | grep -v '^#' | tr '\\n' ' ' | grep -oE '" + mark +
                    " [^(;]*\\(' | grep -oE '[A-Za-z0-9_]+\\($' | tr -d '('");
    EXPECT_EQ(declared.status, 0) << declared.output;
    std::set<std::string> names;
    std::istringstream lines(declared.output);
    for (std::string name; lines >> name;) {
        names.insert(name);
    }
    return names;
}

TEST(Symbols, OnlyTheInterfaceIsExported) {
    const std::set<std::string> declared = declared_names("DEFORMKIT_API", DEFORMKIT_HEADERS);
    EXPECT_GE(declared.size(), 12u);
    EXPECT_EQ(exported_names(DEFORMKIT_LIBRARY), declared);
}

TEST(Symbols, TheVendorsInterfaceIsExportedAndNothingElse) {
    const std::set<std::string> declared = declared_names("ACL_FUNC_VISIBILITY", DEFORMKIT_ASCEND_HEADERS);
    EXPECT_GT(declared.size(), 40u);
    EXPECT_EQ(exported_names(DEFORMKIT_ASCEND_LIBRARY), declared);
}

}  // namespace
}  // namespace deformkit::testing

#include "tests/support/expected.h"

#include <algorithm>
#include <cmath>

namespace deformkit::testing {

bool agrees(Type type, double result, double expected, double tolerance) {
    if (std::isnan(expected)) {
        return std::isnan(result);
    }
    if (std::isinf(expected)) {
        return result == expected;
    }
    return nearest(type, expected - tolerance) <= result && result <= nearest(type, expected + tolerance);
}

bool Expected::allows(int64_t i, double got, Type type) const {
    const auto close = [&](double want, double margin) {
        return any_nonfinite && !std::isfinite(want) ? !std::isfinite(got) : agrees(type, got, want, margin);
    };
    const auto others = alternatives.find(i);
    return close(values[i], tolerances[i]) ||
           (others != alternatives.end() && std::any_of(others->second.begin(), others->second.end(),
                                                        [&](const Number &n) { return close(n.value, n.tolerance); }));
}

void Expected::append(const Expected &next) {
    const auto count = static_cast<int64_t>(values.size());
    values.insert(values.end(), next.values.begin(), next.values.end());
    tolerances.insert(tolerances.end(), next.tolerances.begin(), next.tolerances.end());
    for (const auto &[at, numbers] : next.alternatives) {
        alternatives[count + at] = numbers;
    }
    any_nonfinite |= next.any_nonfinite;
}

}  // namespace deformkit::testing

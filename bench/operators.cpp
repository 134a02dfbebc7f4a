#include "operators.h"

namespace deformkit::bench {

const std::vector<Pass> &passes() {
    static const std::vector<Pass> all = {msda_forward(), msda_backward()};
    return all;
}

}  // namespace deformkit::bench

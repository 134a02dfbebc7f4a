#include "operators.h"

namespace deformkit::bench {

const std::vector<Pass> &passes() {
    static const std::vector<Pass> all = {msda_forward(), msda_backward(), da_forward(),
                                          da_backward(),  gka_forward(),   gka_backward()};
    return all;
}

}  // namespace deformkit::bench

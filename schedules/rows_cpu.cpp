#include "schedules/rows.h"

namespace deformkit {

using namespace Halide;

// Bound by memory: a vector of maxima, and one reduction of that at the end.
void schedule_rows_magnitude_cpu(RowsMagnitude &f, int lanes) {
    RVar v{"v"}, lane{"lane"};
    Var u{"u"};
    f.largest.compute_root().update().split(f.elements.x, v, lane, lanes);
    Func lanewise = f.largest.update().rfactor(lane, u);
    lanewise.compute_root().vectorize(u, lanes).update().reorder(u, v, f.elements.y, f.elements.z).vectorize(u, lanes);
}

}  // namespace deformkit

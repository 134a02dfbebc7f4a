// What autoschedulers are told of a call: sizes of the largest workload.
#pragma once

#include <initializer_list>

namespace deformkit {

/// Extents, fastest axis first; minima are zero.
template <typename Buffer>
void estimate(Buffer &buffer, std::initializer_list<int> extents) {
    int axis = 0;
    for (const int extent : extents) {
        buffer.dim(axis++).set_estimate(0, extent);
    }
}

}  // namespace deformkit

// Where each query looks, and how much it takes from there.
#pragma once

#include "demo/features.h"

namespace demo {

/// One query per cell of the pyramid, as in the encoder of Deformable DETR; query q sits at the centre of cell q.
struct Queries {
    int64_t count = 0;
    Floats locations;  ///< [count, kHeads, kLevels, kPoints, 2], (x, y) in [0, 1]
    Floats weights;    ///< [count, kHeads, kLevels, kPoints], summing to 1 for each head

    const float *location(int64_t query, int head, int level, int point) const {
        return locations.get() + 2 * (((query * kHeads + head) * kLevels + level) * kPoints + point);
    }
    float weight(int64_t query, int head, int level, int point) const {
        return weights[((query * kHeads + head) * kLevels + level) * kPoints + point];
    }
};

/// Two small linear layers on the query's features give these numbers in a trained model. Here, the pattern that training
/// starts from (head m looks in direction m, point p is p + 1 cells away) is stretched along edges, narrowed across them and
/// widened where the picture is flat; the weights are a softmax of how alike the features of sample and query are, over
/// the samples on the picture.
Queries make_queries(const Features &features);

}  // namespace demo

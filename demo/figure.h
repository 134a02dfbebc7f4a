// The picture that the demo writes.
#pragma once

#include <string>

#include "demo/queries.h"

namespace demo {

/// Left, the photograph with the sampling points of a few queries; right, what every query of the finest level gathered, once
/// as colour (channels 0-2) and once as the three principal components of all channels. `output` is [queries, kHeads,
/// kChannels]; `caption` is a line of text below.
Picture draw_figure(const Picture &photograph, const Features &features, const Queries &queries, const float *output,
                    const std::string &caption);

}  // namespace demo

// Numbers of the whole library that a machine decides.
#pragma once

#include "schedules/library_knobs.h"

namespace deformkit {

/// Their values are in the dispatch table, as those of variants are.
const LibraryHostKnobs &library_knobs();

}  // namespace deformkit

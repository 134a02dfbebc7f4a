// The device, and what each thread has made current.
#pragma once

#include <memory>

#include "compat/ascend/stream.h"

namespace deformkit::ascend {

/// Throws an Error unless this thread has a current device.
void require_device();

/// The default stream of this thread's current context; the same.
std::shared_ptr<Stream> default_stream();

}  // namespace deformkit::ascend

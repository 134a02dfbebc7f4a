// Host knobs as users see them: by name, and out of a file of their own.
#pragma once

namespace deformkit {

/// Loads the user's file of knobs, once: at the first call that reads any. What is wrong with it is said on stderr, and all knobs
/// stay as they were.
void read_user_knobs() noexcept;

}  // namespace deformkit

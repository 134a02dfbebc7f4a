// Programs and forked children, run to their end.
#pragma once

#include <functional>
#include <string>

namespace deformkit::testing {

struct ChildResult {
    int status = -1;     ///< exit status, or -1 if a signal ended it
    std::string output;  ///< what it printed, stdout and stderr together
};

/// A command line for the shell.
ChildResult run_command(const std::string &command);

/// A fork of this process: `body` returns the exit status, and `output` is what it wrote to stderr. Ended after a minute.
ChildResult run_in_fork(const std::function<int()> &body);

}  // namespace deformkit::testing

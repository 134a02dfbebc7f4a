#include "tests/child.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>

namespace deformkit::testing {

namespace {

int exit_status(int wait_status) {
    return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1;
}

}  // namespace

ChildResult run_command(const std::string &command) {
    FILE *pipe = popen((command + " 2>&1").c_str(), "r");
    if (pipe == nullptr) {
        throw std::runtime_error("popen failed");
    }
    ChildResult result;
    char buffer[4096];
    for (size_t n; (n = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) {
        result.output.append(buffer, n);
    }
    result.status = exit_status(pclose(pipe));
    return result;
}

ChildResult run_in_fork(const std::function<int()> &body) {
    int ends[2];
    if (pipe(ends) != 0) {
        throw std::runtime_error("pipe failed");
    }
    const pid_t child = fork();
    if (child < 0) {
        throw std::runtime_error("fork failed");
    }
    if (child == 0) {
        alarm(60);  // a deadlock ends the child, and with it the test
        close(ends[0]);
        dup2(ends[1], STDERR_FILENO);
        _exit(body());
    }
    close(ends[1]);
    ChildResult result;
    char buffer[4096];
    for (ssize_t n; (n = read(ends[0], buffer, sizeof(buffer))) > 0;) {
        result.output.append(buffer, static_cast<size_t>(n));
    }
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    result.status = exit_status(status);
    return result;
}

}  // namespace deformkit::testing

// How failures travel inside the library: a Failure is thrown, and guarded() turns it into a status at the C boundary.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "deformkit/deformkit.h"

namespace deformkit {

class Failure : public std::exception {
public:
    Failure(deformkit_status status, std::string message) : status_(status), message_(std::move(message)) {}

    deformkit_status status() const { return status_; }
    const char *what() const noexcept override { return message_.c_str(); }

private:
    deformkit_status status_;
    std::string message_;
};

/// Records this thread's last failure and returns its status.
deformkit_status record_failure(deformkit_status status, const char *message) noexcept;

template <typename Body>
deformkit_status guarded(Body &&body) noexcept {
    try {
        body();
        return DEFORMKIT_OK;
    } catch (const Failure &failure) {
        return record_failure(failure.status(), failure.what());
    } catch (const std::bad_alloc &) {
        return record_failure(DEFORMKIT_OUT_OF_MEMORY, "out of memory");
    } catch (const std::exception &e) {
        return record_failure(DEFORMKIT_INTERNAL_ERROR, e.what());
    }
}

}  // namespace deformkit

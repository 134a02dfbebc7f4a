#include "runtime/system/locks.h"

#include <pthread.h>

#include <type_traits>

namespace deformkit {

namespace {

// Neither constructed nor destroyed: threads may call before and after all that is.
std::mutex mutexes[kLocks];
static_assert(std::is_trivially_destructible_v<std::mutex>);

void take_all() {
    for (std::mutex &mutex : mutexes) {
        mutex.lock();
    }
}

void release_all() {
    for (std::mutex &mutex : mutexes) {
        mutex.unlock();
    }
}

// While the library is loaded, before anything else of it runs. The handlers go with it.
[[gnu::constructor(101)]] void handle_forks() {
    pthread_atfork(take_all, release_all, release_all);
}

}  // namespace

std::mutex &mutex_of(Lock lock) {
    return mutexes[static_cast<int>(lock)];
}

}  // namespace deformkit

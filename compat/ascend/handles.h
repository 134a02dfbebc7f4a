// What callers hold of objects in here: numbers dressed as pointers, never used twice, so that one that is stale, of another
// kind or made up is recognised instead of followed.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace deformkit::ascend {

/// Of all kinds of objects together.
uintptr_t next_handle();

template <typename T>
class Handles {
public:
    void *add(std::shared_ptr<T> object) {
        const uintptr_t handle = next_handle();
        std::lock_guard<std::mutex> lock(mutex_);
        objects_.emplace(handle, std::move(object));
        return reinterpret_cast<void *>(handle);  // NOLINT(performance-no-int-to-ptr): nobody follows it
    }

    /// nullptr if there is no such object (any more).
    std::shared_ptr<T> find(const void *handle) const {
        std::lock_guard<std::mutex> lock(mutex_);
        const auto found = objects_.find(reinterpret_cast<uintptr_t>(handle));
        return found == objects_.end() ? nullptr : found->second;
    }

    /// The same, and the handle is no longer valid.
    std::shared_ptr<T> take(const void *handle) {
        std::lock_guard<std::mutex> lock(mutex_);
        const auto found = objects_.find(reinterpret_cast<uintptr_t>(handle));
        if (found == objects_.end()) {
            return nullptr;
        }
        std::shared_ptr<T> object = std::move(found->second);
        objects_.erase(found);
        return object;
    }

    std::vector<std::shared_ptr<T>> all() const {
        std::lock_guard<std::mutex> lock(mutex_);
        std::vector<std::shared_ptr<T>> objects;
        for (const auto &[handle, object] : objects_) {
            objects.push_back(object);
        }
        return objects;
    }

private:
    mutable std::mutex mutex_;
    std::unordered_map<uintptr_t, std::shared_ptr<T>> objects_;
};

}  // namespace deformkit::ascend

#pragma once

// StatusBoard hands snapshots from the loop's thread to the HTTP server's. A snapshot that hangs
// there is never changed: the next one takes its place, and whoever reads the old one keeps it.

#include <memory>
#include <mutex>
#include <utility>

#include "app/status/status_snapshot.h"

namespace moonfence::app {

class StatusBoard {
 public:
  void publish(std::shared_ptr<const StatusSnapshot> snapshot) {
    const std::scoped_lock lock(mutex_);
    // The old one ends after the lock, unless somebody still reads it.
    snapshot_.swap(snapshot);
  }

  // Null until the first was published.
  [[nodiscard]] std::shared_ptr<const StatusSnapshot> read() const {
    const std::scoped_lock lock(mutex_);
    return snapshot_;
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const StatusSnapshot> snapshot_;
};

}  // namespace moonfence::app

#include "sim/ground/work_queue.h"

#include <utility>

namespace moonfence::sim {

using namespace std::chrono_literals;

WorkQueue::WorkQueue(const Ground& ground, std::string_view name, Work work)
    : ground_(ground), random_(ground.random.fork(name)), work_(std::move(work)) {}

void WorkQueue::add_after(const std::string& key, Duration delay) {
  Waiting& waiting = waiting_[key];
  const Duration wait = delay + between(*random_, 500us, 3ms);
  const Moment due = ground_.loop.now() + wait;
  if (waiting.timer.pending() && waiting.due <= due) {
    return;
  }
  waiting.due = due;
  waiting.timer = ground_.loop.after(wait, [this, key] {
    waiting_.erase(key);
    work_(key);
  });
}

}  // namespace moonfence::sim

#include "loop/turn_queue.h"

#include <algorithm>
#include <utility>

namespace moonfence::loop {

std::unique_ptr<TurnQueue::Ticket> TurnQueue::queue(std::function<void()> begin) {
  auto ticket = std::make_unique<Ticket>(*this, std::move(begin));
  queue_.push_back(ticket.get());
  if (queue_.size() == 1) {
    call_first();
  }
  return ticket;
}

void TurnQueue::leave(const Ticket& ticket) {
  const bool was_first = queue_.front() == &ticket;
  std::erase(queue_, &ticket);
  if (was_first) {
    call_first();
  }
}

void TurnQueue::call_first() {
  next_.cancel();
  if (!queue_.empty()) {
    next_ = loop_.in_next_turn([this] {
      const std::function<void()> begin = queue_.front()->begin_;  // it may end the ticket
      begin();
    });
  }
}

}  // namespace moonfence::loop

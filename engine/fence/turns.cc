#include "fence/turns.h"

#include <algorithm>
#include <utility>

namespace moonfence::fence {

std::unique_ptr<Turns::Ticket> Turns::queue(std::function<void()> begin) {
  auto ticket = std::make_unique<Ticket>(*this, std::move(begin));
  queue_.push_back(ticket.get());
  if (queue_.size() == 1) {
    call_first();
  }
  return ticket;
}

void Turns::leave(const Ticket& ticket) {
  const bool was_first = queue_.front() == &ticket;
  std::erase(queue_, &ticket);
  if (was_first) {
    call_first();
  }
}

void Turns::call_first() {
  next_.cancel();
  if (!queue_.empty()) {
    next_ = loop_.in_next_turn([this] {
      const std::function<void()> begin = queue_.front()->begin_;  // it may end the ticket
      begin();
    });
  }
}

}  // namespace moonfence::fence
